/* What the JSON reader takes and what it refuses, and what text helpers do. */
#include "../pawl.c"

const pawl_adapter pawl_plugin = {.manifest = {.name = "none"}};

pawl_http_response pawltest_upstream(pawl_call *call, const pawl_http_request *request) {
    (void)call, (void)request;
    return (pawl_http_response){0};
}

static unsigned failed;

static void expect_text(const char *what, pawl_str got, const char *want) {
    if (pawl_equal(got, pawl_string(want)))
        return;
    printf("%s: got %.*s, want %s\n", what, (int)got.len, got.data, want);
    failed++;
}

static pawl_str times(pawl_call *c, const char *s, size_t n) {
    pawl_str out = {0};
    while (n--)
        out = PAWL_CAT(c, out, pawl_string(s));
    return out;
}

/* Texts and the reasons why they are none. */
static const char *const refused[][2] = {
    {"", "no JSON: a value was expected (byte 0)"},
    {"nul", "no JSON: a value was expected (byte 0)"},
    {"[1 2]", "no JSON: a comma or ] was expected (byte 3)"},
    {"[1,]", "no JSON: a value was expected (byte 3)"},
    {"{\"a\" 1}", "no JSON: a colon was expected (byte 5)"},
    {"{\"a\":1,}", "no JSON: a string was expected (byte 7)"},
    {"{a:1}", "no JSON: a string was expected (byte 1)"},
    {"{\"a\":1,\"b\":2,\"a\":3}", "no JSON: the name \"a\" comes twice (byte 19)"},
    {"{\"a\":1,\"\\u0061\":3}", "no JSON: the name \"a\" comes twice (byte 18)"},
    {"01", "no JSON: something follows the value (byte 1)"},
    {"-", "no JSON: a digit was expected (byte 1)"},
    {"1.", "no JSON: a digit was expected (byte 2)"},
    {"1e+", "no JSON: a digit was expected (byte 3)"},
    {"+1", "no JSON: a value was expected (byte 0)"},
    {"NaN", "no JSON: a value was expected (byte 0)"},
    {"\"a", "no JSON: a string without its end (byte 1)"},
    {"\"a\\\"", "no JSON: a string without its end (byte 1)"},
    {"\"a\nb\"", "no JSON: a control character within a string (byte 2)"},
    {"\"\\x\"", "no JSON: an unknown escape (byte 2)"},
    {"\"\\u12g4\"", "no JSON: four hexadecimal digits were expected (byte 5)"},
    {"\"\\ud800\"", "no JSON: a \\u escape is half of a surrogate pair (byte 7)"},
    {"\"\\ud800\\u0041\"", "no JSON: a \\u escape is half of a surrogate pair (byte 13)"},
    {"\"\\udc00\\ud800\"", "no JSON: a \\u escape is half of a surrogate pair (byte 7)"},
    {"\"\xC3\x28\"", "no JSON: no UTF-8 (byte 1)"},
    {"\"\xED\xA0\x80\"", "no JSON: no UTF-8 (byte 1)"},
    {"1 1", "no JSON: something follows the value (byte 2)"},
};

static void texts(pawl_call *c) {
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        pawl_str error = {0};
        if (pawl_json_parse(c, pawl_string(refused[i][0]), &error))
            error = PAWL_STR("taken");
        expect_text(refused[i][0], error, refused[i][1]);
    }
    const pawl_json *v = pawl_json_parse(
        c, PAWL_STR(" {\"b\":[-0.5e+10, true,null ,false],\"a\":\"\\ud83d\\ude80\\u00fc\\n\\/\",\"\":{}} "), NULL);
    expect_text("escapes", pawl_json_get(v, "a")->text, "\xF0\x9F\x9A\x80\xC3\xBC\n/");
    expect_text("a number's digits", pawl_json_get(v, "b")->first->text, "-0.5e+10");
    expect_text("members come in the order of their names", v->first->next->next->name, "b");
    expect_text("every level is counted",
                pawl_decimal(c, pawl_json_parse(c, PAWL_CAT(c, times(c, "[", 100), times(c, "]", 100)), NULL) != NULL), "1");
    pawl_str error = {0};
    pawl_json_parse(c, PAWL_CAT(c, times(c, "[", 101), times(c, "]", 101)), &error);
    expect_text("too deep", error, "no JSON: more than 100 levels (byte 101)");
}

