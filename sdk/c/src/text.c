/* Strings. */

pawl_str pawl_string(const char *s) {
    pawl_str out = {s, 0};
    while (s && s[out.len])
        out.len++;
    return out;
}

bool pawl_equal(pawl_str a, pawl_str b) {
    return a.len == b.len && (a.len == 0 || __builtin_memcmp(a.data, b.data, a.len) == 0);
}

bool pawl_has_prefix(pawl_str s, pawl_str prefix) {
    return s.len >= prefix.len && pawl_equal((pawl_str){s.data, prefix.len}, prefix);
}

int pawl_compare(pawl_str a, pawl_str b) {
    size_t n = a.len < b.len ? a.len : b.len;
    int c = n ? __builtin_memcmp(a.data, b.data, n) : 0;
    return c ? c : (a.len > b.len) - (a.len < b.len);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c; }

/* equal_fold compares header names: ASCII, case ignored. */
static bool equal_fold(pawl_str a, pawl_str b) {
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.data[i]) != lower(b.data[i]))
            return false;
    return true;
}

/* utf8_rune is the length of the well-formed character at s[i], or 0: neither
 * surrogates nor overlong forms nor what is above U+10FFFF is one. */
static size_t utf8_rune(pawl_str s, size_t i) {
    const unsigned char *p = (const unsigned char *)s.data + i;
    size_t left = s.len - i, n;
    unsigned char low = 0x80, high = 0xBF; /* of the second byte */
    if (p[0] < 0x80)
        return 1;
    if (p[0] >= 0xC2 && p[0] <= 0xDF)
        n = 2;
    else if (p[0] >= 0xE0 && p[0] <= 0xEF)
        n = 3;
    else if (p[0] >= 0xF0 && p[0] <= 0xF4)
        n = 4;
    else
        return 0;
    switch (p[0]) {
    case 0xE0: low = 0xA0; break;
    case 0xED: high = 0x9F; break;
    case 0xF0: low = 0x90; break;
    case 0xF4: high = 0x8F; break;
    }
    if (left < n || p[1] < low || p[1] > high)
        return 0;
    for (size_t k = 2; k < n; k++)
        if ((p[k] & 0xC0) != 0x80)
            return 0;
    return n;
}

/* utf8_prefix is how many bytes from s[i] on are well-formed. */
static size_t utf8_prefix(pawl_str s, size_t i) {
    size_t start = i, n;
    while (i < s.len && (n = utf8_rune(s, i)))
        i += n;
    return i - start;
}

bool pawl_valid_utf8(pawl_str s) { return utf8_prefix(s, 0) == s.len; }

pawl_str pawl_cat(pawl_call *call, const pawl_str *parts, size_t count) {
    size_t len = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > SIZE_MAX / 2 - len)
            out_of_memory(call);
        len += parts[i].len;
    }
    char *out = pawl_alloc(call, len);
    size_t at = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len)
            __builtin_memcpy(out + at, parts[i].data, parts[i].len);
        at += parts[i].len;
    }
    return (pawl_str){out, len};
}

pawl_str pawl_decimal(pawl_call *call, uint64_t n) {
    char *out = pawl_alloc(call, 20); /* digits of 2^64-1 */
    size_t at = 20;
    do {
        out[--at] = (char)('0' + n % 10);
        n /= 10;
    } while (n);
    return (pawl_str){out + at, 20 - at};
}

pawl_str pawl_hex(pawl_call *call, pawl_str bytes) {
    static const char digits[] = "0123456789abcdef";
    if (bytes.len > SIZE_MAX / 4)
        out_of_memory(call);
    char *out = pawl_alloc(call, bytes.len * 2);
    for (size_t i = 0; i < bytes.len; i++) {
        unsigned char c = (unsigned char)bytes.data[i];
        out[2 * i] = digits[c >> 4];
        out[2 * i + 1] = digits[c & 15];
    }
    return (pawl_str){out, bytes.len * 2};
}

/* unreserved reports whether c stands for itself in a URL (RFC 3986). */
static bool unreserved(char c, bool slashes) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~' || (c == '/' && slashes);
}

static pawl_str escape(pawl_call *call, pawl_str s, bool slashes) {
    static const char digits[] = "0123456789ABCDEF";
    if (s.len > SIZE_MAX / 4)
        out_of_memory(call);
    char *out = pawl_alloc(call, s.len * 3);
    size_t n = 0;
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.data[i];
        if (unreserved(s.data[i], slashes)) {
            out[n++] = s.data[i];
            continue;
        }
        out[n++] = '%';
        out[n++] = digits[c >> 4];
        out[n++] = digits[c & 15];
    }
    return (pawl_str){out, n};
}

pawl_str pawl_escape_path(pawl_call *call, pawl_str s) { return escape(call, s, true); }

pawl_str pawl_escape_segment(pawl_call *call, pawl_str s) { return escape(call, s, false); }
