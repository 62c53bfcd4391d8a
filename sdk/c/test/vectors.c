/*
 * Holds the codec to the golden vectors of sdk/abi/vectors:
 *
 *     vectors FILE...
 *
 * What the host sends must decode to the vector's value, or be refused for its
 * reason; what the plugin sends must encode to the vector's bytes. The bytes
 * are decoded in memory of exactly their size, so that a sanitizer sees a read
 * beyond them.
 */
#include "../pawl.c"

#include <string.h>

const pawl_adapter pawl_plugin = {.manifest = {.name = "none"}};

pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *request) {
    (void)call, (void)request;
    return (pawl_http_response){0};
}

/* ---- values as the vectors write them ---- */

/* object is a message's value under construction, without its braces. */
typedef struct object {
    pawl_call *call;
    pawl_str text;
} object;

static void add(object *o, const char *name, pawl_str json) {
    pawl_call *c = o->call;
    o->text = PAWL_CAT(c, o->text, o->text.len ? PAWL_STR(",") : PAWL_STR(""), pawl_json_quote(c, pawl_string(name)),
                       PAWL_STR(":"), json);
}

static void add_text(object *o, const char *name, pawl_str s) {
    if (s.len)
        add(o, name, pawl_json_quote(o->call, s));
}

static void add_bytes(object *o, const char *name, pawl_str s) { add_text(o, name, pawl_hex(o->call, s)); }

static void add_bool(object *o, const char *name, bool v) {
    if (v)
        add(o, name, PAWL_STR("true"));
}

static void add_u32(object *o, const char *name, uint32_t v) {
    if (v)
        add(o, name, pawl_decimal(o->call, v));
}

static void add_u64(object *o, const char *name, uint64_t v) {
    if (v)
        add_text(o, name, pawl_decimal(o->call, v));
}

static void add_enum(object *o, const char *name, unsigned v, const char *const *names) {
    if (v)
        add_text(o, name, pawl_string(names[v]));
}

static pawl_str done(const object *o) { return PAWL_CAT(o->call, PAWL_STR("{"), o->text, PAWL_STR("}")); }

/* list joins the values of count items, each made by value. */
static pawl_str list(pawl_call *c, size_t count, const void *items, size_t size,
                     pawl_str (*value)(pawl_call *, const void *)) {
    pawl_str s = PAWL_STR("[");
    for (size_t i = 0; i < count; i++)
        s = PAWL_CAT(c, s, i ? PAWL_STR(",") : PAWL_STR(""), value(c, (const char *)items + i * size));
    return PAWL_CAT(c, s, PAWL_STR("]"));
}

static const char *const policies[] = {"", "SOURCE_WINS", "TARGET_WINS", "REPORT_ONLY"};
static const char *const modes[] = {"", "CREATE_ONLY"};
static const char *const failures[] = {"",       "DNS",       "CONNECT",   "TLS",     "TIMEOUT",
                                       "DENIED", "TOO_LARGE", "CANCELLED", "PROTOCOL"};

static pawl_str value_of_upstream(pawl_call *c, const void *v) {
    const pawl_upstream *u = v;
    object o = {c, {0}};
    add_text(&o, "name", u->name);
    add_text(&o, "kind", u->kind);
    add_text(&o, "base_url", u->base_url);
    return done(&o);
}

static pawl_str value_of_attempt(pawl_call *c, const void *v) {
    const pawl_attempt *a = v;
    object o = {c, {0}};
    add_bytes(&o, "content_hash", a->content_hash);
    add_bytes(&o, "payload", a->payload);
    add_bool(&o, "has_payload", a->has_payload);
    return done(&o);
}

static pawl_str value_of_acked(pawl_call *c, const pawl_acked *a) {
    object o = {c, {0}};
    add_u64(&o, "generation", a->generation);
    add_bytes(&o, "content_hash", a->content_hash);
    add_text(&o, "ref", a->ref);
    add_text(&o, "as_found", a->as_found);
    add_text(&o, "uid", a->uid);
    add_text(&o, "cursor", a->cursor);
    add_bytes(&o, "adapter_state", a->adapter_state);
    add_bytes(&o, "payload", a->payload);
    add_bool(&o, "has_payload", a->has_payload);
    return done(&o);
}

/* value_of_text is any text that is an element. */
static pawl_str value_of_text(pawl_call *c, const void *v) { return pawl_json_quote(c, *(const pawl_str *)v); }

