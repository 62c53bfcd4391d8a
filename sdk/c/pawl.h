/*
 * pawl.h: Pawl plugins in C, and in every language that can call C.
 *
 * A plugin brings one kind of target to the state that is desired of it. It
 * defines pawl_plugin, whose functions look at one object, write it, delete it:
 *
 *     static pawl_result apply(pawl_call *call, const pawl_request *r) { ... }
 *
 *     const pawl_adapter pawl_plugin = {
 *         .manifest = {.name = "things", .version = "1.0.0", .finds_by_key = true},
 *         .apply = apply,
 *     };
 *
 * and is built together with pawl.c:
 *
 *     clang @pawl/wasm.flags -o things.wasm things.c pawl/pawl.c
 *
 * Needed are clang 14 and its linker lld, or newer; no C library. README.md
 * leads from there to a plugin that runs.
 *
 * Calls. An instance runs one call at a time and blocks while the host sends
 * its request; the host starts more instances for more calls (16 of them).
 *
 * Memory. pawl_alloc and all that the functions below return lives until the
 * call ends; there is nothing to free. What configure allocates lives as long
 * as the instance. What the host handed in is read only. Where memory is used
 * up the instance traps, which the host counts as the plugin's fault.
 *
 * Strings. A pawl_str is a pointer and a length; it holds text or any bytes,
 * and no end is marked. Text that goes to the host is UTF-8; stray bytes in
 * it are replaced by U+FFFD.
 */
#ifndef PAWL_H
#define PAWL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* pawl_str is text or bytes; data may be NULL where len is 0. */
typedef struct pawl_str {
    const char *data;
    size_t len;
} pawl_str;

/* PAWL_STR makes a pawl_str of a string literal, PAWL_STR_INIT where a constant
 * must be initialised. */
#define PAWL_STR_INIT(literal) {"" literal, sizeof("" literal) - 1}
#ifdef __cplusplus
#define PAWL_STR(literal) (pawl_str PAWL_STR_INIT(literal))
#else
#define PAWL_STR(literal) ((pawl_str)PAWL_STR_INIT(literal))
#endif

/* pawl_call is the call that is being served; it leads to its memory and to
 * the host, and is passed on to whatever needs one of them. */
typedef struct pawl_call pawl_call;

/* pawl_pair is a header, a trailer, or an entry of an observation's meta. */
typedef struct pawl_pair {
    pawl_str name;
    pawl_str value;
} pawl_pair;

/* pawl_status is how a call ends. All but the last three are the target's own
 * word; README.md says what the engine makes of each. */
typedef enum pawl_status {
    PAWL_OK = 1,
    PAWL_NOT_FOUND = 2,      /* of observe: no such object; of remove: success */
    PAWL_ALREADY_EXISTS = 3, /* a create met an object */
    PAWL_CONFLICT = 4,       /* a precondition failed: the engine looks, then decides */
    PAWL_REJECTED = 5,       /* the target refuses this content for good */
    PAWL_OBSOLETE = 6,       /* the target holds something newer */
    PAWL_IN_PROGRESS = 7,    /* the target is deleting it */
    PAWL_UNAUTHORIZED = 8,   /* the credentials were refused */
    PAWL_RETRY = 9,          /* the target can't now */
    PAWL_UNREACHABLE = 10    /* no answer */
} pawl_status;

/* pawl_tri is an answer that may be unknown. */
typedef enum pawl_tri { PAWL_UNKNOWN = 0, PAWL_YES = 1, PAWL_NO = 2 } pawl_tri;

/* pawl_conflict_policy is what the engine does about a target that somebody
 * else changed. Adapters need it only where the target wants to be told. */
typedef enum pawl_conflict_policy {
    PAWL_SOURCE_WINS = 1,
    PAWL_TARGET_WINS = 2,
    PAWL_REPORT_ONLY = 3
} pawl_conflict_policy;

typedef enum pawl_mode {
    PAWL_UPSERT = 0,     /* create or replace */
    PAWL_CREATE_ONLY = 1 /* create; an object that exists is PAWL_ALREADY_EXISTS */
} pawl_mode;

