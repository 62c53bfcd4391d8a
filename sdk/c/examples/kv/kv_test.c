/* Tests of kv as a native program, against a store of one object. */
#include "pawltest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(bool ok, int line, const char *what) {
    if (ok)
        return;
    fprintf(stderr, "kv_test.c:%d: %s\n", line, what);
    exit(1);
}

#define CHECK(ok) check(ok, __LINE__, #ok)

/* ---- the store ---- */

static char stored[256], path[256];
static size_t stored_len;
static bool exists;
static unsigned writes;
static pawl_http_response next; /* comes instead of the store's answer, where it has a status or a failure */

static void keep(char *to, pawl_str s) {
    CHECK(s.len < 256);
    memcpy(to, s.data, s.len);
    to[s.len] = 0;
}

pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *q) {
    (void)call;
    pawl_http_response answer = next;
    memset(&next, 0, sizeof next);
    CHECK(pawl_equal(q->upstream, PAWL_STR(PAWLTEST_UPSTREAM)));
    keep(path, q->path);
    if (answer.status || answer.failure)
        return answer;
    answer.status = 200;
    if (pawl_equal(q->method, PAWL_STR("PUT"))) {
        keep(stored, q->body);
        stored_len = q->body.len;
        exists = true;
        writes++;
    } else if (!exists) {
        answer.status = 404;
    } else if (pawl_equal(q->method, PAWL_STR("DELETE"))) {
        exists = false;
    } else {
        answer.body = (pawl_str){stored, stored_len};
    }
    return answer;
}

/* ---- the tests ---- */

static pawl_request request(const char *payload) {
    return (pawl_request){.key = PAWL_STR("team/my thing"), .generation = 1, .payload = pawl_string(payload)};
}

static void the_life_of_an_object(void) {
    pawl_call *call = pawltest_begin();
    pawl_request r = request("{\"size\":1,\"color\":\"red\"}");
    CHECK(pawltest_run(call, PAWL_OP_OBSERVE, &r).status == PAWL_NOT_FOUND);
    pawl_result applied = pawltest_run(call, PAWL_OP_APPLY, &r);
    CHECK(applied.status == PAWL_OK);
    CHECK(strcmp(path, "/objects/team/my%20thing") == 0);

    strcpy(stored, "{ \"color\": \"red\", \"size\": 1 }"); /* as a store may write it */
    stored_len = strlen(stored);
    pawl_acked acked = {.generation = 1, .as_found = applied.observation.as_found};
    r.acked = &acked;
    pawl_observation o = pawltest_run(call, PAWL_OP_OBSERVE, &r).observation;
    CHECK(o.exists && o.match_desired == PAWL_YES && o.match_acked == PAWL_YES && o.differing_count == 0);

    r.payload = PAWL_STR("{\"size\":1}"); /* a field less is a difference */
    o = pawltest_run(call, PAWL_OP_OBSERVE, &r).observation;
    CHECK(o.match_desired == PAWL_NO && o.match_acked == PAWL_YES);
    CHECK(o.differing_count == 1 && pawl_equal(o.differing[0], PAWL_STR("/color")));

    CHECK(pawltest_run(call, PAWL_OP_DELETE, &r).status == PAWL_OK);
    CHECK(!exists);
    CHECK(pawltest_run(call, PAWL_OP_DELETE, &r).status == PAWL_NOT_FOUND);
    pawltest_end(call);
}

static void answers_other_than_2xx(void) {
    static const pawl_pair wait[] = {{PAWL_STR_INIT("Retry-After"), PAWL_STR_INIT("7")}};
    pawl_call *call = pawltest_begin();
    pawl_request r = request("{}");
    next = (pawl_http_response){.status = 503, .headers = wait, .header_count = 1};
    pawl_result busy = pawltest_run(call, PAWL_OP_APPLY, &r);
    CHECK(busy.status == PAWL_RETRY && busy.retry_after_ms == 7000 && busy.retry_after_target);
    next = (pawl_http_response){.status = 302};
    CHECK(pawltest_run(call, PAWL_OP_APPLY, &r).status == PAWL_REJECTED);
    next = (pawl_http_response){.status = 202};
    CHECK(pawltest_run(call, PAWL_OP_DELETE, &r).status == PAWL_IN_PROGRESS);
    next = (pawl_http_response){.failure = PAWL_FAIL_TIMEOUT, .maybe_sent = true};
    CHECK(pawltest_run(call, PAWL_OP_APPLY, &r).status == PAWL_UNREACHABLE);
    r.mode = PAWL_CREATE_ONLY;
    next = (pawl_http_response){.status = 412};
    CHECK(pawltest_run(call, PAWL_OP_APPLY, &r).status == PAWL_ALREADY_EXISTS);
    CHECK(writes == 1);
    pawltest_end(call);
}

static void configs_that_are_refused(void) {
    static const char *const wrong[] = {"[]", "{\"prefix\":1}", "{\"prefix\":\"objects\"}", "{\"preifx\":\"/o\"}",
                                        "{\"upstream\":\"other\"}", "{", NULL};
    for (const char *const *w = wrong; *w; w++) {
        pawl_result r = pawltest_configure(*w);
        CHECK(r.status == PAWL_REJECTED && r.message.len > 0);
    }
    CHECK(pawltest_configure("{\"prefix\":\"/objects\",\"upstream\":\"target\"}").status == PAWL_OK);
}

int main(void) {
    configs_that_are_refused();
    the_life_of_an_object();
    answers_other_than_2xx();
    return 0;
}
