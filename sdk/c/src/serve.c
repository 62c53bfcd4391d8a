/* From an operation and its input to an answer. */

/* The operations of the ABI. */
enum {
    OP_DESCRIBE = 1,
    OP_CONFIGURE = 2,
    OP_OBSERVE = 3,
    OP_APPLY = 4,
    OP_DELETE = 5,
    OP_APPLY_BATCH = 6,
    OP_POLL = 7,
    OP_UNLOCK = 8,
    OP_RESTORE = 9,
    OP_COMPARE = 10
};

pawl_result pawl_success(void) { return (pawl_result){.status = PAWL_OK}; }

pawl_result pawl_fail(pawl_status status, pawl_str message) {
    return (pawl_result){.status = status, .message = message};
}

/* manifest_of fills in the operations where m names none. */
static pawl_manifest manifest_of(const pawl_manifest *m) {
    pawl_manifest out = *m;
    if (out.ops)
        return out;
    out.ops = (pawl_plugin.observe ? PAWL_OP_OBSERVE : 0) | (pawl_plugin.apply ? PAWL_OP_APPLY : 0) |
              (pawl_plugin.remove ? PAWL_OP_DELETE : 0) |
              (pawl_plugin.apply_batch && out.batch_max > 1 ? PAWL_OP_APPLY_BATCH : 0) |
              (pawl_plugin.unlock ? PAWL_OP_UNLOCK : 0) | (pawl_plugin.restore ? PAWL_OP_RESTORE : 0) |
              (pawl_plugin.poll ? PAWL_OP_POLL : 0) | (pawl_plugin.compare ? PAWL_OP_COMPARE : 0);
    return out;
}

static pawl_result malformed(pawl_call *call, const reader *r) {
    return pawl_fail(PAWL_REJECTED,
                     PAWL_CAT(call, PAWL_STR("the plugin can't decode the host's request: "), pawl_string(r->error)));
}

static pawl_result not_implemented(void) {
    return pawl_fail(PAWL_REJECTED, PAWL_STR("the plugin does not implement this operation"));
}

/* finish holds what an adapter answered to the rules of pawl.h. */
static pawl_result finish(pawl_call *call, int32_t op, pawl_result r) {
    if (r.status < PAWL_OK || r.status > PAWL_UNREACHABLE)
        return pawl_fail(PAWL_RETRY, PAWL_CAT(call, PAWL_STR("the adapter returned no valid status: "), r.message));
    if (r.observation.adapter_state.len > PAWL_MAX_ADAPTER_STATE)
        return pawl_fail(PAWL_REJECTED,
                         PAWL_CAT(call, PAWL_STR("the adapter returned "),
                                  pawl_decimal(call, r.observation.adapter_state.len),
                                  PAWL_STR(" bytes of state, more than the 65536 allowed")));
    if (op == OP_OBSERVE && r.status == PAWL_OK && !r.observation.exists)
        r.status = PAWL_NOT_FOUND;
    return r;
}

/* bounded refuses an observation whose content is more than a saga keeps. */
static pawl_result bounded(pawl_call *call, const pawl_request *q, pawl_result r) {
    if (r.observation.content.len <= PAWL_MAX_IMAGE || !q->saga || q->saga->before)
        return r;
    return pawl_fail(PAWL_REJECTED, PAWL_CAT(call, PAWL_STR("the object has "), pawl_decimal(call, r.observation.content.len),
                                             PAWL_STR(" bytes, more than the 1048576 that a saga keeps to bring it back")));
}

static pawl_result run(pawl_call *call, int32_t op, const pawl_request *q) {
    pawl_result (*f)(pawl_call *, const pawl_request *) = NULL;
    switch (op) {
    case OP_OBSERVE: f = pawl_plugin.observe; break;
    case OP_APPLY: f = pawl_plugin.apply; break;
    case OP_DELETE: f = pawl_plugin.remove; break;
    case OP_UNLOCK: f = pawl_plugin.unlock; break;
    case OP_RESTORE: f = pawl_plugin.restore; break;
    }
    if ((op == OP_UNLOCK || op == OP_RESTORE) && !q->saga)
        return pawl_fail(PAWL_REJECTED, PAWL_STR("the host's request names no saga, which this operation needs"));
    if (op == OP_RESTORE && !q->saga->before)
        return pawl_fail(PAWL_REJECTED, PAWL_STR("the host's request says nothing of the object before the saga, which restore needs"));
    return f ? finish(call, op, bounded(call, q, f(call, q))) : not_implemented();
}