/* The operations of a manifest, as bits of pawl_manifest.ops. */
#define PAWL_OP_OBSERVE (1u << 3)
#define PAWL_OP_APPLY (1u << 4)
#define PAWL_OP_DELETE (1u << 5)
#define PAWL_OP_APPLY_BATCH (1u << 6)
#define PAWL_OP_POLL (1u << 7)
#define PAWL_OP_UNLOCK (1u << 8)
#define PAWL_OP_RESTORE (1u << 9)
#define PAWL_OP_COMPARE (1u << 10)

/* PAWL_MAX_ADAPTER_STATE bounds pawl_observation.adapter_state, in bytes. */
#define PAWL_MAX_ADAPTER_STATE 65536

/* PAWL_MAX_IMAGE bounds pawl_observation.content, in bytes, where the call is a
 * saga's and bears no image yet. */
#define PAWL_MAX_IMAGE 1048576

/* pawl_acked is what the target last confirmed of a resource. */
typedef struct pawl_acked {
    uint64_t generation;
    pawl_str content_hash; /* SHA-256 of the payload, 32 bytes, or empty */
    pawl_str ref;
    pawl_str as_found;
    pawl_str uid;
    pawl_str cursor;
    pawl_str adapter_state; /* what the adapter returned with that ack */
    pawl_str payload;       /* where has_payload: while newer work waits and the policy is not source-wins */
    bool has_payload;
} pawl_acked;

/* pawl_attempt is content that was sent and not answered: it may have landed. */
typedef struct pawl_attempt {
    pawl_str content_hash;
    pawl_str payload; /* where has_payload */
    bool has_payload;
} pawl_attempt;

/* pawl_image is an object as it was before a saga's step wrote it: what observe
 * reported then. */
typedef struct pawl_image {
    bool exists;
    pawl_str cid; /* what a write is conditional on */
    pawl_str uid;
    pawl_str content; /* in the adapter's own terms, at most PAWL_MAX_IMAGE bytes */
} pawl_image;

/* pawl_saga_run is what a call that belongs to a saga knows of it. id and step
 * are the mark: write them into the target together with the object, in one
 * request. */
typedef struct pawl_saga_run {
    pawl_str id;   /* of this run, 32 hexadecimal digits: no other run, of whatever store, has the same */
    uint32_t step; /* its place in the saga, from 0 */
    /* locks are what the run holds, or is to take with this very write, of an
     * adapter whose manifest says lock: hexadecimal digits, sorted. A write that
     * finds one taken by another run changes nothing and is PAWL_CONFLICT. */
    const pawl_str *locks;
    size_t lock_count;
    bool held; /* the run holds locks already; the write goes through only if it still does */
    /* before is the object as it was before the step: apply and remove are
     * conditional on it, and restore brings it back. NULL: observe is to report it. */
    const pawl_image *before;
} pawl_saga_run;

/* pawl_request is one call about one resource. */
typedef struct pawl_request {
    pawl_str sink;
    pawl_str key; /* opaque UTF-8, at most 1,024 bytes, no control characters */
    uint64_t generation;
    pawl_str payload;         /* what is desired; empty for a tombstone */
    pawl_str content_hash;    /* SHA-256 of payload, 32 bytes */
    pawl_str idempotency_key; /* stable over the retries of one generation */
    const pawl_acked *acked;  /* NULL: never acked */
    const pawl_attempt *attempted;
    size_t attempted_count;
    pawl_conflict_policy conflict_policy;
    pawl_mode mode;
    bool force;          /* the operator asked to take over conflicting fields */
    uint32_t timeout_ms; /* what was left of the call's deadline when it started */
    pawl_str uid;        /* of remove: this very object only, else PAWL_CONFLICT; empty: no precondition */
    const pawl_saga_run *saga; /* NULL: the call belongs to no saga */
    /* epoch is of the store that the resource is in: another one after it was
     * restored. Generations compare within one alone. Empty in a saga's call. */
    pawl_str epoch;
} pawl_request;