static pawl_str value_of_saga(pawl_call *c, const pawl_saga_run *s) {
    object o = {c, {0}};
    add_text(&o, "id", s->id);
    add_u32(&o, "step", s->step);
    if (s->lock_count)
        add(&o, "locks", list(c, s->lock_count, s->locks, sizeof *s->locks, value_of_text));
    add_bool(&o, "held", s->held);
    if (s->before) {
        object i = {c, {0}};
        add_bool(&i, "exists", s->before->exists);
        add_text(&i, "cid", s->before->cid);
        add_text(&i, "uid", s->before->uid);
        add_bytes(&i, "content", s->before->content);
        add(&o, "before", done(&i));
    }
    return done(&o);
}

static pawl_str value_of_request(pawl_call *c, const void *v) {
    const pawl_request *q = v;
    object o = {c, {0}};
    add_text(&o, "sink", q->sink);
    add_text(&o, "key", q->key);
    add_u64(&o, "generation", q->generation);
    add_bytes(&o, "payload", q->payload);
    add_bytes(&o, "content_hash", q->content_hash);
    add_text(&o, "idempotency_key", q->idempotency_key);
    if (q->acked)
        add(&o, "acked", value_of_acked(c, q->acked));
    if (q->attempted_count)
        add(&o, "attempted", list(c, q->attempted_count, q->attempted, sizeof *q->attempted, value_of_attempt));
    add_enum(&o, "conflict_policy", q->conflict_policy, policies);
    add_enum(&o, "mode", q->mode, modes);
    add_bool(&o, "force", q->force);
    add_u32(&o, "timeout_ms", q->timeout_ms);
    add_text(&o, "uid", q->uid);
    if (q->saga)
        add(&o, "saga", value_of_saga(c, q->saga));
    add_text(&o, "epoch", q->epoch);
    return done(&o);
}

static pawl_str value_of_compare_node(pawl_call *c, const void *v) {
    const pawl_compare_node *n = v;
    object o = {c, {0}};
    add_bytes(&o, "prefix", n->prefix);
    add_u64(&o, "count", n->count);
    add_bytes(&o, "digest", n->digest);
    return done(&o);
}

static pawl_str value_of_compare_item(pawl_call *c, const void *v) {
    const pawl_compare_item *it = v;
    object o = {c, {0}};
    add_bytes(&o, "key", it->key);
    add_bytes(&o, "content", it->content);
    return done(&o);
}

static pawl_str value_of_compare_leaf(pawl_call *c, const void *v) {
    const pawl_compare_leaf *l = v;
    object o = {c, {0}};
    add_bytes(&o, "prefix", l->prefix);
    if (l->item_count)
        add(&o, "items", list(c, l->item_count, l->items, sizeof *l->items, value_of_compare_item));
    return done(&o);
}

static pawl_str value_of_pair(pawl_call *c, const void *v) {
    const pawl_pair *p = v;
    object o = {c, {0}};
    add_text(&o, "name", p->name);
    add_text(&o, "value", p->value);
    return done(&o);
}

/* ---- decoding ---- */

/* read_value decodes a message that the host sends into its value; false: the
 * plugin does not read such messages. */
static bool read_value(pawl_call *c, pawl_str name, reader *r, pawl_str *value) {
    object o = {c, {0}};
    if (pawl_equal(name, PAWL_STR("Configure"))) {
        pawl_config v = {0};
        decode_config(c, r, &v);
        add_text(&o, "sink", v.sink);
        add_bytes(&o, "config", v.json);
        if (v.upstream_count)
            add(&o, "upstreams", list(c, v.upstream_count, v.upstreams, sizeof *v.upstreams, value_of_upstream));
        *value = done(&o);
    } else if (pawl_equal(name, PAWL_STR("Request"))) {
        pawl_request v = {0};
        decode_request(c, r, &v);
        *value = value_of_request(c, &v);
    } else if (pawl_equal(name, PAWL_STR("BatchRequest"))) {
        size_t n;
        const pawl_request *v = decode_batch(c, r, &n);
        if (n)
            add(&o, "items", list(c, n, v, sizeof *v, value_of_request));
        *value = done(&o);
    } else if (pawl_equal(name, PAWL_STR("PollRequest"))) {
        poll_request v = {0};
        decode_poll(r, &v);
        add_text(&o, "sink", v.sink);
        add_text(&o, "cursor", v.cursor);
        add_u32(&o, "timeout_ms", v.timeout_ms);
        *value = done(&o);
    } else if (pawl_equal(name, PAWL_STR("CompareRequest"))) {
        pawl_comparison v = {0};
        decode_comparison(c, r, &v);
        add_text(&o, "sink", v.sink);
        add_text(&o, "epoch", v.epoch);
        if (v.node_count)
            add(&o, "nodes", list(c, v.node_count, v.nodes, sizeof *v.nodes, value_of_compare_node));
        if (v.leaf_count)
            add(&o, "leaves", list(c, v.leaf_count, v.leaves, sizeof *v.leaves, value_of_compare_leaf));
        add_u32(&o, "timeout_ms", v.timeout_ms);
        *value = done(&o);
    } else if (pawl_equal(name, PAWL_STR("HTTPResponse"))) {
        pawl_http_response v = {0};
        decode_http_response(c, r, &v);
        add_u32(&o, "status", v.status);
        if (v.header_count)
            add(&o, "headers", list(c, v.header_count, v.headers, sizeof *v.headers, value_of_pair));
        add_bytes(&o, "body", v.body);
        if (v.trailer_count)
            add(&o, "trailers", list(c, v.trailer_count, v.trailers, sizeof *v.trailers, value_of_pair));
        add_enum(&o, "failure", v.failure, failures);
        add_text(&o, "failure_message", v.failure_message);
        add_bool(&o, "maybe_sent", v.maybe_sent);
        *value = done(&o);
    } else
        return false;
    return true;
}

