/*
 * Feeds damaged messages and texts to the codec and the JSON reader:
 *
 *     fuzz SEED ROUNDS FILE...
 *
 * The files are golden vectors, whose bytes and own text are what is damaged.
 * Sanitizers find reads and writes beyond the bytes; the checks below find the
 * rest.
 */
#include "../pawl.c"

#include <inttypes.h>

static uint64_t state;

/* rnd is splitmix64, below n. */
static uint64_t rnd(uint64_t n) {
    uint64_t z = (state += 0x9E3779B97F4A7C15u);
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (z ^ z >> 31) % n;
}

static void must(bool ok, const char *claim) {
    if (ok)
        return;
    printf("broken: %s\n", claim);
    exit(1);
}

/* ---- an adapter that looks at every byte ---- */

static volatile unsigned char seen;

static void look(pawl_str s) {
    for (size_t i = 0; i < s.len; i++)
        seen ^= (unsigned char)s.data[i];
}

static pawl_result look_at(pawl_call *c, const pawl_request *q) {
    look(q->sink), look(q->key), look(q->payload), look(q->content_hash), look(q->idempotency_key), look(q->uid);
    must(pawl_valid_utf8(q->key), "a decoded key is UTF-8");
    if (q->acked)
        look(q->acked->ref), look(q->acked->adapter_state), look(q->acked->payload);
    for (size_t i = 0; i < q->attempted_count; i++)
        look(q->attempted[i].payload);
    if (q->saga) {
        look(q->saga->id);
        for (size_t i = 0; i < q->saga->lock_count; i++)
            look(q->saga->locks[i]);
        if (q->saga->before)
            look(q->saga->before->cid), look(q->saga->before->uid), look(q->saga->before->content);
    }
    pawl_result r = pawl_fail(PAWL_RETRY, q->payload); /* any bytes as the text of an answer */
    r.observation.exists = true;
    r.observation.ref = pawl_escape_path(c, q->payload);
    return r;
}

static pawl_result look_at_saga(pawl_call *c, const pawl_request *q) {
    must(q->saga != NULL, "an operation of sagas has one");
    return look_at(c, q);
}

static pawl_result look_at_image(pawl_call *c, const pawl_request *q) {
    must(q->saga && q->saga->before, "restore has an image");
    return look_at(c, q);
}

static pawl_result look_at_all(pawl_call *c, const pawl_request *rs, size_t n, pawl_result *items) {
    for (size_t i = 0; i < n; i++)
        items[i] = look_at(c, &rs[i]);
    return pawl_success();
}

static pawl_result look_at_cursor(pawl_call *c, pawl_str cursor, pawl_changes *changes) {
    must(pawl_valid_utf8(cursor), "a cursor is UTF-8");
    pawl_seen *seen = pawl_alloc(c, sizeof *seen);
    seen->key = cursor;
    *changes = (pawl_changes){.seen = seen, .seen_count = 1, .cursor = cursor};
    return pawl_success();
}

static pawl_result look_at_tree(pawl_call *c, const pawl_comparison *q, pawl_difference *d) {
    pawl_str *nodes = pawl_alloc(c, q->node_count * sizeof *nodes);
    look(q->sink), look(q->epoch);
    for (size_t i = 0; i < q->node_count; i++)
        look(nodes[i] = q->nodes[i].prefix), look(q->nodes[i].digest);
    for (size_t i = 0; i < q->leaf_count; i++)
        for (size_t j = 0; j < q->leaves[i].item_count; j++)
            look(q->leaves[i].items[j].key), look(q->leaves[i].items[j].content);
    *d = (pawl_difference){.nodes = nodes, .node_count = q->node_count};
    return pawl_success();
}

static pawl_result look_at_config(pawl_call *c, const pawl_config *config) {
    (void)c;
    look(config->sink), look(config->json);
    for (size_t i = 0; i < config->upstream_count; i++)
        look(config->upstreams[i].name), look(config->upstreams[i].base_url);
    return pawl_success();
}

const pawl_adapter pawl_plugin = {
    .manifest = {.name = "fuzz", .batch_max = 2},
    .configure = look_at_config,
    .observe = look_at,
    .apply = look_at,
    .remove = look_at,
    .apply_batch = look_at_all,
    .restore = look_at_image,
    .unlock = look_at_saga,
    .poll = look_at_cursor,
    .compare = look_at_tree,
};

pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *request) {
    (void)call, (void)request;
    return (pawl_http_response){.status = 200};
}

/* ---- what is fed ---- */

