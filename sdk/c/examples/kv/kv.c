/*
 * kv keeps objects in a key-value store behind HTTP: GET, PUT and DELETE of
 * prefix/key. An object is replaced as a whole; JSON is compared by value,
 * everything else byte by byte.
 */
#include "pawl.h"

/* What configure leaves for the calls. */
static pawl_str upstream, prefix;

static const char config_schema[] =
    "{\"type\":\"object\",\"additionalProperties\":false,\"properties\":{"
    "\"upstream\":{\"type\":\"string\",\"description\":\"defaults to the only one granted\"},"
    "\"prefix\":{\"type\":\"string\",\"pattern\":\"^/\",\"default\":\"/objects\"}}}";

/* text_of reads an optional string of the config; false: it is something else. */
static bool text_of(const pawl_json *config, const char *name, pawl_str *out) {
    const pawl_json *v = pawl_json_get(config, name);
    if (!v)
        return true;
    *out = v->text;
    return v->type == PAWL_JSON_STRING;
}

static pawl_result configure(pawl_call *call, const pawl_config *c) {
    static const char *const known[] = {"upstream", "prefix", NULL};
    pawl_str error = {0}, wanted = {0};
    const pawl_json *config = pawl_json_parse(call, c->json, &error);
    if (!config)
        return pawl_fail(PAWL_REJECTED, PAWL_CAT(call, PAWL_STR("config: "), error));
    if (config->type != PAWL_JSON_OBJECT)
        return pawl_fail(PAWL_REJECTED, PAWL_STR("config: an object is needed"));
    const pawl_json *stranger = pawl_json_stranger(config, known);
    if (stranger)
        return pawl_fail(PAWL_REJECTED, PAWL_CAT(call, PAWL_STR("config: unknown key "),
                                                 pawl_json_quote(call, stranger->name),
                                                 PAWL_STR("; known are upstream and prefix")));
    prefix = PAWL_STR("/objects");
    if (!text_of(config, "prefix", &prefix) || !pawl_has_prefix(prefix, PAWL_STR("/")))
        return pawl_fail(PAWL_REJECTED, PAWL_STR("config: prefix: a path is needed, such as \"/objects\""));
    if (!text_of(config, "upstream", &wanted))
        return pawl_fail(PAWL_REJECTED, PAWL_STR("config: upstream: the name of one of the sink's upstreams is needed"));
    if (!wanted.len && c->upstream_count == 1)
        wanted = c->upstreams[0].name;
    for (size_t i = 0; i < c->upstream_count; i++)
        if (wanted.len && pawl_equal(c->upstreams[i].name, wanted)) {
            pawl_result r = pawl_success();
            upstream = wanted;
            r.target = c->upstreams[i].base_url;
            return r;
        }
    return pawl_fail(PAWL_REJECTED, PAWL_STR("config: upstream: name the one of the sink's upstreams to use"));
}

static pawl_str path_of(pawl_call *call, const pawl_request *r) {
    return PAWL_CAT(call, prefix, PAWL_STR("/"), pawl_escape_path(call, r->key));
}

/* send makes a request about r's object; OK is a 2xx. */
static pawl_result send(pawl_call *call, const pawl_request *r, pawl_http_request *q, pawl_http_response *response) {
    q->upstream = upstream;
    q->path = path_of(call, r);
    pawl_result sent = pawl_http(call, q, response);
    return sent.status == PAWL_OK ? pawl_http_outcome(call, response) : sent;
}

/* ---- comparing ---- */

/* document is some content, and what it says where it is JSON. */
typedef struct document {
    pawl_str bytes;
    const pawl_json *json;
} document;

static document read_document(pawl_call *call, pawl_str bytes) {
    return (document){bytes, pawl_json_parse(call, bytes, NULL)};
}

static bool same(const document *a, const document *b) {
    return a->json && b->json ? pawl_json_equal(a->json, b->json) : pawl_equal(a->bytes, b->bytes);
}

/* digest_of is 16 hexadecimal digits. */
static pawl_str digest_of(pawl_call *call, const document *d) {
    pawl_json raw = {.type = PAWL_JSON_STRING, .text = d->bytes};
    uint64_t n = pawl_json_digest(d->json ? d->json : &raw);
    char b[8];
    for (int i = 0; i < 8; i++)
        b[i] = (char)(n >> (56 - 8 * i));
    return pawl_hex(call, (pawl_str){b, sizeof b});
}

/* pointer is the JSON pointer of a member of the document. */
static pawl_str pointer(pawl_call *call, pawl_str name) {
    char *out = pawl_alloc(call, name.len * 2 + 1);
    size_t n = 0;
    out[n++] = '/';
    for (size_t i = 0; i < name.len; i++) {
        bool special = name.data[i] == '~' || name.data[i] == '/';
        out[n++] = special ? '~' : name.data[i];
        if (special)
            out[n++] = name.data[i] == '~' ? '0' : '1';
    }
    return (pawl_str){out, n};
}