/* ---- encoding ---- */

static pawl_str text(const pawl_json *v, const char *name) {
    const pawl_json *f = pawl_json_get(v, name);
    return f ? f->text : (pawl_str){0};
}

static pawl_str unhex(pawl_call *c, pawl_str s) {
    static const char digits[] = "0123456789abcdef";
    unsigned char *b = pawl_alloc(c, s.len / 2);
    for (size_t i = 0; i < s.len; i++)
        b[i / 2] = (unsigned char)(b[i / 2] << 4 | (strchr(digits, s.data[i]) - digits));
    return (pawl_str){(char *)b, s.len / 2};
}

static pawl_str bytes(pawl_call *c, const pawl_json *v, const char *name) { return unhex(c, text(v, name)); }

static bool flag(const pawl_json *v, const char *name) {
    const pawl_json *f = pawl_json_get(v, name);
    return f && f->type == PAWL_JSON_TRUE;
}

static uint32_t number(const pawl_json *v, const char *name) {
    uint64_t n = 0;
    pawl_json_uint(pawl_json_get(v, name), &n);
    return (uint32_t)n;
}

static unsigned choice(pawl_str name, const char *const *names, unsigned count) {
    unsigned i = 0;
    while (i < count && !pawl_equal(name, pawl_string(names[i])))
        i++;
    return i < count ? i : 0;
}

static const char *const statuses[] = {"",         "OK",          "NOT_FOUND",    "ALREADY_EXISTS",
                                       "CONFLICT", "REJECTED",    "OBSOLETE",     "IN_PROGRESS",
                                       "UNAUTHORIZED", "RETRY",   "UNREACHABLE"};
static const char *const tris[] = {"", "YES", "NO"};
static const char *const ops[] = {"",          "",         "", "OP_OBSERVE", "OP_APPLY", "OP_DELETE", "OP_APPLY_BATCH",
                                  "OP_POLL", "OP_UNLOCK", "OP_RESTORE", "OP_COMPARE"};

static pawl_str *strings(pawl_call *c, const pawl_json *v, size_t *count) {
    pawl_str *out = pawl_alloc(c, (v ? v->count : 0) * sizeof *out);
    *count = 0;
    for (const pawl_json *e = v ? v->first : NULL; e; e = e->next)
        out[(*count)++] = e->text;
    return out;
}

/* pairs reads headers, or the members of a map backwards: order must not matter. */
static pawl_pair *pairs(pawl_call *c, const pawl_json *v, bool map, size_t *count) {
    size_t n = *count = v ? v->count : 0;
    pawl_pair *out = pawl_alloc(c, n * sizeof *out);
    for (const pawl_json *e = v ? v->first : NULL; e; e = e->next)
        out[map ? --n : v->count - n--] =
            map ? (pawl_pair){e->name, e->text} : (pawl_pair){text(e, "name"), text(e, "value")};
    return out;
}

static int64_t signed_number(pawl_str s) {
    bool minus = pawl_has_prefix(s, PAWL_STR("-"));
    pawl_json n = {.type = PAWL_JSON_NUMBER, .text = {s.data + minus, s.len - minus}};
    uint64_t v = 0;
    if (s.len)
        pawl_json_uint(&n, &v);
    return minus ? -(int64_t)v : (int64_t)v;
}

