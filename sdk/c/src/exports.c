/* What the host calls. */

#define EXPORT(name) __attribute__((export_name(#name), used))

enum { ABI_VERSION = 1, WANT_NOTHING = 0 };

EXPORT(pawl_abi) int32_t export_abi(void) { return ABI_VERSION; }

EXPORT(pawl_start) int32_t export_start(int32_t op, int64_t id) {
    pawl_call call = {.id = id};
    arena_reset();
    pawl_str answer = serve(&call, op, host_input(&call));
    import_result(id, answer.data, answer.len);
    if (op == OP_CONFIGURE)
        arena_keep();
    return WANT_NOTHING;
}

/* A call ends within the entry that began it, so that nothing is ever resumed,
 * polled for or cancelled between entries. */

EXPORT(pawl_resume) int32_t export_resume(int64_t io) {
    (void)io;
    return WANT_NOTHING;
}

EXPORT(pawl_poll) int32_t export_poll(void) { return WANT_NOTHING; }

EXPORT(pawl_cancel) int32_t export_cancel(int64_t id) {
    (void)id;
    return WANT_NOTHING;
}

#ifndef __wasi__

/* Global constructors, of C++ for one, run here. A WASI library brings an
 * _initialize of its own. */
void __wasm_call_ctors(void);
EXPORT(_initialize) void export_initialize(void) { __wasm_call_ctors(); }

#ifndef __wasm_bulk_memory__
#error "compile with -mbulk-memory, or with all of wasm.flags"
#endif

/* The compiler calls these four where it likes. */

__attribute__((weak)) void *memcpy(void *restrict to, const void *restrict from, size_t n) {
    return __builtin_memcpy(to, from, n);
}

__attribute__((weak)) void *memmove(void *to, const void *from, size_t n) { return __builtin_memmove(to, from, n); }

__attribute__((weak)) void *memset(void *to, int c, size_t n) { return __builtin_memset(to, c, n); }

__attribute__((weak)) int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = a, *y = b;
    for (; n; n--, x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

#endif