/* target_of is the default identity of the target. */
static pawl_str target_of(pawl_call *call, const pawl_config *c) {
    pawl_str *parts = pawl_alloc(call, (c->upstream_count * 2 + 1) * sizeof *parts);
    size_t n = 0;
    for (size_t i = 0; i < c->upstream_count; i++) {
        if (i)
            parts[n++] = PAWL_STR(" ");
        parts[n++] = c->upstreams[i].base_url;
    }
    return pawl_cat(call, parts, n);
}

static pawl_result configure(pawl_call *call, const pawl_config *c) {
    pawl_result r = pawl_plugin.configure ? pawl_plugin.configure(call, c) : pawl_success();
    r = finish(call, OP_CONFIGURE, r);
    if (r.status != PAWL_OK)
        return r;
    if (!r.target.len)
        r.target = target_of(call, c);
    if (r.manifest) {
        pawl_manifest m = manifest_of(r.manifest);
        r.observation.content = message(call, encode_manifest, &m);
        r.observation.has_content = true;
    }
    return r;
}

static pawl_str serve_batch(pawl_call *call, pawl_str input) {
    batch_result b = {0};
    pawl_result whole;
    reader r = reader_of(input);
    pawl_request *rs = decode_batch(call, &r, &b.count);
    pawl_result *items = pawl_alloc(call, (b.count + 1) * sizeof *items);
    if (r.error)
        whole = malformed(call, &r);
    else if (!pawl_plugin.apply_batch)
        whole = not_implemented();
    else
        whole = finish(call, OP_APPLY_BATCH, pawl_plugin.apply_batch(call, rs, b.count, items));
    for (size_t i = 0; i < b.count; i++)
        items[i] = finish(call, OP_APPLY, items[i]);
    b.items = items;
    if (whole.status != PAWL_OK)
        b.whole = &whole;
    return message(call, encode_batch_result, &b);
}

/* run_poll and run_compare run the calls about the whole target. */
static poll_result run_poll(pawl_call *call, pawl_str cursor) {
    poll_result p = {{0}, {0}};
    p.result = pawl_plugin.poll ? finish(call, OP_POLL, pawl_plugin.poll(call, cursor, &p.changes)) : not_implemented();
    if (p.result.status == PAWL_OK && p.changes.seen_count > PAWL_MAX_SEEN)
        p.result = pawl_fail(PAWL_REJECTED, PAWL_CAT(call, PAWL_STR("the adapter told of "),
                                                     pawl_decimal(call, p.changes.seen_count),
                                                     PAWL_STR(" objects in one poll, more than the 10000 allowed")));
    if (p.result.status != PAWL_OK)
        p.changes = (pawl_changes){0};
    return p;
}

static compare_result run_compare(pawl_call *call, const pawl_comparison *c) {
    compare_result r = {{0}, {0}};
    r.result = pawl_plugin.compare ? finish(call, OP_COMPARE, pawl_plugin.compare(call, c, &r.difference)) : not_implemented();
    if (r.result.status != PAWL_OK)
        r.difference = (pawl_difference){0};
    return r;
}

static pawl_str serve_poll(pawl_call *call, pawl_str input) {
    reader r = reader_of(input);
    poll_request q = {0};
    decode_poll(&r, &q);
    poll_result p = {{0}, {0}};
    if (r.error)
        p.result = malformed(call, &r);
    else
        p = run_poll(call, q.cursor);
    return message(call, encode_poll_result, &p);
}

static pawl_str serve_compare(pawl_call *call, pawl_str input) {
    reader r = reader_of(input);
    pawl_comparison c = {0};
    decode_comparison(call, &r, &c);
    compare_result answer = {{0}, {0}};
    if (r.error)
        answer.result = malformed(call, &r);
    else
        answer = run_compare(call, &c);
    return message(call, encode_compare_result, &answer);
}

/* serve runs one call and returns the message that answers it. */
static pawl_str serve(pawl_call *call, int32_t op, pawl_str input) {
    reader r = reader_of(input);
    pawl_result result;
    switch (op) {
    case OP_DESCRIBE: {
        pawl_manifest m = manifest_of(&pawl_plugin.manifest);
        return message(call, encode_manifest, &m);
    }
    case OP_APPLY_BATCH: return serve_batch(call, input);
    case OP_POLL: return serve_poll(call, input);
    case OP_COMPARE: return serve_compare(call, input);
    case OP_CONFIGURE: {
        pawl_config c = {0};
        decode_config(call, &r, &c);
        result = r.error ? malformed(call, &r) : configure(call, &c);
        break;
    }
    default: {
        pawl_request q = {0};
        decode_request(call, &r, &q);
        result = r.error ? malformed(call, &r) : run(call, op, &q);
    }
    }
    return message(call, encode_result, &result);
}
