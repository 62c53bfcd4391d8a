/*
 * pawltest.h: tests of a plugin as a native program. Compile the plugin, pawl.c
 * and the test with any C compiler, best with -fsanitize=address,undefined.
 *
 *     pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *q) { ... }
 *
 *     int main(void) {
 *         pawltest_configure("{}");
 *         pawl_call *call = pawltest_begin();
 *         pawl_request r = {.key = PAWL_STR("a"), .payload = PAWL_STR("{}")};
 *         assert(pawltest_run(call, PAWL_OP_APPLY, &r).status == PAWL_OK);
 *         pawltest_end(call);
 *     }
 */
#ifndef PAWLTEST_H
#define PAWLTEST_H

#include "pawl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* PAWLTEST_UPSTREAM is the name of the one upstream that is granted. */
#define PAWLTEST_UPSTREAM "target"

/* pawltest_upstream is the test's own: the target. What it returns lives as
 * long as the call. */
pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *request);

/* pawltest_configure calls configure with a sink's config; again replaces it,
 * and gives up what it allocated. The result's strings live until then. */
pawl_result pawltest_configure(const char *config);

/* pawltest_begin makes a call, pawltest_end gives it and its memory up. */
pawl_call *pawltest_begin(void);
void pawltest_end(pawl_call *call);

/* pawltest_run runs PAWL_OP_OBSERVE, _APPLY, _DELETE, _RESTORE or _UNLOCK and
 * returns what the host would be told. */
pawl_result pawltest_run(pawl_call *call, uint32_t op, const pawl_request *r);

/* pawltest_poll runs poll, pawltest_compare compare; where the result is not OK
 * what they found is empty. */
pawl_result pawltest_poll(pawl_call *call, pawl_str cursor, pawl_changes *changes);
pawl_result pawltest_compare(pawl_call *call, const pawl_comparison *c, pawl_difference *difference);

/* pawltest_serve is a call as the host makes it: op is the ABI's number, input
 * and answer are its messages. */
pawl_str pawltest_serve(pawl_call *call, int32_t op, pawl_str input);

/* pawltest_answer is what pawl_http makes of an encoded HTTPResponse. */
pawl_http_response pawltest_answer(pawl_call *call, pawl_str m);

/* pawltest_slept_ms is how long pawl_sleep would have slept so far. */
uint64_t pawltest_slept_ms(void);

#ifdef __cplusplus
}
#endif

#endif
