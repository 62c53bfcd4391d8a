/* Requests and what answers to them mean. */

static const char *failure_name(pawl_failure f) {
    switch (f) {
    case PAWL_FAIL_NONE: break;
    case PAWL_FAIL_DNS: return "name lookup failed";
    case PAWL_FAIL_CONNECT: return "connection failed";
    case PAWL_FAIL_TLS: return "TLS failed";
    case PAWL_FAIL_TIMEOUT: return "timed out";
    case PAWL_FAIL_DENIED: return "refused by the host";
    case PAWL_FAIL_TOO_LARGE: return "response too large";
    case PAWL_FAIL_CANCELLED: return "cancelled";
    case PAWL_FAIL_PROTOCOL: return "protocol error";
    }
    return "failed";
}

static pawl_status failure_status(pawl_failure f) {
    switch (f) {
    case PAWL_FAIL_NONE: return PAWL_OK;
    case PAWL_FAIL_DENIED: return PAWL_REJECTED;
    case PAWL_FAIL_TOO_LARGE: return PAWL_RETRY; /* the target did answer */
    default: return PAWL_UNREACHABLE;
    }
}

/* text_of_request reports whether all of a request's text is UTF-8. Unlike in a
 * result nothing is replaced: that would be another request. */
static bool text_of_request(const pawl_http_request *q) {
    bool ok = pawl_valid_utf8(q->upstream) && pawl_valid_utf8(q->method) && pawl_valid_utf8(q->path);
    for (size_t i = 0; ok && i < q->header_count; i++)
        ok = pawl_valid_utf8(q->headers[i].name) && pawl_valid_utf8(q->headers[i].value);
    return ok;
}

pawl_result pawl_http(pawl_call *call, const pawl_http_request *request, pawl_http_response *response) {
    if (text_of_request(request))
        *response = host_http(call, request, message(call, encode_http_request, request));
    else
        *response = no_answer(PAWL_FAIL_DENIED, PAWL_STR("upstream, method, path or a header is not UTF-8; escape what "
                                                         "goes into a path"));
    if (!response->failure)
        return pawl_success();
    return pawl_fail(failure_status(response->failure),
                     PAWL_CAT(call, PAWL_STR("upstream "), pawl_json_quote(call, request->upstream), PAWL_STR(": "),
                              pawl_string(failure_name(response->failure)), PAWL_STR(": "), response->failure_message));
}

void pawl_sleep(pawl_call *call, uint32_t ms) { host_sleep(call, ms, message(call, encode_sleep, &ms)); }

void pawl_log(pawl_call *call, pawl_level level, pawl_str line) { host_log(call->id, level, line); }

pawl_str pawl_http_header(const pawl_http_response *response, const char *name) {
    for (size_t i = 0; i < response->header_count; i++)
        if (equal_fold(response->headers[i].name, pawl_string(name)))
            return response->headers[i].value;
    return (pawl_str){"", 0};
}

/* two_digits reads s[at] and s[at + 1]; -1: they are none. */
static int two_digits(pawl_str s, size_t at) {
    int tens = s.data[at] - '0', ones = s.data[at + 1] - '0';
    return tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9 ? tens * 10 + ones : -1;
}

/* http_date reads "Sun, 06 Nov 1994 08:49:37 GMT" as seconds since 1970; -1: it
 * is none. */
static int64_t http_date(pawl_str s) {
    static const char months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int month = 0;
    if (s.len != 29 || !pawl_equal((pawl_str){s.data + 25, 4}, PAWL_STR(" GMT")))
        return -1;
    while (month < 12 && __builtin_memcmp(s.data + 8, months + month * 3, 3) != 0)
        month++;
    int day = two_digits(s, 5), century = two_digits(s, 12), year = two_digits(s, 14);
    int hour = two_digits(s, 17), minute = two_digits(s, 20), second = two_digits(s, 23);
    if (month == 12 || day < 1 || century < 19 || year < 0 || hour < 0 || minute < 0 || second < 0)
        return -1;
    /* Days, counted in years that begin in March, so that leap days are last. */
    int64_t y = century * 100 + year - (month < 2), m = (month + 10) % 12;
    int64_t days = y * 365 + y / 4 - y / 100 + y / 400 + (m * 153 + 2) / 5 + day - 1 - 719468;
    return ((days * 24 + hour) * 60 + minute) * 60 + second;
}

/* retry_after_ms is what Retry-After says: seconds, or a date, which is taken
 * relative to the answer's own. 0: nothing that can be understood. */
static uint32_t retry_after_ms(const pawl_http_response *response) {
    pawl_str v = pawl_http_header(response, "Retry-After");
    pawl_json number = {.type = PAWL_JSON_NUMBER, .text = v};
    uint64_t seconds = 0;
    if (!v.len || !pawl_json_uint(&number, &seconds)) {
        int64_t then = http_date(v), now = http_date(pawl_http_header(response, "Date"));
        seconds = now >= 0 && then > now ? (uint64_t)(then - now) : 0;
    }
    return seconds > UINT32_MAX / 1000 ? UINT32_MAX : (uint32_t)seconds * 1000;
}

static pawl_status outcome_status(uint32_t s) {
    if (s >= 200 && s <= 299)
        return PAWL_OK;
    switch (s) {
    case 401: case 403: return PAWL_UNAUTHORIZED;
    case 404: case 410: return PAWL_NOT_FOUND;
    case 409: case 412: return PAWL_CONFLICT;
    case 408: case 425: case 429: return PAWL_RETRY;
    }
    return s < 200 || s >= 500 ? PAWL_RETRY : PAWL_REJECTED;
}

pawl_result pawl_http_outcome(pawl_call *call, const pawl_http_response *response) {
    uint32_t s = response->status;
    pawl_result r = {.status = outcome_status(s)};
    if (r.status == PAWL_OK)
        return r;
    r.message = PAWL_CAT(call, PAWL_STR("the target answered "), pawl_decimal(call, s));
    if (s >= 300 && s <= 399)
        r.message = PAWL_CAT(call, r.message, PAWL_STR("; a redirect is never a confirmation: give the upstream the "
                                                       "address that it leads to"));
    if (r.status == PAWL_RETRY) {
        r.retry_after_ms = retry_after_ms(response);
        r.retry_after_target = r.retry_after_ms && (s == 429 || s == 503);
    }
    return r;
}
