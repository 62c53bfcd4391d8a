/* A plugin with a C library: the memory of both must not meet. */
#include "pawl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL = 100000, LARGE = 500000 };

static bool all(const char *p, char c, size_t n) {
    while (n > 0 && p[n - 1] == c)
        n--;
    return n == 0;
}

static pawl_result apply(pawl_call *call, const pawl_request *r) {
    char *before = malloc(SMALL), *between = pawl_alloc(call, LARGE), *after = malloc(LARGE);
    if (!before || !after)
        return pawl_fail(PAWL_RETRY, PAWL_STR("malloc failed"));
    memset(before, 1, SMALL);
    memset(between, 2, LARGE);
    memset(after, 3, LARGE);
    bool whole = all(before, 1, SMALL) && all(between, 2, LARGE) && all(after, 3, LARGE);
    free(before);
    free(after);
    if (!whole)
        return pawl_fail(PAWL_REJECTED, PAWL_STR("memory was overwritten"));
    char text[32];
    int n = snprintf(text, sizeof text, "%s %d", "printed", 7);
    pawl_result result = pawl_success();
    result.observation.exists = true;
    result.observation.ref = PAWL_CAT(call, ((pawl_str){text, (size_t)n}), r->payload);
    return result;
}

const pawl_adapter pawl_plugin = {
    .manifest = {.name = "libc", .version = "1.0.0", .finds_by_key = true},
    .apply = apply,
};
