/* A plugin that answers what the request says of a saga. */
#include "pawl.h"

static pawl_str told(pawl_call *call, const pawl_request *r) {
    const pawl_saga_run *s = r->saga;
    if (!s)
        return PAWL_STR("none");
    pawl_str out = PAWL_CAT(call, s->id, PAWL_STR("/"), pawl_decimal(call, s->step), pawl_string(s->held ? " held" : " wanted"));
    for (size_t i = 0; i < s->lock_count; i++)
        out = PAWL_CAT(call, out, PAWL_STR(" "), s->locks[i]);
    if (!s->before)
        return out;
    return PAWL_CAT(call, out, pawl_string(s->before->exists ? ", was " : ", was not "), s->before->cid, PAWL_STR(" "), s->before->uid,
                    PAWL_STR(" "), pawl_hex(call, s->before->content));
}

static pawl_result observe(pawl_call *call, const pawl_request *r) {
    pawl_result result = pawl_success();
    result.observation.exists = true;
    result.observation.ref = told(call, r);
    result.observation.ours = r->saga ? PAWL_YES : PAWL_UNKNOWN;
    return result;
}

static pawl_result unlock(pawl_call *call, const pawl_request *r) { return pawl_fail(PAWL_RETRY, told(call, r)); }

const pawl_adapter pawl_plugin = {
    .manifest = {.name = "saga", .version = "1.0.0", .finds_by_key = true, .undoable = PAWL_OP_APPLY, .lock = true, .mark = true},
    .observe = observe,
    .apply = observe,
    .restore = observe,
    .unlock = unlock,
};
