/* The messages of sdk/abi/pawl/plugin/v1/plugin.proto that a plugin reads and
 * writes. The golden vectors of sdk/abi/vectors hold both to the bytes. */

/* ---- what the host sends ---- */

static void decode_upstream(reader *r, pawl_upstream *u) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: u->name = read_text(r); break;
        case 2: u->kind = read_text(r); break;
        case 3: u->base_url = read_text(r); break;
        default: skip(r);
        }
    }
}

static void decode_config(pawl_call *call, reader *r, pawl_config *c) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: c->sink = read_text(r); break;
        case 2: c->json = read_bytes(r); break;
        case 3: {
            pawl_upstream *us = room_for_one(call, c->upstreams, c->upstream_count, sizeof *us);
            reader sub = read_message(r);
            decode_upstream(&sub, &us[c->upstream_count]);
            message_read(r, &sub);
            c->upstreams = us;
            c->upstream_count++;
            break;
        }
        default: skip(r);
        }
    }
}

static void decode_acked(reader *r, pawl_acked *a) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: a->generation = read_uint(r); break;
        case 2: a->content_hash = read_bytes(r); break;
        case 3: a->ref = read_text(r); break;
        case 4: a->as_found = read_text(r); break;
        case 5: a->uid = read_text(r); break;
        case 6: a->cursor = read_text(r); break;
        case 7: a->adapter_state = read_bytes(r); break;
        case 8: a->payload = read_bytes(r); break;
        case 9: a->has_payload = read_bool(r); break;
        default: skip(r);
        }
    }
}

static void decode_attempt(reader *r, pawl_attempt *a) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: a->content_hash = read_bytes(r); break;
        case 2: a->payload = read_bytes(r); break;
        case 3: a->has_payload = read_bool(r); break;
        default: skip(r);
        }
    }
}

static void decode_image(reader *r, pawl_image *i) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: i->exists = read_bool(r); break;
        case 2: i->cid = read_text(r); break;
        case 3: i->uid = read_text(r); break;
        case 4: i->content = read_bytes(r); break;
        default: skip(r);
        }
    }
}

static void decode_saga(pawl_call *call, reader *r, pawl_saga_run *s) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: s->id = read_text(r); break;
        case 2: s->step = (uint32_t)read_uint(r); break;
        case 3: {
            pawl_str *locks = room_for_one(call, s->locks, s->lock_count, sizeof *locks);
            locks[s->lock_count++] = read_text(r);
            s->locks = locks;
            break;
        }
        case 4: s->held = read_bool(r); break;
        case 5: {
            pawl_image *i = pawl_alloc(call, sizeof *i);
            reader sub = read_message(r);
            decode_image(&sub, i);
            message_read(r, &sub);
            s->before = i;
            break;
        }
        default: skip(r);
        }
    }
}

static void decode_request(pawl_call *call, reader *r, pawl_request *q) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: q->sink = read_text(r); break;
        case 2: q->key = read_text(r); break;
        case 3: q->generation = read_uint(r); break;
        case 4: q->payload = read_bytes(r); break;
        case 5: q->content_hash = read_bytes(r); break;
        case 6: q->idempotency_key = read_text(r); break;
        case 7: {
            pawl_acked *a = pawl_alloc(call, sizeof *a);
            reader sub = read_message(r);
            decode_acked(&sub, a);
            message_read(r, &sub);
            q->acked = a;
            break;
        }
        case 8: {
            pawl_attempt *as = room_for_one(call, q->attempted, q->attempted_count, sizeof *as);
            reader sub = read_message(r);
            decode_attempt(&sub, &as[q->attempted_count]);
            message_read(r, &sub);
            q->attempted = as;
            q->attempted_count++;
            break;
        }
        case 9: q->conflict_policy = (pawl_conflict_policy)read_enum(r, PAWL_REPORT_ONLY); break;
        case 10: q->mode = (pawl_mode)read_enum(r, PAWL_CREATE_ONLY); break;
        case 11: q->force = read_bool(r); break;
        case 12: q->timeout_ms = (uint32_t)read_uint(r); break;
        case 15: q->uid = read_text(r); break;
        case 16: {
            pawl_saga_run *s = pawl_alloc(call, sizeof *s);
            reader sub = read_message(r);
            decode_saga(call, &sub, s);
            message_read(r, &sub);
            q->saga = s;
            break;
        }
        case 17: q->epoch = read_text(r); break;
        default: skip(r);
        }
    }
}

