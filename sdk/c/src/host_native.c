/* The host of a native test: what pawltest.h declares. */

#include "../pawltest.h"

#include <stdio.h>

static struct {
    uint64_t slept_ms;
    pawl_call config; /* holds what configure allocated */
} test_host;

static pawl_http_response host_http(pawl_call *call, const pawl_http_request *request, pawl_str m) {
    (void)m;
    return pawltest_upstream(call, request);
}

static void host_sleep(pawl_call *call, uint32_t ms, pawl_str m) {
    (void)call, (void)m;
    test_host.slept_ms += ms;
}

static void host_log(int64_t call, pawl_level level, pawl_str line) {
    static const char *const names[] = {"debug", "info", "warn", "error"};
    fprintf(stderr, "call %lld: %s: %.*s\n", (long long)call, names[level & 3], (int)line.len, line.data);
}