/* pawl_observation is what a call saw of the target's object. */
typedef struct pawl_observation {
    bool exists;
    pawl_str ref;             /* how the target names the object */
    pawl_str cid;             /* id of its content there: an ETag, a resourceVersion */
    pawl_str as_found;        /* hash of what the adapter owns there, in its own terms */
    pawl_tri match_desired;   /* equal to the payload at every field owned now or at the last ack */
    pawl_tri match_acked;     /* equal to what was last acked */
    pawl_tri match_attempted; /* equal to one of the attempts */
    const pawl_str *differing; /* paths that differ from desired; never values */
    size_t differing_count;
    pawl_str content; /* where has_content: see pawl_manifest.reports_content; of a saga's call without saga->before, that image's content */
    bool has_content;
    int64_t at_unix_ms; /* when the target changed it; 0: unknown */
    const pawl_pair *meta; /* in any order; names must differ */
    size_t meta_count;
    pawl_str cursor;
    pawl_str uid;
    pawl_str object;        /* identity of the object: two resources with the same one contend */
    pawl_str adapter_state; /* given back in pawl_acked; at most PAWL_MAX_ADAPTER_STATE bytes */
    pawl_tri ours;          /* bears our mark; of a saga's call, that of this run and step */
} pawl_observation;

/* pawl_manifest says what a plugin can do. Flags are promises. */
typedef struct pawl_manifest {
    const char *name;
    const char *version;
    uint32_t ops;               /* PAWL_OP_... Defaults to those whose functions pawl_adapter has */
    const char *config_schema;  /* JSON Schema of the sink's config */
    const char *payload_schema; /* JSON Schema of payloads; NULL: opaque bytes */
    bool apply_confirms;        /* an OK of apply proves that the target persisted it */
    bool apply_idempotent;      /* the same apply twice is harmless */
    bool finds_by_key;          /* never creates a second object; the host refuses plugins that do */
    bool reports_uid;           /* observations carry the object's uid */
    bool as_found_comparable;   /* as_found of an object equal to a payload is that payload's content hash in hex */
    uint32_t undoable;          /* PAWL_OP_APPLY, PAWL_OP_DELETE: which of them restore undoes, in a saga */
    bool lock;                  /* takes a saga's locks with its write; needs mark, and unlock */
    bool mark;                  /* marks what a saga writes, and observe tells by ours whether that landed */
    uint32_t batch_max;         /* requests of one apply_batch; 0 or 1: none */
    const char *overlap;        /* which keys must not share a batch: NULL (all may) or "key-prefix" */
    const char *const *upstream_kinds; /* ends with NULL */
    bool reports_content;       /* what observe and poll see of an object that exists has its content, in the form of a payload */
} pawl_manifest;

/* pawl_result is how a call ends. PAWL_SUCCESS and pawl_fail begin one. */
typedef struct pawl_result {
    pawl_status status;
    pawl_str message;        /* for people, logged and kept; never payload values */
    uint32_t retry_after_ms; /* what the target asked to wait; 0: nothing */
    bool retry_after_target; /* that speaks for the whole target, not for this object */
    pawl_observation observation;
    pawl_str target; /* of configure: identity of the target. Defaults to the upstreams' base URLs */
    const pawl_manifest *manifest; /* of configure: flags and ops for this sink; NULL: as registered */
} pawl_result;

/* pawl_seen is the state of one object at the target, as a poll tells it. */
typedef struct pawl_seen {
    pawl_str key;                 /* of the resource that it is, as pawl_request.key */
    pawl_observation observation; /* without exists: it is gone; else with its content */
} pawl_seen;

/* PAWL_MAX_SEEN bounds pawl_changes.seen. */
#define PAWL_MAX_SEEN 10000

/* pawl_changes is what a poll tells. */
typedef struct pawl_changes {
    const pawl_seen *seen; /* in the order of the target's changes; of several for one key the last one counts */
    size_t seen_count;
    pawl_str cursor; /* what to ask from next; kept once seen is taken in */
    bool more;       /* there is more, and the next poll follows at once */
    bool reset;      /* the cursor that was asked from is known no more: seen begins with the whole again */
} pawl_changes;

/* pawl_compare_item is one resource: hashes of its key and of all that is desired
 * of it, 16 bytes each. */
typedef struct pawl_compare_item {
    pawl_str key;
    pawl_str content;
} pawl_compare_item;

