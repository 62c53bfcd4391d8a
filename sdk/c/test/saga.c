/*
 * Tests of what a call has that belongs to a saga: which function it comes to,
 * what is asked of it, and what its answer may hold.
 */
#include "../pawl.c"

#include <stdio.h>
#include <string.h>

static void check(bool ok, int line, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "saga.c:%d: %s\n", line, what);
    exit(1);
}

#define CHECK(ok) check(ok, __LINE__, #ok)

/* ---- an adapter that answers what it was told ---- */

static pawl_result observe(pawl_call *call, const pawl_request *r) {
    (void)call;
    pawl_result result = pawl_success();
    result.observation.exists = true;
    result.observation.content = r->payload;
    return result;
}

static pawl_result restore(pawl_call *call, const pawl_request *r) {
    pawl_result result = pawl_success();
    const pawl_image *before = r->saga->before;
    result.observation.exists = before->exists;
    result.observation.ref = PAWL_CAT(call, r->saga->id, PAWL_STR(" "), before->cid, PAWL_STR(" "), before->content);
    return result;
}

static pawl_result unlock(pawl_call *call, const pawl_request *r) {
    return pawl_fail(PAWL_RETRY, r->saga->lock_count == 2 ? PAWL_CAT(call, r->saga->locks[0], r->saga->locks[1]) : PAWL_STR(""));
}

const pawl_adapter pawl_plugin = {
    .manifest = {.name = "saga"}, .observe = observe, .apply = observe, .restore = restore, .unlock = unlock};

pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *request) {
    (void)call, (void)request;
    return (pawl_http_response){.status = 200};
}

/* ---- the tests ---- */

static void the_operations_come_to_their_functions(pawl_call *c) {
    const pawl_str locks[] = {PAWL_STR_INIT("0a"), PAWL_STR_INIT("0b")};
    const pawl_image before = {.exists = true, .cid = PAWL_STR("v1"), .content = PAWL_STR("was")};
    const pawl_saga_run run = {.id = PAWL_STR("r"), .locks = locks, .lock_count = 2, .before = &before};
    pawl_request q = {.key = PAWL_STR("k"), .saga = &run};

    pawl_result got = pawltest_run(c, PAWL_OP_RESTORE, &q);
    CHECK(got.status == PAWL_OK && pawl_equal(got.observation.ref, PAWL_STR("r v1 was")));
    got = pawltest_run(c, PAWL_OP_UNLOCK, &q);
    CHECK(got.status == PAWL_RETRY && pawl_equal(got.message, PAWL_STR("0a0b")));

    pawl_manifest m = manifest_of(&pawl_plugin.manifest);
    CHECK(m.ops == (PAWL_OP_OBSERVE | PAWL_OP_APPLY | PAWL_OP_UNLOCK | PAWL_OP_RESTORE));
}

/* Restoring to nothing is no "not found": it is done. */
static void what_was_not_there_is_restored(pawl_call *c) {
    const pawl_image nothing = {0};
    const pawl_saga_run run = {.before = &nothing};
    pawl_request q = {.saga = &run};
    CHECK(pawltest_run(c, PAWL_OP_RESTORE, &q).status == PAWL_OK);
}

static void what_a_saga_must_say_is_asked_for(pawl_call *c) {
    const pawl_saga_run run = {0};
    pawl_request none = {0}, q = {.saga = &run};
    CHECK(pawltest_run(c, PAWL_OP_RESTORE, &none).status == PAWL_REJECTED);
    CHECK(pawltest_run(c, PAWL_OP_UNLOCK, &none).status == PAWL_REJECTED);
    CHECK(pawltest_run(c, PAWL_OP_RESTORE, &q).status == PAWL_REJECTED);
    CHECK(pawltest_run(c, PAWL_OP_UNLOCK, &q).status == PAWL_RETRY);
}

static void an_image_is_bounded(pawl_call *c) {
    const pawl_image image = {0};
    const pawl_saga_run first = {0}, later = {.before = &image};
    char *large = pawl_alloc(c, PAWL_MAX_IMAGE + 1);
    pawl_request q = {.payload = {large, PAWL_MAX_IMAGE + 1}, .saga = &first};
    pawl_result got = pawltest_run(c, PAWL_OP_OBSERVE, &q);
    CHECK(got.status == PAWL_REJECTED && !got.observation.content.len);
    CHECK(pawl_has_prefix(got.message, PAWL_STR("the object has 1048577 bytes, more than the 1048576 ")));
    q.payload.len--;
    CHECK(pawltest_run(c, PAWL_OP_OBSERVE, &q).status == PAWL_OK);
    q.payload.len++;
    q.saga = &later;
    CHECK(pawltest_run(c, PAWL_OP_OBSERVE, &q).status == PAWL_OK);
    q.saga = NULL;
    CHECK(pawltest_run(c, PAWL_OP_OBSERVE, &q).status == PAWL_OK);
}

int main(void) {
    pawl_call *c = pawltest_begin();
    the_operations_come_to_their_functions(c);
    what_was_not_there_is_restored(c);
    what_a_saga_must_say_is_asked_for(c);
    an_image_is_bounded(c);
    pawltest_end(c);
    return 0;
}