/* decode_batch returns the requests and their number. */
static pawl_request *decode_batch(pawl_call *call, reader *r, size_t *count) {
    pawl_request *rs = NULL;
    *count = 0;
    for (uint32_t f; (f = next_field(r));) {
        if (f != 1) {
            skip(r);
            continue;
        }
        rs = room_for_one(call, rs, *count, sizeof *rs);
        reader sub = read_message(r);
        decode_request(call, &sub, &rs[*count]);
        message_read(r, &sub);
        ++*count;
    }
    return rs;
}

/* poll_request asks what changed at the target. */
typedef struct poll_request {
    pawl_str sink;
    pawl_str cursor;
    uint32_t timeout_ms;
} poll_request;

static void decode_poll(reader *r, poll_request *p) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: p->sink = read_text(r); break;
        case 2: p->cursor = read_text(r); break;
        case 3: p->timeout_ms = (uint32_t)read_uint(r); break;
        default: skip(r);
        }
    }
}

static void decode_compare_node(reader *r, pawl_compare_node *n) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: n->prefix = read_bytes(r); break;
        case 2: n->count = read_uint(r); break;
        case 3: n->digest = read_bytes(r); break;
        default: skip(r);
        }
    }
}

static void decode_compare_item(reader *r, pawl_compare_item *it) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: it->key = read_bytes(r); break;
        case 2: it->content = read_bytes(r); break;
        default: skip(r);
        }
    }
}

static void decode_compare_leaf(pawl_call *call, reader *r, pawl_compare_leaf *l) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: l->prefix = read_bytes(r); break;
        case 2: {
            pawl_compare_item *items = room_for_one(call, l->items, l->item_count, sizeof *items);
            reader sub = read_message(r);
            decode_compare_item(&sub, &items[l->item_count++]);
            message_read(r, &sub);
            l->items = items;
            break;
        }
        default: skip(r);
        }
    }
}

static void decode_comparison(pawl_call *call, reader *r, pawl_comparison *c) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: c->sink = read_text(r); break;
        case 2: c->epoch = read_text(r); break;
        case 3: {
            pawl_compare_node *nodes = room_for_one(call, c->nodes, c->node_count, sizeof *nodes);
            reader sub = read_message(r);
            decode_compare_node(&sub, &nodes[c->node_count++]);
            message_read(r, &sub);
            c->nodes = nodes;
            break;
        }
        case 4: {
            pawl_compare_leaf *leaves = room_for_one(call, c->leaves, c->leaf_count, sizeof *leaves);
            reader sub = read_message(r);
            decode_compare_leaf(call, &sub, &leaves[c->leaf_count++]);
            message_read(r, &sub);
            c->leaves = leaves;
            break;
        }
        case 5: c->timeout_ms = (uint32_t)read_uint(r); break;
        default: skip(r);
        }
    }
}

/* decode_pair adds the header that comes next in r to ps. */
static const pawl_pair *decode_pair(pawl_call *call, reader *r, const pawl_pair *ps, size_t *count) {
    pawl_pair *more = room_for_one(call, ps, *count, sizeof *more);
    reader sub = read_message(r);
    for (uint32_t f; (f = next_field(&sub));) {
        switch (f) {
        case 1: more[*count].name = read_text(&sub); break;
        case 2: more[*count].value = read_text(&sub); break;
        default: skip(&sub);
        }
    }
    message_read(r, &sub);
    ++*count;
    return more;
}

