/* The protobuf wire format. */

enum { WIRE_VARINT = 0, WIRE_I64 = 1, WIRE_BYTES = 2, WIRE_I32 = 5 };

/* reader reads one message. The first error sticks and ends the reading;
 * whoever decodes looks at error once, at the end. What it hands out is part
 * of the message. */
typedef struct reader {
    const unsigned char *at, *end;
    unsigned wire; /* of the field that next_field returned */
    const char *error; /* one of the reasons of the golden vectors */
} reader;

static reader reader_of(pawl_str message) {
    const unsigned char *p = (const unsigned char *)message.data;
    return (reader){.at = p, .end = p ? p + message.len : p};
}

static void refuse(reader *r, const char *reason) {
    if (!r->error)
        r->error = reason;
}

static uint64_t read_varint(reader *r) {
    uint64_t v = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (r->error || r->at == r->end) {
            refuse(r, "truncated");
            return 0;
        }
        unsigned char c = *r->at++;
        if (shift == 63 && c > 1) {
            refuse(r, "varint");
            return 0;
        }
        v |= (uint64_t)(c & 0x7F) << shift;
        if (c < 0x80)
            return v;
    }
}

/* next_field returns the number of the next field, or 0 at the end of the
 * message and after an error. The caller reads the value or skips it. */
static uint32_t next_field(reader *r) {
    if (r->error || r->at == r->end)
        return 0;
    uint64_t tag = read_varint(r);
    if (r->error)
        return 0;
    r->wire = (unsigned)(tag & 7);
    if (tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1)
        refuse(r, "tag");
    else if (r->wire == 3 || r->wire == 4)
        refuse(r, "group");
    else if (r->wire > WIRE_I32)
        refuse(r, "tag");
    return r->error ? 0 : (uint32_t)(tag >> 3);
}

static pawl_str take(reader *r, uint64_t n) {
    if (r->error || n > (uint64_t)(r->end - r->at)) {
        refuse(r, "truncated");
        return (pawl_str){NULL, 0};
    }
    pawl_str s = {(const char *)r->at, (size_t)n};
    r->at += n;
    return s;
}

static bool expect(reader *r, unsigned wire) {
    if (r->wire != wire)
        refuse(r, "wire-type");
    return !r->error;
}

static uint64_t read_uint(reader *r) { return expect(r, WIRE_VARINT) ? read_varint(r) : 0; }

static bool read_bool(reader *r) { return read_uint(r) != 0; }

/* read_enum reads a value of 0 to largest. */
static unsigned read_enum(reader *r, unsigned largest) {
    uint64_t v = read_uint(r);
    if (v > largest) {
        refuse(r, "enum");
        return 0;
    }
    return (unsigned)v;
}

static pawl_str read_bytes(reader *r) {
    if (!expect(r, WIRE_BYTES))
        return (pawl_str){NULL, 0};
    uint64_t n = read_varint(r);
    return take(r, n);
}

static pawl_str read_text(reader *r) {
    pawl_str s = read_bytes(r);
    if (!pawl_valid_utf8(s)) {
        refuse(r, "utf-8");
        return (pawl_str){NULL, 0};
    }
    return s;
}

static void skip(reader *r) {
    switch (r->wire) {
    case WIRE_VARINT: read_varint(r); break;
    case WIRE_I64: take(r, 8); break;
    case WIRE_BYTES: read_bytes(r); break;
    case WIRE_I32: take(r, 4); break;
    }
}

/* read_message begins an embedded message; message_read hands its error back. */
static reader read_message(reader *r) { return reader_of(read_bytes(r)); }

static void message_read(reader *r, const reader *sub) {
    if (sub->error)
        refuse(r, sub->error);
}

/* writer writes a message to memory of the right size, or with out NULL finds
 * that size out. */
typedef struct writer {
    char *out;
    size_t len;
} writer;

static void put_bytes(writer *w, const char *data, size_t len) {
    if (w->out && len)
        __builtin_memcpy(w->out + w->len, data, len);
    w->len += len;
}

static void put_varint(writer *w, uint64_t v) {
    char b[10];
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        b[n++] = (char)(v | 0x80);
    b[n++] = (char)v;
    put_bytes(w, b, n);
}

/* put_head writes tag and length of a field of len bytes. */
static void put_head(writer *w, uint32_t field, size_t len) {
    put_varint(w, (uint64_t)field << 3 | WIRE_BYTES);
    put_varint(w, len);
}

/* The functions that write a field write none for a default value. */

static void put_uint(writer *w, uint32_t field, uint64_t v) {
    if (!v)
        return;
    put_varint(w, (uint64_t)field << 3 | WIRE_VARINT);
    put_varint(w, v);
}

static void put_blob(writer *w, uint32_t field, pawl_str s) {
    if (!s.len)
        return;
    put_head(w, field, s.len);
    put_bytes(w, s.data, s.len);
}

/* put_clean writes s with U+FFFD in the place of each run of stray bytes. */
static void put_clean(writer *w, pawl_str s) {
    for (size_t i = 0; i < s.len;) {
        size_t n = utf8_prefix(s, i);
        put_bytes(w, s.data + i, n);
        i += n;
        if (i == s.len)
            return;
        put_bytes(w, "\xEF\xBF\xBD", 3);
        while (i < s.len && !utf8_rune(s, i))
            i++;
    }
}

/* put_entry writes text that is an element, or half of a map entry: an empty one too. */
static void put_entry(writer *w, uint32_t field, pawl_str s) {
    writer size = {0};
    put_clean(&size, s);
    put_head(w, field, size.len);
    put_clean(w, s);
}

static void put_text(writer *w, uint32_t field, pawl_str s) {
    if (s.len)
        put_entry(w, field, s);
}

/* encoder writes the message that value points to. */
typedef void encoder(writer *w, const void *value);

static void put_message(writer *w, uint32_t field, encoder *encode, const void *value) {
    writer size = {0};
    encode(&size, value);
    put_head(w, field, size.len);
    encode(w, value);
}

/* message is the encoded message, in the call's memory. */
static pawl_str message(pawl_call *call, encoder *encode, const void *value) {
    writer w = {0};
    encode(&w, value);
    w.out = pawl_alloc(call, w.len);
    w.len = 0;
    encode(&w, value);
    return (pawl_str){w.out, w.len};
}
