//! What host and plugin say to each other: `sdk/abi/pawl/plugin/v1/plugin.proto`.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::saga::SagaRun;

wire_enum! {
    /// What a call is about. The numbers are those of the ABI.
    Op {
        /// Never sent.
        Unspecified = 0,
        /// Answered from the plugin's manifest.
        Describe = 1,
        /// The first call of every instance.
        Configure = 2,
        /// Look at the object and change nothing.
        Observe = 3,
        /// Make the object what the payload says.
        Apply = 4,
        /// Remove the object.
        Delete = 5,
        /// Apply several at once.
        ApplyBatch = 6,
        /// Tell what changed at the target.
        Poll = 7,
        /// Give up what a saga's run holds.
        Unlock = 8,
        /// Undo what a saga's step did.
        Restore = 9,
        /// Say where the target differs.
        Compare = 10,
    }
}

wire_enum! {
    /// How a call ended. All but the last three are the target's own word.
    Status {
        /// Never valid in an answer.
        Unspecified = 0,
        /// Done.
        Ok = 1,
        /// Of observe: no such object. Of delete: success.
        NotFound = 2,
        /// A create met an object.
        AlreadyExists = 3,
        /// A precondition (etag, version, uid) failed.
        Conflict = 4,
        /// The target refuses this content for good.
        Rejected = 5,
        /// The target holds something newer.
        Obsolete = 6,
        /// The target is deleting the object.
        InProgress = 7,
        /// The credentials were refused.
        Unauthorized = 8,
        /// The target answered that it can't now.
        Retry = 9,
        /// No answer.
        Unreachable = 10,
    }
}

wire_enum! {
    /// An answer that may be unknown.
    Tri {
        /// Not looked at, or it can't be told.
        Unknown = 0,
        /// It is so.
        Yes = 1,
        /// It is not.
        No = 2,
    }
}

impl From<bool> for Tri {
    fn from(known: bool) -> Tri {
        if known {
            Tri::Yes
        } else {
            Tri::No
        }
    }
}

wire_enum! {
    /// What the engine does about a target that somebody else changed. An
    /// adapter needs it only where the target wants to be told.
    ConflictPolicy {
        /// Never sent.
        Unspecified = 0,
        /// What is desired replaces it.
        SourceWins = 1,
        /// It stays.
        TargetWins = 2,
        /// It is told, and nothing else.
        ReportOnly = 3,
    }
}

wire_enum! {
    /// What an apply may do.
    Mode {
        /// Create or replace.
        Upsert = 0,
        /// Create; an object that exists is [`Status::AlreadyExists`].
        CreateOnly = 1,
    }
}

wire_enum! {
    /// Why a request got no answer.
    FailureKind {
        /// It got one.
        None = 0,
        /// The name lookup failed.
        Dns = 1,
        /// The connection failed.
        Connect = 2,
        /// The TLS handshake failed.
        Tls = 3,
        /// Time ran out.
        Timeout = 4,
        /// The host refuses: not granted, a bad path, a bad header.
        Denied = 5,
        /// The response is larger than the host allows.
        TooLarge = 6,
        /// The call is over.
        Cancelled = 7,
        /// Reset, truncated or malformed.
        Protocol = 8,
    }
}

message! {
    /// What a plugin may know of an upstream: no credential.
    pub UpstreamRef {
        /// To be named in a request.
        1 name: String,
        /// "http", "kubernetes" and so on.
        2 kind: String,
        /// Without user information and query.
        3 base_url: String,
    }
}

message! {
    /// What an instance is told before its first call.
    pub Config {
        /// The sink's name.
        1 sink: String,
        /// What stands under the sink's `config`, as a JSON object; `{}` where there is nothing.
        2 config: Vec<u8>,
        /// What was granted, in the order of the operator's config.
        3 upstreams: Vec<UpstreamRef>,
    }
}

message! {
    /// What the target last confirmed of a resource.
    pub Acked {
        /// Of the generation that was confirmed.
        1 generation: u64,
        /// SHA-256 of its payload, 32 bytes, or empty.
        2 content_hash: Vec<u8>,
        /// As in the [`Observation`] of that ack, and the next four.
        3 reference: String,
        /// See [`Observation::as_found`].
        4 as_found: String,
        /// See [`Observation::uid`].
        5 uid: String,
        /// See [`Observation::cursor`].
        6 cursor: String,
        /// What the adapter returned with that ack.
        7 adapter_state: Vec<u8>,
        /// Kept only while newer work waits and the policy is not source-wins.
        8, 9 payload: Option<Vec<u8>>,
    }
}

