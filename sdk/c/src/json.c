/* A strict reader of JSON. */

enum { JSON_MAX_DEPTH = 100 };

typedef struct parser {
    pawl_call *call;
    pawl_str text;
    size_t at;
    pawl_str problem; /* the first one; its data is NULL as long as there is none */
    size_t where;
} parser;

static bool json_fail(parser *p, pawl_str problem) {
    if (!p->problem.data) {
        p->problem = problem;
        p->where = p->at;
    }
    return false;
}

/* peek is the next byte, or -1 at the end. */
static int peek(const parser *p) { return p->at < p->text.len ? (unsigned char)p->text.data[p->at] : -1; }

static bool accept(parser *p, char c) {
    if (peek(p) != (unsigned char)c)
        return false;
    p->at++;
    return true;
}

static void skip_space(parser *p) {
    for (int c; (c = peek(p)) == ' ' || c == '\t' || c == '\n' || c == '\r';)
        p->at++;
}

static bool parse_word(parser *p, pawl_str word) {
    pawl_str rest = {p->text.data + p->at, p->text.len - p->at};
    if (!pawl_has_prefix(rest, word))
        return json_fail(p, PAWL_STR("a value was expected"));
    p->at += word.len;
    return true;
}

static bool parse_digits(parser *p) {
    size_t start = p->at;
    for (int c; (c = peek(p)) >= '0' && c <= '9';)
        p->at++;
    return p->at > start || json_fail(p, PAWL_STR("a digit was expected"));
}

static bool parse_number(parser *p, pawl_str *out) {
    size_t start = p->at;
    accept(p, '-');
    if (!accept(p, '0') && !parse_digits(p))
        return false;
    if (accept(p, '.') && !parse_digits(p))
        return false;
    if (accept(p, 'e') || accept(p, 'E')) {
        if (!accept(p, '+'))
            accept(p, '-');
        if (!parse_digits(p))
            return false;
    }
    *out = (pawl_str){p->text.data + start, p->at - start};
    return true;
}

/* parse_hex4 reads the digits of a \u escape. */
static bool parse_hex4(parser *p, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(p);
        if (c >= '0' && c <= '9')
            c -= '0';
        else if (c >= 'a' && c <= 'f')
            c -= 'a' - 10;
        else if (c >= 'A' && c <= 'F')
            c -= 'A' - 10;
        else
            return json_fail(p, PAWL_STR("four hexadecimal digits were expected"));
        *out = *out << 4 | (uint32_t)c;
        p->at++;
    }
    return true;
}

