package main

// vector is one case. Either text (protobuf text format) is given, and the
// bytes are what protobuf makes of it; or hex (spaces allowed), and the value
// is what protobuf reads, or there is none because the bytes are invalid.
type vector struct {
	message string
	name    string // of the file
	about   string
	text    string
	hex     string
	invalid string // reason, one of those in README.md
	// ours: Pawl is stricter than protobuf, or means something else; protobuf is not asked.
	ours bool
}

const hash32 = `"\000\001\002\003\004\005\006\007\010\011\012\013\014\015\016\017\020\021\022\023\024\025\026\027\030\031\032\033\034\035\036\377"`

var vectors = []vector{
	// What the host sends.
	{message: "Configure", name: "empty", about: "all defaults: no bytes at all", text: ``},
	{message: "Configure", name: "two-upstreams", about: "a usual configuration", text: `
		sink: "web" config: "{\"path\":\"/objects/{key}\"}"
		upstreams {name: "a" kind: "http" base_url: "https://a.example/base"}
		upstreams {name: "b" kind: "kubernetes" base_url: "https://b.example"}`},
	{message: "Request", name: "minimal", about: "a first delivery", text: `
		sink: "web" key: "a" generation: 1 payload: "{}" conflict_policy: SOURCE_WINS timeout_ms: 30000`},
	{message: "Request", name: "full", about: "every field that a delivery has", text: `
		sink: "web" key: "team/ünï-🚀" generation: 18446744073709551615 payload: "{\"a\":1}"
		content_hash: ` + hash32 + ` idempotency_key: "e-7-abcdef"
		acked {generation: 6 content_hash: ` + hash32 + ` ref: "/team/x" as_found: "5f" uid: "u-1" cursor: "c"
			adapter_state: "\000\377" payload: "{}" has_payload: true}
		attempted {content_hash: ` + hash32 + `}
		attempted {content_hash: "\001" payload: "x" has_payload: true}
		conflict_policy: REPORT_ONLY mode: CREATE_ONLY force: true timeout_ms: 4294967295 uid: "u-2"`},
	{message: "Request", name: "epoch", about: "of which store it is", text: `sink: "web" key: "a" generation: 7 payload: "{}" epoch: "5f1c"`},
	{message: "Request", name: "acked-empty", about: "an embedded message that is there but empty differs from none", text: `key: "a" acked {}`},
	{message: "Request", name: "attempt-empty-payload", about: "an empty payload that was kept", text: `key: "a" attempted {has_payload: true}`},
	{message: "Request", name: "tombstone", about: "of a delete: no payload, no hash", text: `
		sink: "web" key: "a" generation: 300 idempotency_key: "e-300-" conflict_policy: TARGET_WINS timeout_ms: 128`},
	{message: "Request", name: "delete-uid", about: "of a delete of one object only, which is another one than that acked", text: `
		sink: "web" key: "a" generation: 300 idempotency_key: "e-300-" acked {generation: 299 ref: "/a" uid: "u-1"}
		conflict_policy: SOURCE_WINS timeout_ms: 128 uid: "u-2"`},
	{message: "Request", name: "long-payload", about: "a length of two bytes", text: `key: "a" payload: "` + repeat("0123456789abcdef", 20) + `"`},
	{message: "Request", name: "saga", about: "every field that a saga's step has", text: `
		sink: "web" key: "a" generation: 7 payload: "{}" idempotency_key: "e-7-" conflict_policy: SOURCE_WINS mode: CREATE_ONLY timeout_ms: 128
		saga {id: "00112233445566778899aabbccddeeff" step: 4294967295 locks: "0a" locks: "0b" held: true
			before {exists: true cid: "\"etag\"" uid: "u-1" content: "\000{}"}}`},
	{message: "Request", name: "saga-look", about: "no image: observe is to report one", text: `key: "a" saga {id: "00112233445566778899aabbccddeeff" step: 1}`},
	{message: "Request", name: "saga-nothing-before", about: "an image of nothing differs from no image", text: `key: "a" saga {id: "00" before {}}`},
	{message: "Request", name: "saga-empty", about: "a saga that is there but says nothing differs from none", text: `key: "a" saga {}`},
	{message: "Request", name: "saga-empty-lock", about: "an empty element of a repeated field is written", text: `key: "a" saga {id: "00" locks: "" locks: "0a"}`},
	{message: "Request", name: "saga-long-content", about: "lengths of two bytes at three levels", text: `
		key: "a" saga {id: "00" before {exists: true content: "` + repeat("0123456789abcdef", 20) + `"}}`},
	{message: "BatchRequest", name: "empty", about: "no items", text: ``},
	{message: "BatchRequest", name: "two", about: "two items, the second of them empty", text: `items {key: "a" generation: 1} items {}`},
	{message: "HTTPResponse", name: "ok", about: "an answer", text: `
		status: 200 headers {name: "Content-Type" value: "application/json"} headers {name: "X-Empty"} body: "{}" trailers {name: "Grpc-Status" value: "0"}`},
	{message: "HTTPResponse", name: "failure", about: "no answer", text: `failure: PROTOCOL failure_message: "connection reset" maybe_sent: true`},

	{message: "PollRequest", name: "beginning", about: "from the beginning", text: `sink: "web" timeout_ms: 30000`},
	{message: "PollRequest", name: "cursor", about: "from where the last answer ended", text: `sink: "web" cursor: "rv=17/ü" timeout_ms: 128`},
	{message: "CompareRequest", name: "root", about: "the first question", text: `
		sink: "web" epoch: "5f1c" nodes {count: 300 digest: "0123456789abcdef"} timeout_ms: 30000`},
	{message: "CompareRequest", name: "leaves", about: "inner nodes, a leaf, and one that is empty", text: `
		sink: "web" epoch: "5f1c" nodes {prefix: "\001" count: 18446744073709551615 digest: "0123456789abcdef"} nodes {prefix: "\001\377"}
		leaves {prefix: "\002" items {key: "0123456789abcdef" content: "fedcba9876543210"} items {}} leaves {prefix: "\003"}`},

	// What the guest sends.
	{message: "Result", name: "ok", about: "a bare OK", text: `status: OK`},
	{message: "Result", name: "unreachable", about: "the last status", text: `status: UNREACHABLE message: "no answer"`},
	{message: "Result", name: "retry-after", about: "for the whole target", text: `status: RETRY message: "busy" retry_after_ms: 86400000 retry_after_target: true`},
	{message: "Result", name: "configured", about: "of configure: a target and a manifest that changed", text: `
		status: OK observation {content: "\012\001m" has_content: true} target: "https://a.example"`},
	{message: "Result", name: "observed", about: "every field of an observation", text: `
		status: OK observation {exists: true ref: "/a" cid: "\"etag\"" as_found: "5f" match_desired: NO match_acked: YES match_attempted: NO
			differing: "/spec/replicas" differing: "/" content: "{}" has_content: true at_unix_ms: 1764446147123
			meta {key: "b" value: "2"} meta {key: "a" value: "1"} meta {key: "" value: ""}
			cursor: "c" uid: "u" object: "o" adapter_state: "\001\002" ours: YES}`},
	{message: "Result", name: "negative-time", about: "before 1970: a negative int64 takes ten bytes", text: `status: OK observation {exists: true at_unix_ms: -1}`},
	{message: "Result", name: "empty-content", about: "content that was reported and is empty", text: `status: OK observation {exists: true has_content: true}`},
	{message: "Result", name: "empty-path", about: "an empty element of a repeated field is written", text: `status: OK observation {exists: true differing: "" differing: "/a"}`},
	{message: "BatchResult", name: "items", about: "one result each", text: `items {status: OK} items {status: REJECTED message: "no"}`},
	{message: "BatchResult", name: "whole", about: "one for all", text: `whole {status: RETRY message: "busy"}`},
	{message: "PollResult", name: "nothing", about: "nothing changed", text: `result {status: OK} cursor: "17"`},
	{message: "PollResult", name: "changes", about: "one that is there, one that is gone, one of which only the key is said; and there is more", text: `
		result {status: OK}
		seen {key: "team/ünï-🚀" observation {exists: true cid: "\"etag\"" content: "{\"a\":1}" has_content: true meta {key: "b" value: "2"} uid: "u"}}
		seen {key: "b" observation {as_found: "x"}} seen {key: "c"} cursor: "18" more: true`},
	{message: "PollResult", name: "reset", about: "the cursor was known no more", text: `result {status: OK} reset: true cursor: "1"`},
	{message: "PollResult", name: "failed", about: "no answer", text: `result {status: UNREACHABLE message: "no answer"}`},
	{message: "CompareResult", name: "equal", about: "nothing differs", text: `result {status: OK}`},
	{message: "CompareResult", name: "differs", about: "empty elements of repeated fields are written", text: `
		result {status: OK} nodes: "" nodes: "\001\377" items: "0123456789abcdef" items: "fedcba9876543210" extra: "a" extra: "team/ünï-🚀"`},
	{message: "CompareResult", name: "failed", about: "the target can't now", text: `result {status: RETRY message: "busy" retry_after_ms: 1000}`},
	{message: "Manifest", name: "http", about: "a usual manifest; ops are packed", text: `
		name: "http" version: "1.0.0" ops: OP_OBSERVE ops: OP_APPLY ops: OP_DELETE config_schema: "{}" payload_schema: "{}"
		apply_confirms: true apply_idempotent: true finds_by_key: true reports_uid: true as_found_comparable: true
		batch_max: 500 overlap: "key-prefix" upstream_kinds: "http" upstream_kinds: "kubernetes"`},
	{message: "Manifest", name: "saga", about: "one that takes part in sagas", text: `
		name: "web" ops: OP_OBSERVE ops: OP_APPLY ops: OP_DELETE ops: OP_UNLOCK ops: OP_RESTORE finds_by_key: true
		undoable: OP_APPLY undoable: OP_DELETE lock: true mark: true`},
	{message: "Manifest", name: "inbound", about: "one that polls and compares", text: `
		name: "web" ops: OP_OBSERVE ops: OP_APPLY ops: OP_DELETE ops: OP_POLL ops: OP_COMPARE finds_by_key: true upstream_kinds: "http" reports_content: true`},
	{message: "HTTPRequest", name: "get", about: "no body", text: `upstream: "a" method: "GET" path: "/objects/a?x=1"`},
	{message: "HTTPRequest", name: "put", about: "headers, body, timeout", text: `
		upstream: "a" method: "PUT" path: "/objects/a" headers {name: "Content-Type" value: "application/json"} headers {name: "X-Empty"}
		body: "{}" has_body: true timeout_ms: 1500`},
	{message: "HTTPRequest", name: "empty-body", about: "an empty body is not none", text: `upstream: "a" method: "POST" path: "/" has_body: true`},
	{message: "Sleep", name: "second", about: "1000 ms", text: `ms: 1000`},

	// Bytes that decode, but that no encoder of ours writes.
	{message: "Request", name: "unknown-fields", about: "fields of the future, of each wire type, are skipped", hex: "12 01 61  a0 06 96 01  a9 06 0102030405060708  b2 06 03 787979  b5 06 01020304  18 07"},
	{message: "Request", name: "out-of-order", about: "fields may come in any order", hex: "18 07  12 01 61  0a 03 776562"},
	{message: "Request", name: "twice", about: "of a singular field that comes twice the last one counts", hex: "12 01 61  18 07  12 01 62  18 08"},
	{message: "Request", name: "explicit-defaults", about: "defaults may be written", hex: "0a 00  12 01 61  18 00  22 00  50 00  58 00"},
	{message: "Request", name: "long-varint", about: "a varint may have more bytes than it needs, up to ten", hex: "12 81 80 00 61  18 87 80 80 80 80 80 80 80 80 00"},
	{message: "Request", name: "reserved-fields", about: "numbers that were given up are unknown fields, of whatever wire type", hex: "12 01 61  68 01  72 02 c3 28  7a 01 75"},
	{message: "Request", name: "saga-unknown-fields", about: "and in a saga", hex: "12 01 61  82 01 0d  0a 01 30  30 01  2a 06 08 01 2a 02 ff ff"},
	{message: "HTTPResponse", name: "unknown-fields", about: "inside of embedded messages too", hex: "08 c8 01  12 08 0a 01 61 98 06 01 12 00"},
	{message: "Manifest", name: "unpacked-ops", about: "a repeated enum that is not packed is accepted", hex: "0a 01 6d  18 03  18 04  18 05"},
	{message: "Manifest", name: "unpacked-undoable", about: "a repeated enum that is not packed is accepted", hex: "0a 01 6d  58 04  58 05  60 01"},
	{message: "Manifest", name: "mixed-ops", about: "packed and unpacked parts add up", hex: "0a 01 6d  1a 02 03 04  18 05"},

	// Bytes that must be refused.
	{message: "Request", name: "truncated-tag", about: "the tag's second byte is missing", hex: "12 01 61  a0", invalid: "truncated"},
	{message: "Request", name: "truncated-length", about: "a length is missing", hex: "12", invalid: "truncated"},
	{message: "Request", name: "truncated-string", about: "fewer bytes than the length says", hex: "12 05 61 62", invalid: "truncated"},
	{message: "Request", name: "truncated-varint", about: "a number without its last byte", hex: "18 80", invalid: "truncated"},
	{message: "Request", name: "truncated-nested", about: "the embedded message ends within a field", hex: "3a 03 1a 05 61", invalid: "truncated"},
	{message: "Request", name: "truncated-unknown", about: "an unknown field must be whole too", hex: "a9 06 01 02", invalid: "truncated"},
	{message: "Request", name: "huge-length", about: "a length near 2⁶⁴ must not overflow", hex: "12 ff ff ff ff ff ff ff ff ff 01 61", invalid: "truncated"},
	{message: "Request", name: "overlong-varint", about: "eleven bytes", hex: "18 80 80 80 80 80 80 80 80 80 80 00", invalid: "varint"},
	{message: "Request", name: "overflowing-varint", about: "ten bytes, but more than 64 bits", hex: "18 ff ff ff ff ff ff ff ff ff 02", invalid: "varint"},
	{message: "Request", name: "field-zero", about: "there is no field 0", hex: "00 01", invalid: "tag"},
	{message: "Request", name: "field-too-large", about: "field numbers end at 2²⁹-1", hex: "80 80 80 80 10 01", invalid: "tag"},
	{message: "Request", name: "wire-type-6", about: "there is no such wire type", hex: "0e 01", invalid: "tag"},
	{message: "Request", name: "wire-type-7", about: "nor this one", hex: "a7 06 01", invalid: "tag"},
	{message: "Request", name: "group", about: "groups are refused, unknown ones too", hex: "a3 06 a4 06", invalid: "group", ours: true},
	{message: "Request", name: "end-group", about: "an end without a start", hex: "a4 06", invalid: "group"},
	{message: "Request", name: "string-as-varint", about: "a known field of another wire type", hex: "10 01", invalid: "wire-type", ours: true},
	{message: "Request", name: "varint-as-bytes", about: "a known field of another wire type", hex: "1a 01 07", invalid: "wire-type", ours: true},
	{message: "Request", name: "varint-as-fixed", about: "a known field of another wire type", hex: "19 0102030405060708", invalid: "wire-type", ours: true},
	{message: "Request", name: "bad-utf8", about: "strings are UTF-8", hex: "12 02 c3 28", invalid: "utf-8"},
	{message: "Request", name: "surrogate", about: "half a surrogate pair is not UTF-8", hex: "12 03 ed a0 80", invalid: "utf-8"},
	{message: "Request", name: "bad-utf8-nested", about: "in embedded messages too", hex: "3a 03 1a 01 ff", invalid: "utf-8"},
	{message: "Request", name: "unknown-policy", about: "an enum value that nobody knows", hex: "12 01 61 48 04", invalid: "enum", ours: true},
	{message: "Request", name: "negative-mode", about: "a negative enum", hex: "12 01 61 50 ff ff ff ff ff ff ff ff ff 01", invalid: "enum", ours: true},
	{message: "Request", name: "saga-truncated", about: "the embedded message is cut", hex: "12 01 61  82 01 05 0a 01 30", invalid: "truncated"},
	{message: "Request", name: "saga-truncated-image", about: "and one embedded in it", hex: "82 01 04 2a 02 12 05", invalid: "truncated"},
	{message: "Request", name: "saga-truncated-lock", about: "a lock ends with its saga", hex: "82 01 03 1a 02 30  12 01 61", invalid: "truncated"},
	{message: "Request", name: "saga-bad-utf8", about: "a lock is a string", hex: "82 01 03 1a 01 ff", invalid: "utf-8"},
	{message: "Request", name: "saga-image-bad-utf8", about: "a cid is a string", hex: "82 01 05 2a 03 12 01 ff", invalid: "utf-8"},
	{message: "Request", name: "saga-as-varint", about: "a known field of another wire type", hex: "80 01 01", invalid: "wire-type", ours: true},
	{message: "Request", name: "saga-step-as-bytes", about: "a known field of another wire type", hex: "82 01 03 12 01 31", invalid: "wire-type", ours: true},
	{message: "Request", name: "saga-image-as-varint", about: "a known field of another wire type", hex: "82 01 02 28 01", invalid: "wire-type", ours: true},
	{message: "Request", name: "saga-group", about: "groups are refused in a saga too", hex: "82 01 04 a3 06 a4 06", invalid: "group", ours: true},
	{message: "Configure", name: "truncated-upstream", about: "the embedded message is cut", hex: "1a 04 0a 01 61", invalid: "truncated"},
	{message: "BatchRequest", name: "bad-item", about: "one item spoils the batch", hex: "0a 03 12 01 61  0a 02 12 05", invalid: "truncated"},
	{message: "HTTPResponse", name: "unknown-failure", about: "a failure that nobody knows", hex: "28 09", invalid: "enum", ours: true},
	{message: "HTTPResponse", name: "header-bad-utf8", about: "a header is a string", hex: "12 03 12 01 ff", invalid: "utf-8"},
	{message: "Result", name: "unknown-status", about: "a status that nobody knows", hex: "08 0b", invalid: "enum", ours: true},
	{message: "Result", name: "bad-utf8-path", about: "paths are strings", hex: "08 01 2a 03 42 01 ff", invalid: "utf-8"},
	{message: "Result", name: "bad-utf8-meta", about: "map entries are strings", hex: "08 01 2a 05 62 03 0a 01 ff", invalid: "utf-8"},
	{message: "Result", name: "unknown-tri", about: "a tri that nobody knows", hex: "08 01 2a 02 28 03", invalid: "enum", ours: true},
	{message: "Result", name: "truncated-observation", about: "the observation is cut", hex: "08 01 2a 04 08 01", invalid: "truncated"},
	{message: "Manifest", name: "unknown-op", about: "an operation that nobody knows", hex: "1a 01 7f", invalid: "enum", ours: true},
	{message: "Manifest", name: "unknown-undoable", about: "an operation that nobody knows", hex: "5a 02 04 7f", invalid: "enum", ours: true},
	{message: "Manifest", name: "reserved-poll", about: "a number that was given up is an unknown field, of whatever wire type", hex: "0a 01 6d  72 02 c3 28"},
	{message: "PollRequest", name: "unknown-fields", about: "fields of the future are skipped", hex: "0a 01 77  12 01 31  a0 06 96 01"},
	{message: "PollRequest", name: "bad-utf8", about: "a cursor is a string", hex: "12 02 c3 28", invalid: "utf-8"},
	{message: "CompareRequest", name: "unknown-fields", about: "fields of the future, in what is embedded too", hex: "12 01 65  1a 05 10 07 a0 06 01  22 09 12 05 0a 01 61 40 01 20 02"},
	{message: "CompareRequest", name: "truncated-item", about: "an item is cut", hex: "22 04 12 02 0a 05", invalid: "truncated"},
	{message: "CompareRequest", name: "node-as-varint", about: "a known field of another wire type", hex: "18 01", invalid: "wire-type", ours: true},
	{message: "PollResult", name: "truncated-seen", about: "the observation is cut", hex: "0a 02 08 01  12 06 0a 01 61 12 05 08", invalid: "truncated"},
	{message: "PollResult", name: "bad-utf8-key", about: "a key is a string", hex: "0a 02 08 01  12 03 0a 01 ff", invalid: "utf-8"},
	{message: "PollResult", name: "unknown-status", about: "a status that nobody knows", hex: "0a 02 08 0b", invalid: "enum", ours: true},
	{message: "CompareResult", name: "bad-utf8-extra", about: "keys are strings", hex: "0a 02 08 01  22 01 ff", invalid: "utf-8"},
	{message: "CompareResult", name: "node-as-varint", about: "a known field of another wire type", hex: "0a 02 08 01  10 01", invalid: "wire-type", ours: true},
	{message: "BatchResult", name: "truncated", about: "an item is cut", hex: "0a 02 08", invalid: "truncated"},
	{message: "HTTPRequest", name: "bad-utf8", about: "the path is a string", hex: "1a 01 ff", invalid: "utf-8"},
	{message: "Sleep", name: "wire-type", about: "a known field of another wire type", hex: "0a 00", invalid: "wire-type", ours: true},
}