static pawl_observation to_observation(pawl_call *c, const pawl_json *v) {
    pawl_observation o = {.exists = flag(v, "exists"), .ref = text(v, "ref"), .cid = text(v, "cid")};
    o.as_found = text(v, "as_found");
    o.match_desired = choice(text(v, "match_desired"), tris, 3);
    o.match_acked = choice(text(v, "match_acked"), tris, 3);
    o.match_attempted = choice(text(v, "match_attempted"), tris, 3);
    o.differing = strings(c, pawl_json_get(v, "differing"), &o.differing_count);
    o.content = bytes(c, v, "content");
    o.has_content = flag(v, "has_content");
    o.at_unix_ms = signed_number(text(v, "at_unix_ms"));
    o.meta = pairs(c, pawl_json_get(v, "meta"), true, &o.meta_count);
    o.cursor = text(v, "cursor");
    o.uid = text(v, "uid");
    o.object = text(v, "object");
    o.adapter_state = bytes(c, v, "adapter_state");
    o.ours = choice(text(v, "ours"), tris, 3);
    return o;
}

static pawl_result to_result(pawl_call *c, const pawl_json *v) {
    pawl_result r = {.status = choice(text(v, "status"), statuses, 11), .message = text(v, "message")};
    r.retry_after_ms = number(v, "retry_after_ms");
    r.retry_after_target = flag(v, "retry_after_target");
    r.observation = to_observation(c, pawl_json_get(v, "observation"));
    r.target = text(v, "target");
    return r;
}

/* c_string is a copy that ends with NUL. */
static const char *c_string(pawl_call *c, pawl_str s) {
    char *out = pawl_alloc(c, s.len + 1);
    if (s.len)
        memcpy(out, s.data, s.len);
    return out;
}

static uint32_t to_ops(pawl_call *c, const pawl_json *v) {
    size_t n;
    const pawl_str *names = strings(c, v, &n);
    uint32_t out = 0;
    for (size_t i = 0; i < n; i++)
        out |= 1u << choice(names[i], ops, sizeof ops / sizeof *ops);
    return out;
}

static pawl_manifest to_manifest(pawl_call *c, const pawl_json *v) {
    pawl_manifest m = {.name = c_string(c, text(v, "name")), .version = c_string(c, text(v, "version"))};
    m.ops = to_ops(c, pawl_json_get(v, "ops"));
    m.config_schema = c_string(c, text(v, "config_schema"));
    m.payload_schema = c_string(c, text(v, "payload_schema"));
    m.apply_confirms = flag(v, "apply_confirms");
    m.apply_idempotent = flag(v, "apply_idempotent");
    m.finds_by_key = flag(v, "finds_by_key");
    m.reports_uid = flag(v, "reports_uid");
    m.as_found_comparable = flag(v, "as_found_comparable");
    m.undoable = to_ops(c, pawl_json_get(v, "undoable"));
    m.lock = flag(v, "lock");
    m.mark = flag(v, "mark");
    m.batch_max = number(v, "batch_max");
    m.overlap = c_string(c, text(v, "overlap"));
    size_t n;
    const pawl_str *names = strings(c, pawl_json_get(v, "upstream_kinds"), &n);
    const char **kinds = pawl_alloc(c, (n + 1) * sizeof *kinds);
    for (size_t i = 0; i < n; i++)
        kinds[i] = c_string(c, names[i]);
    m.upstream_kinds = kinds;
    m.reports_content = flag(v, "reports_content");
    return m;
}

static poll_result to_poll_result(pawl_call *c, const pawl_json *v) {
    poll_result p = {to_result(c, pawl_json_get(v, "result")), {0}};
    const pawl_json *seen = pawl_json_get(v, "seen");
    pawl_seen *out = pawl_alloc(c, (seen ? seen->count : 0) * sizeof *out);
    for (const pawl_json *e = seen ? seen->first : NULL; e; e = e->next) {
        out[p.changes.seen_count].key = text(e, "key");
        out[p.changes.seen_count++].observation = to_observation(c, pawl_json_get(e, "observation"));
    }
    p.changes.seen = out;
    p.changes.cursor = text(v, "cursor");
    p.changes.more = flag(v, "more");
    p.changes.reset = flag(v, "reset");
    return p;
}

static pawl_str *blobs(pawl_call *c, const pawl_json *v, size_t *count) {
    pawl_str *out = strings(c, v, count);
    for (size_t i = 0; i < *count; i++)
        out[i] = unhex(c, out[i]);
    return out;
}

static compare_result to_compare_result(pawl_call *c, const pawl_json *v) {
    compare_result r = {to_result(c, pawl_json_get(v, "result")), {0}};
    r.difference.nodes = blobs(c, pawl_json_get(v, "nodes"), &r.difference.node_count);
    r.difference.items = blobs(c, pawl_json_get(v, "items"), &r.difference.item_count);
    r.difference.extra = strings(c, pawl_json_get(v, "extra"), &r.difference.extra_count);
    return r;
}