/* pawl_compare_node is the sum of all resources whose hash begins with prefix. */
typedef struct pawl_compare_node {
    pawl_str prefix; /* whole bytes of the hash; empty: the root */
    uint64_t count;  /* of its items */
    pawl_str digest; /* sum of the digests of its items, 16 bytes */
} pawl_compare_node;

/* pawl_compare_leaf is a node with all its items. */
typedef struct pawl_compare_leaf {
    pawl_str prefix;
    const pawl_compare_item *items;
    size_t item_count;
} pawl_compare_leaf;

/* pawl_comparison asks about some nodes of the tree that resources are by the
 * bytes of a hash of their keys. */
typedef struct pawl_comparison {
    pawl_str sink;
    pawl_str epoch;                  /* of the store that asks, as pawl_request.epoch */
    const pawl_compare_node *nodes;  /* of which the target answers which differ */
    size_t node_count;
    const pawl_compare_leaf *leaves; /* of which it answers which items differ, and what else it has there */
    size_t leaf_count;
    uint32_t timeout_ms; /* what was left of the call's deadline when it started */
} pawl_comparison;

/* pawl_difference is what a comparison found. */
typedef struct pawl_difference {
    const pawl_str *nodes; /* prefixes of the nodes that differ */
    size_t node_count;
    const pawl_str *items; /* key hashes of the leaves' items that differ or are missing */
    size_t item_count;
    const pawl_str *extra; /* keys that the target holds below the leaves asked about, and that they lack */
    size_t extra_count;
} pawl_difference;

/* pawl_upstream is what a plugin may know of an upstream: no credential. */
typedef struct pawl_upstream {
    pawl_str name;
    pawl_str kind;     /* "http", "kubernetes", ... */
    pawl_str base_url; /* without user information and query */
} pawl_upstream;

/* pawl_config is what an instance is told before its first call. */
typedef struct pawl_config {
    pawl_str sink;
    pawl_str json; /* the sink's plugin config as a JSON object, {} where there is none */
    const pawl_upstream *upstreams; /* granted, in the order of the operator's config */
    size_t upstream_count;
} pawl_config;

/* pawl_adapter is a plugin. Functions that are NULL are not offered; apply is
 * needed. */
typedef struct pawl_adapter {
    pawl_manifest manifest;
    /* configure is called once per instance, before all others. What is not OK
     * refuses the sink: say which key is wrong and what would be right. */
    pawl_result (*configure)(pawl_call *call, const pawl_config *config);
    /* observe looks and changes nothing. OK without observation.exists is
     * PAWL_NOT_FOUND. */
    pawl_result (*observe)(pawl_call *call, const pawl_request *r);
    /* apply makes the object what r->payload says, found by r->key: a second
     * apply never makes a second object. */
    pawl_result (*apply)(pawl_call *call, const pawl_request *r);
    /* remove is the operation delete, which is a keyword of C++. That there is
     * no such object is success, or PAWL_NOT_FOUND, which means the same. */
    pawl_result (*remove)(pawl_call *call, const pawl_request *r);
    /* apply_batch writes one result per request to items, in order. A result
     * other than OK speaks for the whole batch, and items are not looked at. */
    pawl_result (*apply_batch)(pawl_call *call, const pawl_request *rs, size_t count, pawl_result *items);
    /* restore makes the object what r->saga->before says, if what the step wrote
     * still stands: r->payload, empty for a deletion. OK: it is as before, also
     * where it was already. PAWL_CONFLICT: somebody changed it since, and it was
     * left as it is. Where nothing was there before, only an object that bears the
     * mark is removed, by its identity. Neither saga nor before is NULL. */
    pawl_result (*restore)(pawl_call *call, const pawl_request *r);
    /* unlock gives up whatever r->saga->id holds at the target, locks and marks,
     * and leaves objects as they are. OK: there is none of it. saga is not NULL. */
    pawl_result (*unlock)(pawl_call *call, const pawl_request *r);
    /* poll tells what changed at the target after cursor, which is what an earlier
     * poll answered; an empty one is the beginning, where everything counts as
     * changed. It changes nothing, and leaves nothing out: what changes while it runs
     * comes with the next one. It needs reports_content. */
    pawl_result (*poll)(pawl_call *call, pawl_str cursor, pawl_changes *changes);
    /* compare says where the target differs from what is asked. */
    pawl_result (*compare)(pawl_call *call, const pawl_comparison *c, pawl_difference *difference);
} pawl_adapter;