static void numbers(pawl_call *c) {
    static const char *const cases[][2] = {
        {"18446744073709551615", "18446744073709551615"}, {"18446744073709551616", "none"}, {"-1", "none"},
        {"1.0", "none"}, {"1e3", "none"}, {"\"1\"", "none"}, {"0", "0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t n;
        bool whole = pawl_json_uint(pawl_json_parse(c, pawl_string(cases[i][0]), NULL), &n);
        expect_text(cases[i][0], whole ? pawl_decimal(c, n) : PAWL_STR("none"), cases[i][1]);
    }
}

static void comparisons(pawl_call *c) {
    static const struct {
        const char *a, *b;
        bool equal;
    } cases[] = {
        {"{\"a\":1,\"b\":[{\"c\":null,\"d\":\"\"}]}", "{\"b\":[{\"d\":\"\",\"c\":null}],\"a\":1}", true},
        {"[1,2]", "[2,1]", false},
        {"[[1],2]", "[[1,2]]", false},
        {"{\"a\":{}}", "{\"a\":[]}", false},
        {"{\"a\":1}", "{\"b\":1}", false},
        {"1", "1.0", false},
        {"1", "\"1\"", false},
        {"[]", "[null]", false},
        {"[\"a\",\"b\"]", "[\"ab\"]", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const pawl_json *a = pawl_json_parse(c, pawl_string(cases[i].a), NULL);
        const pawl_json *b = pawl_json_parse(c, pawl_string(cases[i].b), NULL);
        bool digests = pawl_json_digest(a) == pawl_json_digest(b);
        expect_text(cases[i].a, pawl_json_equal(a, b) ? PAWL_STR("equal") : PAWL_STR("not equal"),
                    cases[i].equal ? "equal" : "not equal");
        expect_text("the digests", digests ? PAWL_STR("equal") : PAWL_STR("not equal"),
                    cases[i].equal ? "equal" : "not equal");
    }
}

static void strangers(pawl_call *c) {
    static const char *const known[] = {"path", "upstream", NULL};
    const pawl_json *v = pawl_json_parse(c, PAWL_STR("{\"path\":1,\"paths\":2}"), NULL);
    expect_text("a misspelt name", pawl_json_stranger(v, known)->name, "paths");
    v = pawl_json_parse(c, PAWL_STR("{\"path\":1}"), NULL);
    expect_text("none", pawl_json_stranger(v, known) ? PAWL_STR("one") : PAWL_STR("none"), "none");
}

static void text_helpers(pawl_call *c) {
    pawl_str key = PAWL_STR("a/b c%~\xC3\xBC");
    expect_text("a path", pawl_escape_path(c, key), "a/b%20c%25~%C3%BC");
    expect_text("a segment", pawl_escape_segment(c, key), "a%2Fb%20c%25~%C3%BC");
    expect_text("quoted", pawl_json_quote(c, PAWL_STR("a\"\\\n\xC3\xBC")), "\"a\\\"\\\\\\u000a\xC3\xBC\"");
    expect_text("the largest number", pawl_decimal(c, UINT64_MAX), "18446744073709551615");
    expect_text("hexadecimal", pawl_hex(c, PAWL_STR("\x01\xFE")), "01fe");
}

int main(void) {
    pawl_call *c = pawltest_begin();
    texts(c);
    numbers(c);
    comparisons(c);
    strangers(c);
    text_helpers(c);
    pawltest_end(c);
    return failed ? 1 : 0;
}