message! {
    /// Content that was sent and not answered: it may have landed.
    pub Attempt {
        /// SHA-256 of the payload, 32 bytes.
        1 content_hash: Vec<u8>,
        /// Where it was kept.
        2, 3 payload: Option<Vec<u8>>,
    }
}

message! {
    /// One call about one resource.
    pub Request {
        /// The sink's name.
        1 sink: String,
        /// Opaque text of at most 1,024 bytes, without control characters.
        2 key: String,
        /// Grows with every change of what is desired; not consecutive.
        3 generation: u64,
        /// What is desired; empty for the delete of a tombstone.
        4 payload: Vec<u8>,
        /// SHA-256 of the payload, 32 bytes.
        5 content_hash: Vec<u8>,
        /// The same over all retries of one generation.
        6 idempotency_key: String,
        /// What the target last confirmed; None: it never did.
        7 acked: Option<Acked>,
        /// What may have landed since.
        8 attempted: Vec<Attempt>,
        /// What the engine does about the changes of others.
        9 conflict_policy: ConflictPolicy,
        /// What an apply may do.
        10 mode: Mode,
        /// The operator asked to take over what conflicts.
        11 force: bool,
        /// Milliseconds that were left of the call's deadline when it started.
        12 timeout_ms: u32,
        /// Of a delete: delete the object of this uid only, else answer a
        /// conflict. It may be another one than that of `acked`. Empty: no precondition.
        15 uid: String,
        /// What the call knows of the saga that it belongs to; None: there is none.
        16 saga: Option<SagaRun>,
        /// Of the store that the resource is in: another one after it was restored.
        /// Generations compare within one epoch alone. Empty in a saga's call.
        17 epoch: String,
    }
}

message! {
    /// What a call saw of the target's object.
    pub Observation {
        /// Whether there is one.
        1 exists: bool,
        /// How the target names it.
        2 reference: String,
        /// Id of its content there: an ETag, a version.
        3 cid: String,
        /// Hash of what the adapter owns there, in its own terms.
        4 as_found: String,
        /// Whether it equals the payload, at every field that is owned now or was at the last ack.
        5 match_desired: Tri,
        /// Whether it equals what was last acked.
        6 match_acked: Tri,
        /// Whether it equals one of `Request::attempted`.
        7 match_attempted: Tri,
        /// Paths that differ from what is desired; never values.
        8 differing: Vec<String>,
        /// The object in the form of a payload, where [`Manifest::reports_content`] is
        /// set; of a saga's call without [`SagaRun::before`], the content of that image.
        9, 10 content: Option<Vec<u8>>,
        /// When the target changed it, in milliseconds since 1970; 0: not known.
        11 at_unix_ms: i64,
        /// What else is worth showing.
        12 meta: BTreeMap<String, String>,
        /// Kept with the ack: how far the target's changes were known when this was seen.
        13 cursor: String,
        /// The object's own id, a new one after delete and create.
        14 uid: String,
        /// The object's identity: two resources with the same one contend.
        15 object: String,
        /// Kept with the ack and given back in [`Request::acked`]; at most [`MAX_ADAPTER_STATE_BYTES`].
        16 adapter_state: Vec<u8>,
        /// Whether it bears our mark; of a saga's call, that of this run and step.
        17 ours: Tri,
    }
}

/// Bounds [`Observation::adapter_state`].
pub const MAX_ADAPTER_STATE_BYTES: usize = 65_536;

message! {
    /// The answer to one call.
    pub(crate) Answer {
        1 status: Status,
        2 message: String,
        3 retry_after_ms: u32,
        4 retry_after_target: bool,
        5 observation: Option<Observation>,
        6 target: String,
    }
}

message! {
    pub(crate) BatchRequest {
        1 items: Vec<Request>,
    }
}

message! {
    pub(crate) BatchAnswer {
        1 items: Vec<Answer>,
        2 whole: Option<Answer>,
    }
}