static void decode_http_response(pawl_call *call, reader *r, pawl_http_response *p) {
    for (uint32_t f; (f = next_field(r));) {
        switch (f) {
        case 1: p->status = (uint32_t)read_uint(r); break;
        case 2: p->headers = decode_pair(call, r, p->headers, &p->header_count); break;
        case 3: p->body = read_bytes(r); break;
        case 4: p->trailers = decode_pair(call, r, p->trailers, &p->trailer_count); break;
        case 5: p->failure = (pawl_failure)read_enum(r, PAWL_FAIL_PROTOCOL); break;
        case 6: p->failure_message = read_text(r); break;
        case 7: p->maybe_sent = read_bool(r); break;
        default: skip(r);
        }
    }
}

static pawl_http_response no_answer(pawl_failure kind, pawl_str why) {
    return (pawl_http_response){.failure = kind, .failure_message = why};
}

/* http_answer decodes the HTTPResponse m; one that can't be is no answer. */
static pawl_http_response http_answer(pawl_call *call, pawl_str m) {
    pawl_http_response p = {0};
    reader r = reader_of(m);
    decode_http_response(call, &r, &p);
    if (!r.error)
        return p;
    p = no_answer(PAWL_FAIL_PROTOCOL,
                  PAWL_CAT(call, PAWL_STR("the plugin can't decode the host's answer: "), pawl_string(r.error)));
    p.maybe_sent = true;
    return p;
}

/* ---- what the plugin sends: encoders ---- */

static void encode_pair(writer *w, const void *value) {
    const pawl_pair *p = value;
    put_text(w, 1, p->name);
    put_text(w, 2, p->value);
}

static void encode_http_request(writer *w, const void *value) {
    const pawl_http_request *q = value;
    put_text(w, 1, q->upstream);
    put_text(w, 2, q->method);
    put_text(w, 3, q->path);
    for (size_t i = 0; i < q->header_count; i++)
        put_message(w, 4, encode_pair, &q->headers[i]);
    put_blob(w, 5, q->body);
    put_uint(w, 6, q->has_body || q->body.len);
    put_uint(w, 7, q->timeout_ms);
}

/* encode_sleep writes a Sleep of so many milliseconds, a uint32_t. */
static void encode_sleep(writer *w, const void *value) { put_uint(w, 1, *(const uint32_t *)value); }

/* encode_entry writes a map entry: both halves always. */
static void encode_entry(writer *w, const void *value) {
    const pawl_pair *p = value;
    put_entry(w, 1, p->name);
    put_entry(w, 2, p->value);
}

/* next_meta is the entry of the smallest name above that of last, NULL after
 * the last one: entries are written in ascending order, each name once. */
static const pawl_pair *next_meta(const pawl_observation *o, const pawl_pair *last) {
    const pawl_pair *best = NULL;
    for (size_t i = 0; i < o->meta_count; i++) {
        const pawl_pair *p = &o->meta[i];
        if ((!last || pawl_compare(p->name, last->name) > 0) && (!best || pawl_compare(p->name, best->name) < 0))
            best = p;
    }
    return best;
}

static void encode_observation(writer *w, const void *value) {
    const pawl_observation *o = value;
    put_uint(w, 1, o->exists);
    put_text(w, 2, o->ref);
    put_text(w, 3, o->cid);
    put_text(w, 4, o->as_found);
    put_uint(w, 5, o->match_desired);
    put_uint(w, 6, o->match_acked);
    put_uint(w, 7, o->match_attempted);
    for (size_t i = 0; i < o->differing_count; i++)
        put_entry(w, 8, o->differing[i]);
    put_blob(w, 9, o->content);
    put_uint(w, 10, o->has_content || o->content.len);
    put_uint(w, 11, (uint64_t)o->at_unix_ms);
    for (const pawl_pair *p = NULL; (p = next_meta(o, p));)
        put_message(w, 12, encode_entry, p);
    put_text(w, 13, o->cursor);
    put_text(w, 14, o->uid);
    put_text(w, 15, o->object);
    put_blob(w, 16, o->adapter_state);
    put_uint(w, 17, o->ours);
}