static pawl_str unhex(pawl_call *c, pawl_str s) {
    char *b = pawl_alloc(c, s.len / 2);
    for (size_t i = 0; i < s.len; i++)
        b[i / 2] = (char)(b[i / 2] << 4 | (s.data[i] <= '9' ? s.data[i] - '0' : s.data[i] - 'a' + 10));
    return (pawl_str){b, s.len / 2};
}

/* damaged is a copy of s, in memory of just its size, with up to 4 changes. */
static pawl_str damaged(pawl_call *c, pawl_str s) {
    for (uint64_t n = rnd(5); n > 0; n--) {
        size_t at = (size_t)rnd(s.len + 1);
        pawl_str head = {s.data, at}, tail = {s.data + at, s.len - at};
        char byte[2] = {(char)rnd(256), (char)rnd(256)};
        switch (rnd(5)) {
        case 0: /* a byte more */
            s = PAWL_CAT(c, head, ((pawl_str){byte, 1}), tail);
            break;
        case 1: /* some bytes less */
            tail.data += tail.len ? rnd(tail.len) + 1 : 0;
            tail.len = (size_t)(s.data + s.len - tail.data);
            s = PAWL_CAT(c, head, tail);
            break;
        case 2: /* cut off */
            s = PAWL_CAT(c, head);
            break;
        case 3: /* another byte */
            if (tail.len)
                tail.data++, tail.len--;
            s = PAWL_CAT(c, head, ((pawl_str){byte, 1}), tail);
            break;
        case 4: /* a part twice */
            s = PAWL_CAT(c, head, tail, tail);
        }
    }
    return PAWL_CAT(c, s);
}

static void fuzz_messages(pawl_call *c, pawl_str in) {
    for (int32_t op = 0; op <= 11; op++)
        look(pawltest_serve(c, op, in));
    pawl_http_response p = pawltest_answer(c, in);
    look(p.body), look(p.failure_message), look(pawl_http_header(&p, "Retry-After"));
    look(pawl_http_outcome(c, &p).message);
}

static void fuzz_json(pawl_call *c, pawl_str in) {
    pawl_str error = {0};
    const pawl_json *v = pawl_json_parse(c, in, &error), *again;
    must(v ? !error.len : error.len > 0, "a text that is refused has a reason, and no other");
    if (v) {
        again = pawl_json_parse(c, PAWL_CAT(c, PAWL_STR(" "), in, PAWL_STR("\n")), NULL);
        must(again && pawl_json_equal(v, again), "white space around a text changes nothing");
        must(pawl_json_digest(v) == pawl_json_digest(again), "equal values have the same digest");
        again = pawl_json_parse(c, PAWL_CAT(c, PAWL_STR("["), in, PAWL_STR(",{\"x\":"), in, PAWL_STR("}]")), NULL);
        must(!again || (pawl_json_equal(v, again->first) && pawl_json_digest(v) == pawl_json_digest(again->first->next->first)),
             "a value is the same within another");
    }
    again = pawl_json_parse(c, pawl_json_quote(c, in), NULL);
    must(pawl_valid_utf8(in) == (again != NULL), "every text can be quoted, and nothing else");
    must(!again || pawl_equal(again->text, in), "a quoted text reads as it was");
}

static void fuzz_text(pawl_call *c, pawl_str in) {
    pawl_pair p = {in, in}, out = {0};
    reader r = reader_of(message(c, encode_pair, &p));
    for (uint32_t f; (f = next_field(&r));)
        *(f == 1 ? &out.name : &out.value) = read_text(&r);
    must(!r.error, "what is sent as text is UTF-8");
    must(!pawl_valid_utf8(in) || pawl_equal(out.name, in), "what is UTF-8 is sent as it is");
    must(pawl_valid_utf8(pawl_escape_segment(c, in)), "an escaped text is UTF-8");
}

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: fuzz SEED ROUNDS FILE...\n");
        return 2;
    }
    state = strtoull(argv[1], NULL, 10);
    for (unsigned long n = strtoul(argv[2], NULL, 10); n > 0; n--) {
        static char buffer[1 << 16];
        FILE *f = fopen(argv[3 + rnd((uint64_t)argc - 3)], "rb");
        must(f != NULL, "the file can be read");
        pawl_str file = {buffer, fread(buffer, 1, sizeof buffer, f)};
        fclose(f);
        pawl_call *c = pawltest_begin();
        const pawl_json *vector = pawl_json_parse(c, file, NULL), *hex = pawl_json_get(vector, "hex");
        must(hex != NULL, "the file is a vector");
        pawl_str in = damaged(c, unhex(c, hex->text));
        fuzz_messages(c, in);
        fuzz_text(c, in);
        fuzz_json(c, damaged(c, file));
        pawltest_end(c);
    }
    return 0;
}