/* differences lists the members that differ, or "/" for the whole document.
 * Members come in the order of their names. */
static void differences(pawl_call *call, const document *want, const document *have, pawl_observation *o) {
    bool objects = want->json && have->json && want->json->type == PAWL_JSON_OBJECT && have->json->type == PAWL_JSON_OBJECT;
    size_t most = objects ? want->json->count + have->json->count : 1;
    pawl_str *paths = pawl_alloc(call, most * sizeof *paths);
    o->differing = paths;
    if (!objects) {
        paths[o->differing_count++] = PAWL_STR("/");
        return;
    }
    for (const pawl_json *m = want->json->first, *h = have->json->first; m || h;) {
        int order = !m ? 1 : !h ? -1 : pawl_compare(m->name, h->name);
        if (order != 0 || !pawl_json_equal(m, h))
            paths[o->differing_count++] = pointer(call, order > 0 ? h->name : m->name);
        if (order <= 0)
            m = m->next;
        if (order >= 0)
            h = h->next;
    }
}

static pawl_tri tri(bool yes) { return yes ? PAWL_YES : PAWL_NO; }

/* judge compares what was found with what r knows of. */
static void judge(pawl_call *call, const pawl_request *r, pawl_str found, pawl_observation *o) {
    document have = read_document(call, found), want = read_document(call, r->payload);
    o->as_found = digest_of(call, &have);
    o->match_desired = tri(same(&want, &have));
    if (o->match_desired == PAWL_NO)
        differences(call, &want, &have, o);
    if (r->acked && r->acked->as_found.len)
        o->match_acked = tri(pawl_equal(o->as_found, r->acked->as_found));
    for (size_t i = 0; i < r->attempted_count && o->match_attempted != PAWL_YES; i++) {
        const pawl_attempt *a = &r->attempted[i];
        document sent = read_document(call, a->payload);
        if (pawl_equal(a->content_hash, r->content_hash))
            o->match_attempted = o->match_desired;
        else if (a->has_payload)
            o->match_attempted = tri(same(&sent, &have));
    }
}

/* ---- the operations ---- */

static pawl_result observe(pawl_call *call, const pawl_request *r) {
    pawl_http_request q = {.method = PAWL_STR("GET")};
    pawl_http_response response;
    pawl_result result = send(call, r, &q, &response);
    if (result.status != PAWL_OK)
        return result;
    result.observation.exists = true;
    result.observation.ref = q.path;
    result.observation.cid = pawl_http_header(&response, "ETag");
    judge(call, r, response.body, &result.observation);
    return result;
}

static pawl_result apply(pawl_call *call, const pawl_request *r) {
    document want = read_document(call, r->payload);
    pawl_pair headers[3] = {
        {PAWL_STR("Content-Type"), want.json ? PAWL_STR("application/json") : PAWL_STR("application/octet-stream")},
        {PAWL_STR("Idempotency-Key"), r->idempotency_key},
        {PAWL_STR("If-None-Match"), PAWL_STR("*")},
    };
    pawl_http_request q = {.method = PAWL_STR("PUT"), .headers = headers, .header_count = 2, .body = r->payload};
    pawl_http_response response;
    q.has_body = true;
    if (r->mode == PAWL_CREATE_ONLY)
        q.header_count = 3;
    pawl_result result = send(call, r, &q, &response);
    if (response.status == 412 && r->mode == PAWL_CREATE_ONLY)
        result.status = PAWL_ALREADY_EXISTS;
    if (response.status == 202)
        return pawl_fail(PAWL_RETRY, PAWL_STR("the target accepted the object (202), but did not say that it keeps it"));
    if (result.status != PAWL_OK)
        return result;
    result.observation.exists = true;
    result.observation.match_desired = PAWL_YES;
    result.observation.ref = q.path;
    result.observation.cid = pawl_http_header(&response, "ETag");
    result.observation.as_found = digest_of(call, &want);
    return result;
}

static pawl_result delete_object(pawl_call *call, const pawl_request *r) {
    pawl_http_request q = {.method = PAWL_STR("DELETE")};
    pawl_http_response response;
    pawl_result result = send(call, r, &q, &response);
    if (response.status == 202)
        return pawl_fail(PAWL_IN_PROGRESS, PAWL_STR("the target accepted the deletion (202)"));
    return result;
}

static const char *const kinds[] = {"http", NULL};

const pawl_adapter pawl_plugin = {
    .manifest =
        {
            .name = "kv",
            .version = "1.0.0",
            .config_schema = config_schema,
            .apply_confirms = true,   /* a 2xx says that the store keeps it */
            .apply_idempotent = true, /* the same PUT twice is harmless */
            .finds_by_key = true,     /* the path is made of the key */
            .upstream_kinds = kinds,
        },
    .configure = configure,
    .observe = observe,
    .apply = apply,
    .remove = delete_object,
};