message! {
    /// What a plugin says of itself. Its flags are promises.
    pub Manifest {
        /// The plugin's name.
        1 name: String,
        /// The plugin's version.
        2 version: String,
        /// What the adapter can do. Defaults to what was registered with [`Plugin`](crate::Plugin).
        3 ops: Vec<Op>,
        /// JSON Schema of the sink's config.
        4 config_schema: String,
        /// JSON Schema of payloads; empty: opaque bytes.
        5 payload_schema: String,
        /// An apply that succeeds proves that the target persisted it.
        6 apply_confirms: bool,
        /// The same apply twice is harmless.
        7 apply_idempotent: bool,
        /// Finds its object by key and never creates a second one. The host refuses plugins that don't.
        8 finds_by_key: bool,
        /// Observations carry the object's uid.
        9 reports_uid: bool,
        /// `as_found` of an object that equals a payload is that payload's SHA-256 in lower-case hexadecimal.
        10 as_found_comparable: bool,
        /// Which of apply and delete restore undoes, in a saga.
        11 undoable: Vec<Op>,
        /// Takes a saga's locks with its write, and gives them up by unlock; needs `mark`.
        12 lock: bool,
        /// Marks what a saga writes, and observe tells by `ours` whether that landed.
        13 mark: bool,
        /// Requests of one batch; 0 or 1: there are none.
        15 batch_max: u32,
        /// Which keys must not share a batch: "" (all may) or "key-prefix".
        16 overlap: String,
        /// Kinds of upstreams that the adapter talks to.
        17 upstream_kinds: Vec<String>,
        /// What observe and poll see of an object that exists has its content, in the
        /// form of a payload. Poll needs it.
        18 reports_content: bool,
    }
}

message! {
    /// One header or trailer line.
    pub Header {
        /// Its name, in whatever case.
        1 name: String,
        /// Its value.
        2 value: String,
    }
}

message! {
    /// A request that the host sends.
    pub HttpRequest {
        /// Name of a granted upstream.
        1 upstream: String,
        /// Its method.
        2 method: String,
        /// Path and query, from "/" on; appended to the upstream's base URL.
        3 path: String,
        /// Its headers; the host adds credentials, and refuses some.
        4 headers: Vec<Header>,
        /// Its body, where it has one.
        5, 6 body: Option<Vec<u8>>,
        /// In milliseconds. 0: what is left of the call.
        7 timeout_ms: u32,
    }
}

impl HttpRequest {
    /// A request without headers and body. Escape what comes from a resource:
    /// see [`escape_path`](crate::escape_path).
    pub fn new(method: &str, upstream: &str, path: impl Into<String>) -> HttpRequest {
        HttpRequest { upstream: upstream.to_owned(), method: method.to_owned(), path: path.into(), ..HttpRequest::default() }
    }

    /// Adds a header.
    pub fn header(mut self, name: &str, value: impl Into<String>) -> HttpRequest {
        self.headers.push(Header { name: name.to_owned(), value: value.into() });
        self
    }

    /// Sets the body.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> HttpRequest {
        self.body = Some(body.into());
        self
    }

    /// Bounds the request; the call's own deadline does in any case.
    pub fn timeout(mut self, timeout: Duration) -> HttpRequest {
        self.timeout_ms = millis(timeout);
        self
    }
}

message! {
    pub(crate) Sleep {
        1 ms: u32,
    }
}

message! {
    pub(crate) HttpAnswer {
        1 status: u32,
        2 headers: Vec<Header>,
        3 body: Vec<u8>,
        4 trailers: Vec<Header>,
        5 failure: FailureKind,
        6 failure_message: String,
        7 maybe_sent: bool,
    }
}

/// Whole milliseconds, rounded up; what does not fit becomes the largest.
pub(crate) fn millis(d: Duration) -> u32 {
    let up = d.as_nanos().saturating_add(999_999) / 1_000_000;
    u32::try_from(up).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_are_rounded_up_and_bounded() {
        for (d, want) in [
            (Duration::ZERO, 0),
            (Duration::from_nanos(1), 1),
            (Duration::from_millis(5), 5),
            (Duration::from_micros(5_001), 6),
            (Duration::MAX, u32::MAX),
        ] {
            assert_eq!(millis(d), want, "{:?}", d);
        }
    }
}
