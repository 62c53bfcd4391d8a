/* Calls of a native test. */

pawl_call *pawltest_begin(void) {
    static int64_t last;
    pawl_call *call = calloc(1, sizeof *call);
    if (!call)
        abort();
    call->id = ++last;
    return call;
}

void pawltest_end(pawl_call *call) {
    arena_free(call);
    free(call);
}

pawl_result pawltest_configure(const char *config) {
    static const pawl_upstream granted[] = {
        {PAWL_STR_INIT(PAWLTEST_UPSTREAM), PAWL_STR_INIT("http"), PAWL_STR_INIT("http://target.test")}};
    pawl_config c = {PAWL_STR("test"), pawl_string(config), granted, 1};
    arena_free(&test_host.config);
    return configure(&test_host.config, &c);
}

pawl_result pawltest_run(pawl_call *call, uint32_t op, const pawl_request *r) {
    int32_t number = 0;
    while (number < 31 && op != 1u << number)
        number++;
    return run(call, number, r);
}

pawl_result pawltest_poll(pawl_call *call, pawl_str cursor, pawl_changes *changes) {
    poll_result p = run_poll(call, cursor);
    *changes = p.changes;
    return p.result;
}

pawl_result pawltest_compare(pawl_call *call, const pawl_comparison *c, pawl_difference *difference) {
    compare_result r = run_compare(call, c);
    *difference = r.difference;
    return r.result;
}

pawl_str pawltest_serve(pawl_call *call, int32_t op, pawl_str input) { return serve(call, op, input); }

pawl_http_response pawltest_answer(pawl_call *call, pawl_str m) { return http_answer(call, m); }

uint64_t pawltest_slept_ms(void) { return test_host.slept_ms; }
