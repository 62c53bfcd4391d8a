/*
 * Tests of the calls about the whole target: what changed there, and where it
 * differs.
 */
#include "../pawl.c"

#include <stdio.h>

static void check(bool ok, int line, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "whole.c:%d: %s\n", line, what);
    exit(1);
}

#define CHECK(ok) check(ok, __LINE__, #ok)

/* ---- an adapter that tells what it was asked ---- */

static pawl_result poll(pawl_call *call, pawl_str cursor, pawl_changes *changes) {
    static const pawl_seen seen[] = {{.key = PAWL_STR_INIT("a"), .observation = {.exists = true}}, {.key = PAWL_STR_INIT("b")}};
    *changes = (pawl_changes){.seen = seen, .seen_count = 2, .cursor = PAWL_CAT(call, cursor, PAWL_STR("+")), .more = true};
    if (pawl_equal(cursor, PAWL_STR("busy")))
        return pawl_fail(PAWL_RETRY, PAWL_STR("later"));
    if (pawl_equal(cursor, PAWL_STR("many")))
        changes->seen_count = PAWL_MAX_SEEN + 1;
    return pawl_success();
}

static pawl_result compare(pawl_call *call, const pawl_comparison *c, pawl_difference *d) {
    pawl_str *epoch = pawl_alloc(call, sizeof *epoch);
    *epoch = c->epoch;
    *d = (pawl_difference){.extra = epoch, .extra_count = 1};
    if (c->leaf_count)
        d->items = &c->leaves[0].items[0].key, d->item_count = 1;
    return c->node_count ? pawl_success() : pawl_fail(PAWL_REJECTED, PAWL_STR("of what?"));
}

const pawl_adapter pawl_plugin = {.manifest = {.name = "whole", .reports_content = true}, .poll = poll, .compare = compare};

pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *request) {
    (void)call, (void)request;
    return (pawl_http_response){.status = 200};
}

/* ---- the tests ---- */

static void a_poll_is_answered(pawl_call *c) {
    pawl_changes got;
    CHECK(pawltest_poll(c, PAWL_STR("17"), &got).status == PAWL_OK);
    CHECK(got.seen_count == 2 && got.seen[0].observation.exists && !got.seen[1].observation.exists);
    CHECK(pawl_equal(got.cursor, PAWL_STR("17+")) && got.more && !got.reset);
    CHECK(pawltest_poll(c, PAWL_STR("busy"), &got).status == PAWL_RETRY && !got.seen_count && !got.cursor.len);
    pawl_result many = pawltest_poll(c, PAWL_STR("many"), &got);
    CHECK(many.status == PAWL_REJECTED && !got.seen_count);
    CHECK(pawl_equal(many.message, PAWL_STR("the adapter told of 10001 objects in one poll, more than the 10000 allowed")));
}

static void a_comparison_is_answered(pawl_call *c) {
    const pawl_compare_node node = {.count = 1};
    const pawl_compare_item item = {.key = PAWL_STR("k")};
    const pawl_compare_leaf leaf = {.items = &item, .item_count = 1};
    pawl_comparison q = {.epoch = PAWL_STR("e"), .nodes = &node, .node_count = 1, .leaves = &leaf, .leaf_count = 1};
    pawl_difference got;
    CHECK(pawltest_compare(c, &q, &got).status == PAWL_OK);
    CHECK(got.extra_count == 1 && pawl_equal(got.extra[0], PAWL_STR("e")));
    CHECK(got.item_count == 1 && pawl_equal(got.items[0], PAWL_STR("k")));
    q.node_count = 0;
    CHECK(pawltest_compare(c, &q, &got).status == PAWL_REJECTED && !got.extra_count);
}

static void the_operations_are_told(void) {
    CHECK(manifest_of(&pawl_plugin.manifest).ops == (PAWL_OP_POLL | PAWL_OP_COMPARE));
}

int main(void) {
    pawl_call *c = pawltest_begin();
    a_poll_is_answered(c);
    a_comparison_is_answered(c);
    the_operations_are_told();
    pawltest_end(c);
    return 0;
}