/* pawl_plugin is the author's. */
extern const pawl_adapter pawl_plugin;

/* pawl_success is OK without anything observed. */
pawl_result pawl_success(void);

/* pawl_fail is a result of that status. */
pawl_result pawl_fail(pawl_status status, pawl_str message);

/* ---- HTTP ---- */

typedef enum pawl_failure {
    PAWL_FAIL_NONE = 0,
    PAWL_FAIL_DNS = 1,
    PAWL_FAIL_CONNECT = 2,
    PAWL_FAIL_TLS = 3,
    PAWL_FAIL_TIMEOUT = 4,
    PAWL_FAIL_DENIED = 5,    /* the host refuses: not granted, bad path, bad header */
    PAWL_FAIL_TOO_LARGE = 6, /* the response is larger than the host allows */
    PAWL_FAIL_CANCELLED = 7,
    PAWL_FAIL_PROTOCOL = 8 /* reset, truncated, malformed */
} pawl_failure;

typedef struct pawl_http_request {
    pawl_str upstream; /* name of a granted upstream */
    pawl_str method;
    pawl_str path; /* path and query, starts with "/"; appended to the upstream's base URL */
    const pawl_pair *headers;
    size_t header_count;
    pawl_str body;
    bool has_body;       /* tells an empty body from none; implied by a body that is not empty */
    uint32_t timeout_ms; /* 0: what is left of the call */
} pawl_http_request;

typedef struct pawl_http_response {
    uint32_t status; /* 0 where there is a failure */
    const pawl_pair *headers;
    size_t header_count;
    pawl_str body; /* whole */
    const pawl_pair *trailers;
    size_t trailer_count;
    pawl_failure failure;
    pawl_str failure_message;
    bool maybe_sent; /* of a failure: the target may have seen the request */
} pawl_http_response;

/* pawl_http sends a request and waits for the whole answer. It is OK for every
 * answer, one of status 500 too. Without an answer it is PAWL_UNREACHABLE, for
 * PAWL_FAIL_DENIED PAWL_REJECTED, for PAWL_FAIL_TOO_LARGE PAWL_RETRY: return it
 * as it is. response->failure tells more. */
pawl_result pawl_http(pawl_call *call, const pawl_http_request *request, pawl_http_response *response);

/* pawl_http_outcome is what an answer means in a usual HTTP API:
 *
 *     2xx                      OK
 *     401, 403                 PAWL_UNAUTHORIZED
 *     404, 410                 PAWL_NOT_FOUND
 *     409, 412                 PAWL_CONFLICT
 *     408, 425, 429, 5xx, 1xx  PAWL_RETRY, with Retry-After; of 429 and 503 for the whole target
 *     all others               PAWL_REJECTED; a redirect is never a confirmation
 *
 * Its message tells the status and nothing of the body, which may repeat
 * payload values. */
pawl_result pawl_http_outcome(pawl_call *call, const pawl_http_response *response);

/* pawl_http_header is the value of the first header of that name, whatever its
 * case, or empty. */
pawl_str pawl_http_header(const pawl_http_response *response, const char *name);

/* pawl_escape_path makes s, a resource's key say, safe behind a "/" in a path:
 * all but letters, digits, "-", ".", "_" and "~" is percent-encoded. Slashes
 * stay. The host refuses empty, "." and ".." segments. */
pawl_str pawl_escape_path(pawl_call *call, pawl_str s);

/* pawl_escape_segment encodes slashes too: for one value in a query. In a path
 * the host refuses %2F. */
pawl_str pawl_escape_segment(pawl_call *call, pawl_str s);

/* pawl_sleep blocks the call for so many milliseconds, or until it ends. */
void pawl_sleep(pawl_call *call, uint32_t ms);

/* ---- JSON ---- */

