/* The host's functions, as the plugin ABI has them. */

#define IMPORT(name) __attribute__((import_module("pawl_v1"), import_name(#name)))

IMPORT(input_len) int32_t import_input_len(void);
IMPORT(input_read) void import_input_read(void *to);
IMPORT(result) int32_t import_result(int64_t call, const void *message, size_t len);
IMPORT(io_call) int32_t import_io_call(int64_t call, int32_t kind, const void *message, size_t len);
IMPORT(log) void import_log(int64_t call, int32_t level, const void *line, size_t len);

enum { IO_HTTP = 1, IO_SLEEP = 2 };

/* What io_call answers instead of a length. */
enum { IO_ENDED = -1, IO_TOO_MANY = -2, IO_TOO_LARGE = -3 };

/* host_input is a copy of the current input. */
static pawl_str host_input(pawl_call *call) {
    size_t len = (size_t)import_input_len();
    char *to = pawl_alloc(call, len);
    import_input_read(to);
    return (pawl_str){to, len};
}

static pawl_http_response host_http(pawl_call *call, const pawl_http_request *request, pawl_str m) {
    (void)request;
    int32_t code = import_io_call(call->id, IO_HTTP, m.data, m.len);
    if (code == IO_ENDED)
        return no_answer(PAWL_FAIL_CANCELLED, PAWL_STR("the call has ended"));
    if (code == IO_TOO_MANY) /* of the sink's other calls: nothing is wrong with this one */
        return no_answer(PAWL_FAIL_CANCELLED, PAWL_STR("too many requests of the sink are under way"));
    if (code == IO_TOO_LARGE)
        return no_answer(PAWL_FAIL_DENIED, PAWL_STR("the request is larger than the host allows"));
    if (code < 0)
        return no_answer(PAWL_FAIL_DENIED, PAWL_STR("the host grants no request to this call"));
    return http_answer(call, host_input(call));
}

static void host_sleep(pawl_call *call, uint32_t ms, pawl_str m) {
    (void)ms;
    import_io_call(call->id, IO_SLEEP, m.data, m.len);
}

static void host_log(int64_t call, pawl_level level, pawl_str line) {
    import_log(call, (int32_t)level, line.data, line.len);
}
