/* The memory of calls. In a plugin there is one arena: only one call is served
 * at a time, and what it allocated is given up as a whole. */

struct pawl_call {
    int64_t id;
    struct block *blocks; /* of a native test only */
};

/* ARENA_ALIGN is enough for every type of C. */
#define ARENA_ALIGN 16u

static void host_log(int64_t call, pawl_level level, pawl_str line);

/* out_of_memory ends the instance: no caller has to check what it was given. */
static void out_of_memory(pawl_call *call) {
    host_log(call->id, PAWL_ERROR, PAWL_STR("out of memory"));
    __builtin_trap();
}

#ifdef __wasm__

#define WASM_PAGE 65536u

/* chunk is memory that was got for calls, and is kept for the next ones. Chunks
 * that follow each other are joined. */
typedef struct chunk {
    struct chunk *next;
    size_t size; /* of what follows the header */
    size_t pad[2];
} chunk;

#ifdef __wasi__

#include <stdlib.h>

/* A C library takes all of the memory that there is for its own, so that it is
 * the one to ask. */
static void *get_pages(size_t pages) { return malloc(pages * WASM_PAGE); }

#else

static void *get_pages(size_t pages) {
    size_t at = __builtin_wasm_memory_grow(0, pages);
    return at == (size_t)-1 ? NULL : (void *)(at * WASM_PAGE);
}

#endif

static struct {
    chunk *first, *current;
    size_t used;             /* of current */
    chunk *kept;             /* where the memory of calls begins: */
    size_t kept_used;        /* before it is what configure allocated */
} arena;

static void *arena_take(size_t bytes) {
    while (arena.current && bytes > arena.current->size - arena.used) {
        if (!arena.current->next)
            return NULL;
        arena.current = arena.current->next;
        arena.used = 0;
    }
    if (!arena.current)
        return NULL;
    char *p = (char *)(arena.current + 1) + arena.used;
    arena.used += bytes;
    return p;
}

/* arena_grow gets room for so many bytes at the end of the arena. */
static bool arena_grow(size_t bytes) {
    size_t pages = (bytes + sizeof(chunk) + WASM_PAGE - 1) / WASM_PAGE;
    chunk *c = get_pages(pages);
    if (!c)
        return false;
    chunk *last = arena.current;
    if (last && (char *)(last + 1) + last->size == (char *)c) {
        last->size += pages * WASM_PAGE;
        return true;
    }
    c->next = NULL;
    c->size = pages * WASM_PAGE - sizeof(chunk);
    if (last)
        last->next = c;
    else
        arena.first = c;
    arena.current = c;
    arena.used = 0;
    return true;
}

void *pawl_alloc(pawl_call *call, size_t bytes) {
    if (bytes > SIZE_MAX / 2)
        out_of_memory(call);
    bytes = (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    void *p = arena_take(bytes);
    if (!p && arena_grow(bytes))
        p = arena_take(bytes);
    if (!p)
        out_of_memory(call);
    return __builtin_memset(p, 0, bytes);
}

/* arena_reset gives up what calls allocated. */
static void arena_reset(void) {
    arena.current = arena.kept ? arena.kept : arena.first;
    arena.used = arena.kept_used;
}

/* arena_keep makes all that is allocated now live as long as the instance. */
static void arena_keep(void) {
    arena.kept = arena.current;
    arena.kept_used = arena.used;
}

#else

#include <stdlib.h>

/* Of a native test each allocation is one of its own, so that a sanitizer sees
 * where it ends. */
struct block {
    struct block *next;
};

void *pawl_alloc(pawl_call *call, size_t bytes) {
    const size_t head = (sizeof(struct block) + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    struct block *b = bytes > SIZE_MAX / 2 ? NULL : calloc(1, head + bytes);
    if (!b)
        out_of_memory(call);
    b->next = call->blocks;
    call->blocks = b;
    return (char *)b + head;
}

static void arena_free(pawl_call *call) {
    while (call->blocks) {
        struct block *b = call->blocks;
        call->blocks = b->next;
        free(b);
    }
}

#endif

/* room_for_one returns items, or a copy that is twice as large where count
 * fills it: it holds 4, 8, 16, ... */
static void *room_for_one(pawl_call *call, const void *items, size_t count, size_t size) {
    if (count > 0 && (count < 4 || (count & (count - 1)) != 0))
        return (void *)items;
    if (count > SIZE_MAX / 4 / size)
        out_of_memory(call);
    void *larger = pawl_alloc(call, (count ? count * 2 : 4) * size);
    if (count)
        __builtin_memcpy(larger, items, count * size);
    return larger;
}