/* encode_result leaves the observation out where nothing was observed. */
static void encode_result(writer *w, const void *value) {
    const pawl_result *r = value;
    put_uint(w, 1, r->status);
    put_text(w, 2, r->message);
    put_uint(w, 3, r->retry_after_ms);
    put_uint(w, 4, r->retry_after_target);
    writer size = {0};
    encode_observation(&size, &r->observation);
    if (size.len)
        put_message(w, 5, encode_observation, &r->observation);
    put_text(w, 6, r->target);
}

/* batch_result is one result per request, or one for the whole batch. */
typedef struct batch_result {
    const pawl_result *items;
    size_t count;
    const pawl_result *whole; /* NULL: items */
} batch_result;

static void encode_batch_result(writer *w, const void *value) {
    const batch_result *b = value;
    for (size_t i = 0; !b->whole && i < b->count; i++)
        put_message(w, 1, encode_result, &b->items[i]);
    if (b->whole)
        put_message(w, 2, encode_result, b->whole);
}

/* poll_result is what changed, where result is OK. */
typedef struct poll_result {
    pawl_result result;
    pawl_changes changes;
} poll_result;

static void encode_seen(writer *w, const void *value) {
    const pawl_seen *s = value;
    put_text(w, 1, s->key);
    writer size = {0};
    encode_observation(&size, &s->observation);
    if (size.len)
        put_message(w, 2, encode_observation, &s->observation);
}

static void encode_poll_result(writer *w, const void *value) {
    const poll_result *p = value;
    put_message(w, 1, encode_result, &p->result);
    for (size_t i = 0; i < p->changes.seen_count; i++)
        put_message(w, 2, encode_seen, &p->changes.seen[i]);
    put_text(w, 3, p->changes.cursor);
    put_uint(w, 4, p->changes.more);
    put_uint(w, 5, p->changes.reset);
}

/* compare_result is where the target differs, where result is OK. */
typedef struct compare_result {
    pawl_result result;
    pawl_difference difference;
} compare_result;

/* put_blob_entry writes bytes that are an element: empty ones too. */
static void put_blob_entry(writer *w, uint32_t field, pawl_str s) {
    put_head(w, field, s.len);
    put_bytes(w, s.data, s.len);
}

static void encode_compare_result(writer *w, const void *value) {
    const compare_result *c = value;
    put_message(w, 1, encode_result, &c->result);
    for (size_t i = 0; i < c->difference.node_count; i++)
        put_blob_entry(w, 2, c->difference.nodes[i]);
    for (size_t i = 0; i < c->difference.item_count; i++)
        put_blob_entry(w, 3, c->difference.items[i]);
    for (size_t i = 0; i < c->difference.extra_count; i++)
        put_entry(w, 4, c->difference.extra[i]);
}

/* put_ops writes a repeated enum, packed. */
static void put_ops(writer *w, uint32_t field, uint32_t ops) {
    char b[32];
    size_t n = 0;
    for (unsigned op = 0; op < 32; op++)
        if (ops & 1u << op)
            b[n++] = (char)op;
    put_blob(w, field, (pawl_str){b, n});
}

static void encode_manifest(writer *w, const void *value) {
    const pawl_manifest *m = value;
    put_text(w, 1, pawl_string(m->name));
    put_text(w, 2, pawl_string(m->version));
    put_ops(w, 3, m->ops);
    put_text(w, 4, pawl_string(m->config_schema));
    put_text(w, 5, pawl_string(m->payload_schema));
    put_uint(w, 6, m->apply_confirms);
    put_uint(w, 7, m->apply_idempotent);
    put_uint(w, 8, m->finds_by_key);
    put_uint(w, 9, m->reports_uid);
    put_uint(w, 10, m->as_found_comparable);
    put_ops(w, 11, m->undoable);
    put_uint(w, 12, m->lock);
    put_uint(w, 13, m->mark);
    put_uint(w, 15, m->batch_max);
    put_text(w, 16, pawl_string(m->overlap));
    for (const char *const *k = m->upstream_kinds; k && *k; k++)
        put_entry(w, 17, pawl_string(*k));
    put_uint(w, 18, m->reports_content);
}