static size_t put_rune(char *out, uint32_t r) {
    if (r < 0x80) {
        out[0] = (char)r;
        return 1;
    }
    if (r < 0x800) {
        out[0] = (char)(0xC0 | r >> 6);
        out[1] = (char)(0x80 | (r & 0x3F));
        return 2;
    }
    if (r < 0x10000) {
        out[0] = (char)(0xE0 | r >> 12);
        out[1] = (char)(0x80 | (r >> 6 & 0x3F));
        out[2] = (char)(0x80 | (r & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | r >> 18);
    out[1] = (char)(0x80 | (r >> 12 & 0x3F));
    out[2] = (char)(0x80 | (r >> 6 & 0x3F));
    out[3] = (char)(0x80 | (r & 0x3F));
    return 4;
}

static bool parse_unicode(parser *p, uint32_t *rune) {
    uint32_t low;
    if (!parse_hex4(p, rune))
        return false;
    if (*rune < 0xD800 || *rune > 0xDFFF)
        return true;
    if (*rune > 0xDBFF || !accept(p, '\\') || !accept(p, 'u') || !parse_hex4(p, &low) || low < 0xDC00 || low > 0xDFFF)
        return json_fail(p, PAWL_STR("a \\u escape is half of a surrogate pair"));
    *rune = 0x10000 + ((*rune - 0xD800) << 10) + (low - 0xDC00);
    return true;
}

/* parse_escape reads what follows a backslash. */
static bool parse_escape(parser *p, char *out, size_t *n) {
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint32_t rune;
    if (accept(p, 'u')) {
        if (!parse_unicode(p, &rune))
            return false;
        *n += put_rune(out + *n, rune);
        return true;
    }
    for (size_t i = 0; i < sizeof names - 1; i++)
        if (accept(p, names[i])) {
            out[(*n)++] = values[i];
            return true;
        }
    return json_fail(p, PAWL_STR("an unknown escape"));
}

/* string_end finds the closing quote and whether there are escapes before it. */
static bool string_end(parser *p, size_t *end, bool *escapes) {
    *escapes = false;
    for (size_t i = p->at; i < p->text.len; i++) {
        unsigned char c = (unsigned char)p->text.data[i];
        if (c == '"') {
            *end = i;
            return true;
        }
        if (c < 0x20) {
            p->at = i;
            return json_fail(p, PAWL_STR("a control character within a string"));
        }
        if (c == '\\') {
            *escapes = true;
            i++;
        }
    }
    return json_fail(p, PAWL_STR("a string without its end"));
}

/* parse_string reads a string; its opening quote is next. */
static bool parse_string(parser *p, pawl_str *out) {
    size_t end, n = 0;
    bool escapes;
    if (!accept(p, '"'))
        return json_fail(p, PAWL_STR("a string was expected"));
    if (!string_end(p, &end, &escapes))
        return false;
    if (!escapes) {
        *out = (pawl_str){p->text.data + p->at, end - p->at};
        p->at = end + 1;
        return true;
    }
    char *s = pawl_alloc(p->call, end - p->at); /* no escape is shorter than what it stands for */
    while (p->at < end) {
        if (!accept(p, '\\'))
            s[n++] = p->text.data[p->at++];
        else if (!parse_escape(p, s, &n))
            return false;
    }
    p->at = end + 1;
    *out = (pawl_str){s, n};
    return true;
}

static bool parse_value(parser *p, pawl_json *v, unsigned depth);

/* merge sorts n members that begin at *list, by name, in place, and leaves at
 * *list what follows them. */
static pawl_json *sort_members(pawl_json **list, size_t n) {
    if (n == 1) {
        pawl_json *one = *list;
        *list = (pawl_json *)one->next;
        one->next = NULL;
        return one;
    }
    pawl_json *a = sort_members(list, n / 2), *b = sort_members(list, n - n / 2);
    pawl_json *head = NULL, *last = NULL;
    while (a || b) {
        pawl_json **from = !b || (a && pawl_compare(a->name, b->name) <= 0) ? &a : &b;
        pawl_json *m = *from;
        *from = (pawl_json *)m->next;
        m->next = NULL;
        if (last)
            last->next = m;
        else
            head = m;
        last = m;
    }
    return head;
}

/* finish_members puts an object's members in the order of their names, so that
 * equal objects read equal, and finds names that come twice. */
static bool finish_members(parser *p, pawl_json *object) {
    if (!object->count)
        return true;
    pawl_json *list = (pawl_json *)object->first;
    object->first = sort_members(&list, object->count);
    for (const pawl_json *m = object->first; m->next; m = m->next)
        if (pawl_equal(m->name, m->next->name))
            return json_fail(p, PAWL_CAT(p->call, PAWL_STR("the name "), pawl_json_quote(p->call, m->name),
                                         PAWL_STR(" comes twice")));
    return true;
}

/* parse_items reads what is between the brackets of an array or an object. */
static bool parse_items(parser *p, pawl_json *v, char close, unsigned depth) {
    pawl_json *last = NULL;
    if (depth > JSON_MAX_DEPTH)
        return json_fail(p, PAWL_STR("more than 100 levels"));
    skip_space(p);
    if (accept(p, close))
        return true;
    do {
        pawl_json *item = pawl_alloc(p->call, sizeof *item);
        skip_space(p);
        if (v->type == PAWL_JSON_OBJECT) {
            if (!parse_string(p, &item->name))
                return false;
            skip_space(p);
            if (!accept(p, ':'))
                return json_fail(p, PAWL_STR("a colon was expected"));
            skip_space(p);
        }
        if (!parse_value(p, item, depth))
            return false;
        if (last)
            last->next = item;
        else
            v->first = item;
        last = item;
        v->count++;
        skip_space(p);
    } while (accept(p, ','));
    if (!accept(p, close))
        return json_fail(p, close == ']' ? PAWL_STR("a comma or ] was expected") : PAWL_STR("a comma or } was expected"));
    return v->type == PAWL_JSON_ARRAY || finish_members(p, v);
}

static bool parse_value(parser *p, pawl_json *v, unsigned depth) {
    switch (peek(p)) {
    case '{':
        p->at++;
        v->type = PAWL_JSON_OBJECT;
        return parse_items(p, v, '}', depth + 1);
    case '[':
        p->at++;
        v->type = PAWL_JSON_ARRAY;
        return parse_items(p, v, ']', depth + 1);
    case '"':
        v->type = PAWL_JSON_STRING;
        return parse_string(p, &v->text);
    case 't':
        v->type = PAWL_JSON_TRUE;
        return parse_word(p, PAWL_STR("true"));
    case 'f':
        v->type = PAWL_JSON_FALSE;
        return parse_word(p, PAWL_STR("false"));
    case 'n':
        v->type = PAWL_JSON_NULL;
        return parse_word(p, PAWL_STR("null"));
    case '-': case '0': case '1': case '2': case '3': case '4': case '5': case '6': case '7': case '8': case '9':
        v->type = PAWL_JSON_NUMBER;
        return parse_number(p, &v->text);
    }
    return json_fail(p, PAWL_STR("a value was expected"));
}

static bool parse_document(parser *p, pawl_json *v) {
    size_t good = utf8_prefix(p->text, 0);
    if (good < p->text.len) {
        p->at = good;
        return json_fail(p, PAWL_STR("no UTF-8"));
    }
    skip_space(p);
    if (!parse_value(p, v, 0))
        return false;
    skip_space(p);
    return p->at == p->text.len || json_fail(p, PAWL_STR("something follows the value"));
}

const pawl_json *pawl_json_parse(pawl_call *call, pawl_str text, pawl_str *error) {
    parser p = {.call = call, .text = text};
    pawl_json *v = pawl_alloc(call, sizeof *v);
    if (parse_document(&p, v))
        return v;
    if (error)
        *error = PAWL_CAT(call, PAWL_STR("no JSON: "), p.problem, PAWL_STR(" (byte "), pawl_decimal(call, p.where),
                          PAWL_STR(")"));
    return NULL;
}

const pawl_json *pawl_json_get(const pawl_json *object, const char *name) {
    pawl_str wanted = pawl_string(name);
    if (object && object->type == PAWL_JSON_OBJECT)
        for (const pawl_json *m = object->first; m; m = m->next)
            if (pawl_equal(m->name, wanted))
                return m;
    return NULL;
}

const pawl_json *pawl_json_stranger(const pawl_json *object, const char *const *names) {
    for (const pawl_json *m = object->first; m; m = m->next) {
        const char *const *n = names;
        while (*n && !pawl_equal(m->name, pawl_string(*n)))
            n++;
        if (!*n)
            return m;
    }
    return NULL;
}

bool pawl_json_uint(const pawl_json *value, uint64_t *out) {
    uint64_t v = 0;
    if (!value || value->type != PAWL_JSON_NUMBER)
        return false;
    for (size_t i = 0; i < value->text.len; i++) {
        char c = value->text.data[i];
        if (c < '0' || c > '9' || v > (UINT64_MAX - (uint64_t)(c - '0')) / 10)
            return false;
        v = v * 10 + (uint64_t)(c - '0');
    }
    *out = v;
    return true;
}

bool pawl_json_equal(const pawl_json *a, const pawl_json *b) {
    if (a->type != b->type || a->count != b->count || !pawl_equal(a->text, b->text))
        return false;
    for (a = a->first, b = b->first; a; a = a->next, b = b->next)
        if (!pawl_equal(a->name, b->name) || !pawl_json_equal(a, b))
            return false;
    return true;
}

/* mix is FNV-1a over a length and as many bytes. */
static uint64_t mix(uint64_t h, pawl_str s) {
    for (size_t n = s.len, i = 0; i < 4; i++, n >>= 8)
        h = (h ^ (n & 0xFF)) * 0x100000001B3u;
    for (size_t i = 0; i < s.len; i++)
        h = (h ^ (unsigned char)s.data[i]) * 0x100000001B3u;
    return h;
}

static uint64_t digest(uint64_t h, const pawl_json *v) {
    const char type[] = {(char)v->type};
    h = mix(mix(h, (pawl_str){type, 1}), v->text);
    for (const pawl_json *e = v->first; e; e = e->next)
        h = digest(mix(h, e->name), e);
    return mix(h, PAWL_STR("")); /* the end of what is in it */
}

uint64_t pawl_json_digest(const pawl_json *value) { return digest(0xCBF29CE484222325u, value); }

pawl_str pawl_json_quote(pawl_call *call, pawl_str s) {
    static const char digits[] = "0123456789abcdef";
    if (s.len > SIZE_MAX / 8)
        out_of_memory(call);
    char *out = pawl_alloc(call, s.len * 6 + 2);
    size_t n = 0;
    out[n++] = '"';
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (c == '"' || c == '\\')
            out[n++] = '\\';
        if (c >= 0x20) {
            out[n++] = (char)c;
            continue;
        }
        __builtin_memcpy(out + n, "\\u00", 4);
        n += 4;
        out[n++] = digits[c >> 4];
        out[n++] = digits[c & 15];
    }
    out[n++] = '"';
    return (pawl_str){out, n};
}