/* write_value encodes a message that the plugin sends; false: it does not. */
static bool write_value(pawl_call *c, pawl_str name, const pawl_json *v, pawl_str *out) {
    if (pawl_equal(name, PAWL_STR("Result"))) {
        pawl_result r = to_result(c, v);
        *out = message(c, encode_result, &r);
    } else if (pawl_equal(name, PAWL_STR("BatchResult"))) {
        const pawl_json *items = pawl_json_get(v, "items"), *whole = pawl_json_get(v, "whole");
        pawl_result one = to_result(c, whole), *rs = pawl_alloc(c, (items ? items->count : 0) * sizeof *rs);
        batch_result b = {.items = rs, .whole = whole ? &one : NULL};
        for (const pawl_json *e = items ? items->first : NULL; e; e = e->next)
            rs[b.count++] = to_result(c, e);
        *out = message(c, encode_batch_result, &b);
    } else if (pawl_equal(name, PAWL_STR("PollResult"))) {
        poll_result p = to_poll_result(c, v);
        *out = message(c, encode_poll_result, &p);
    } else if (pawl_equal(name, PAWL_STR("CompareResult"))) {
        compare_result r = to_compare_result(c, v);
        *out = message(c, encode_compare_result, &r);
    } else if (pawl_equal(name, PAWL_STR("Manifest"))) {
        pawl_manifest m = to_manifest(c, v);
        *out = message(c, encode_manifest, &m);
    } else if (pawl_equal(name, PAWL_STR("HTTPRequest"))) {
        pawl_http_request q = {.upstream = text(v, "upstream"), .method = text(v, "method"), .path = text(v, "path")};
        q.headers = pairs(c, pawl_json_get(v, "headers"), false, &q.header_count);
        q.body = bytes(c, v, "body");
        q.has_body = flag(v, "has_body");
        q.timeout_ms = number(v, "timeout_ms");
        *out = message(c, encode_http_request, &q);
    } else if (pawl_equal(name, PAWL_STR("Sleep"))) {
        uint32_t ms = number(v, "ms");
        *out = message(c, encode_sleep, &ms);
    } else
        return false;
    return true;
}

/* ---- the vectors ---- */

static pawl_str read_file(pawl_call *c, const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        return (pawl_str){0};
    size_t len = (size_t)ftell(f);
    char *b = pawl_alloc(c, len);
    rewind(f);
    len = fread(b, 1, len, f);
    fclose(f);
    return (pawl_str){b, len};
}

static bool wrong(const char *path, const char *what, pawl_str got, pawl_str want) {
    printf("%s: %s: got %.*s, want %.*s\n", path, what, (int)got.len, got.data, (int)want.len, want.data);
    return false;
}

static unsigned decoded, encoded;

static bool check_decode(pawl_call *c, const char *path, const pawl_json *vector) {
    pawl_str in = bytes(c, vector, "hex"), value = {0};
    reader r = reader_of(in);
    if (!read_value(c, text(vector, "message"), &r, &value))
        return true;
    decoded++;
    if (!pawl_equal(pawl_string(r.error), text(vector, "error")))
        return wrong(path, "reason", pawl_string(r.error), text(vector, "error"));
    const pawl_json *want = pawl_json_get(vector, "value"), *got = pawl_json_parse(c, value, NULL);
    const pawl_json none = {.type = PAWL_JSON_OBJECT};
    if (!r.error && !pawl_json_equal(got, want ? want : &none))
        return wrong(path, "value", value, PAWL_STR("that of the vector"));
    return true;
}

static bool check_encode(pawl_call *c, const char *path, const pawl_json *vector) {
    pawl_str out;
    if (!flag(vector, "canonical") ||
        !write_value(c, text(vector, "message"), pawl_json_get(vector, "value"), &out))
        return true;
    encoded++;
    out = pawl_hex(c, out);
    return pawl_equal(out, text(vector, "hex")) || wrong(path, "bytes", out, text(vector, "hex"));
}

int main(int argc, char **argv) {
    bool ok = argc > 1;
    for (int i = 1; i < argc; i++) {
        pawl_call *c = pawltest_begin();
        pawl_str error = {0};
        const pawl_json *vector = pawl_json_parse(c, read_file(c, argv[i]), &error);
        if (!vector)
            ok = wrong(argv[i], "file", error, PAWL_STR("a vector"));
        else
            ok = check_decode(c, argv[i], vector) && check_encode(c, argv[i], vector) && ok;
        pawltest_end(c);
    }
    printf("decoded %u vectors, encoded %u\n", decoded, encoded);
    return ok ? 0 : 1;
}
