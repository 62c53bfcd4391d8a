/* A plugin that does what its key says. */
#include "pawl.h"

/* flood allocates until there is no memory left. */
static void flood(pawl_call *call) {
    for (;;)
        pawl_alloc(call, 1 << 20);
}

static bool is(const pawl_request *r, const char *name) { return pawl_equal(r->key, pawl_string(name)); }

static pawl_result apply(pawl_call *call, const pawl_request *r) {
    pawl_result result = pawl_success();
    if (is(r, "flood"))
        flood(call);
    if (is(r, "sleep"))
        pawl_sleep(call, 3600 * 1000);
    if (is(r, "log"))
        pawl_log(call, PAWL_WARN, PAWL_STR("a line from the plugin"));
    if (is(r, "no status"))
        return pawl_fail((pawl_status)0, PAWL_STR("forgotten"));
    if (is(r, "state"))
        result.observation.adapter_state = (pawl_str){pawl_alloc(call, 65537), 65537};
    if (is(r, "stray bytes"))
        result = pawl_fail(PAWL_REJECTED, PAWL_STR("a \xFF\xFE b"));
    if (is(r, "bad path")) {
        pawl_http_request q = {.upstream = PAWL_STR("target"), .method = PAWL_STR("GET"), .path = PAWL_STR("/\xFF")};
        pawl_http_response response;
        return pawl_http(call, &q, &response);
    }
    if (is(r, "not granted")) {
        pawl_http_request q = {.upstream = PAWL_STR("other"), .method = PAWL_STR("GET"), .path = PAWL_STR("/")};
        pawl_http_response response;
        return pawl_http(call, &q, &response);
    }
    return result;
}

/* Each item is applied by itself; of a batch that holds "whole" none is. */
static pawl_result apply_batch(pawl_call *call, const pawl_request *rs, size_t count, pawl_result *items) {
    for (size_t i = 0; i < count; i++) {
        if (is(&rs[i], "whole"))
            return pawl_fail(PAWL_RETRY, PAWL_STR("busy"));
        items[i] = apply(call, &rs[i]);
    }
    return pawl_success();
}

static const pawl_manifest narrow = {.finds_by_key = true, .ops = PAWL_OP_APPLY};

/* The config {"narrow": true} takes batches away. */
static pawl_result configure(pawl_call *call, const pawl_config *config) {
    pawl_result result = pawl_success();
    const pawl_json *v = pawl_json_get(pawl_json_parse(call, config->json, NULL), "narrow");
    if (v && v->type == PAWL_JSON_TRUE)
        result.manifest = &narrow;
    return result;
}

const pawl_adapter pawl_plugin = {
    .manifest = {.name = "odd", .version = "1.0.0", .finds_by_key = true, .batch_max = 8},
    .configure = configure,
    .apply = apply,
    .apply_batch = apply_batch,
};