typedef enum pawl_json_type {
    PAWL_JSON_NULL,
    PAWL_JSON_FALSE,
    PAWL_JSON_TRUE,
    PAWL_JSON_NUMBER,
    PAWL_JSON_STRING,
    PAWL_JSON_ARRAY,
    PAWL_JSON_OBJECT
} pawl_json_type;

/* pawl_json is a value; for (e = v->first; e; e = e->next) visits the elements
 * of an array or the members of an object. */
typedef struct pawl_json pawl_json;
struct pawl_json {
    pawl_json_type type;
    pawl_str name; /* of an object's member */
    pawl_str text; /* of a string its text; of a number its digits as they came */
    const pawl_json *first;
    const pawl_json *next;
    size_t count; /* of elements or members */
};

/* pawl_json_parse reads one JSON text. It is strict (RFC 8259): a name that
 * comes twice, bad UTF-8, a lone surrogate and more than 100 levels are errors
 * too. It returns NULL, and says in *error what is wrong where; error may be NULL. */
const pawl_json *pawl_json_parse(pawl_call *call, pawl_str text, pawl_str *error);

/* pawl_json_get is the member of that name, or NULL; also of what is no object. */
const pawl_json *pawl_json_get(const pawl_json *object, const char *name);

/* pawl_json_stranger is the first member whose name is not among names, which
 * end with NULL; NULL: there is none. So a misspelt key is an error and not a default. */
const pawl_json *pawl_json_stranger(const pawl_json *object, const char *const *names);

/* pawl_json_uint reads a whole number of 0 to 2^64-1; false: it is none. */
bool pawl_json_uint(const pawl_json *value, uint64_t *out);

/* pawl_json_equal compares by value: members in any order, arrays in order,
 * numbers by their digits as they came. */
bool pawl_json_equal(const pawl_json *a, const pawl_json *b);

/* pawl_json_digest is a digest of the value: equal ones have the same. It tells
 * whether something changed, and is no defence against who wants to hide it. */
uint64_t pawl_json_digest(const pawl_json *value);

/* pawl_json_quote writes s as a JSON string, with its quotes. */
pawl_str pawl_json_quote(pawl_call *call, pawl_str s);

/* ---- memory and text ---- */

/* pawl_alloc returns so many zeroed bytes, aligned to 16, and never NULL. */
void *pawl_alloc(pawl_call *call, size_t bytes);

/* pawl_cat joins strings; PAWL_CAT(call, a, b, ...) counts them. */
pawl_str pawl_cat(pawl_call *call, const pawl_str *parts, size_t count);
#ifndef __cplusplus
#define PAWL_CAT(call, ...) \
    pawl_cat(call, (const pawl_str[]){__VA_ARGS__}, sizeof((const pawl_str[]){__VA_ARGS__}) / sizeof(pawl_str))
#endif

/* pawl_decimal and pawl_hex write numbers and bytes; pawl_hex in lower case. */
pawl_str pawl_decimal(pawl_call *call, uint64_t n);
pawl_str pawl_hex(pawl_call *call, pawl_str bytes);

/* pawl_string is a string that ends with a NUL byte; NULL is empty. */
pawl_str pawl_string(const char *s);

bool pawl_equal(pawl_str a, pawl_str b);

/* pawl_compare orders strings byte by byte: below 0, 0, above 0. */
int pawl_compare(pawl_str a, pawl_str b);

bool pawl_has_prefix(pawl_str s, pawl_str prefix);

/* pawl_valid_utf8 reports whether s is UTF-8. */
bool pawl_valid_utf8(pawl_str s);

typedef enum pawl_level { PAWL_DEBUG = 0, PAWL_INFO = 1, PAWL_WARN = 2, PAWL_ERROR = 3 } pawl_level;

/* pawl_log hands a line to the host's log, which adds sink, key and plugin and
 * limits the rate. Never log payload values. */
void pawl_log(pawl_call *call, pawl_level level, pawl_str line);

#ifdef __cplusplus
}

template <class... Strings> static inline pawl_str PAWL_CAT(pawl_call *call, Strings... parts) {
    const pawl_str all[] = {parts...};
    return pawl_cat(call, all, sizeof...(parts));
}
#endif

#endif
