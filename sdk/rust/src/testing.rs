//! Runs a plugin without a host, so that adapters are tested as any Rust code:
//! requests go to closures, sleeps take no time. Messages are encoded and
//! decoded, and calls are run, as in the real thing.
//!
//! ```
//! # use std::rc::Rc;
//! # use pawl::*;
//! # struct Things;
//! # impl Things {
//! #     async fn configure(_: Context, _: Config) -> Result<Configured<Things>> { Ok(Configured::new(Things)) }
//! #     async fn apply(self: Rc<Self>, cx: Context, r: Request) -> Result<Observation> {
//! #         cx.http(HttpRequest::new("PUT", "target", "/").body(r.payload)).await?.success()?;
//! #         Ok(Observation::default())
//! #     }
//! # }
//! # fn plugin() -> Plugin<Things> { Plugin::new(Manifest::default(), Things::configure).apply(Things::apply) }
//! use pawl::testing::{request, Sink};
//!
//! let sink = Sink::open(plugin(), "{}", |r| {
//!     assert_eq!(r.method, "PUT");
//!     Ok(pawl::HttpResponse::new(204))
//! });
//! let got = sink.apply(&request("a", "{}"));
//! assert_eq!(got.status, pawl::Status::Ok, "{}", got.message);
//! ```

#![allow(clippy::result_large_err)] // an outcome is no error that is passed on and on

use std::cell::{Cell, RefCell};
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use crate::context::{HTTP, SLEEP};
use crate::error::Failure;
use crate::http::HttpResponse;
use crate::instance::{Host, Instance, Want, ENDED, TOO_MANY};
use crate::message::{
    Acked, Answer, BatchAnswer, BatchRequest, Config, FailureKind, HttpAnswer, HttpRequest, Manifest, Observation, Op, Request,
    Sleep, Status, UpstreamRef,
};
use crate::plugin::Plugin;
use crate::saga::Image;
use crate::sha256::sha256;
use crate::whole::{Changes, CompareAnswer, Comparison, Difference, PollAnswer, PollRequest};
use crate::wire::Message;

/// Name of the upstream that a [`Sink`] grants.
pub const UPSTREAM: &str = "target";

/// I/Os that one call may have under way, as the real host's default.
const CALL_IOS: usize = 16;

/// A request of that key and payload, as the engine would send it for a new resource.
pub fn request(key: &str, payload: impl Into<Vec<u8>>) -> Request {
    let payload = payload.into();
    Request {
        sink: "test".to_owned(),
        key: key.to_owned(),
        generation: 1,
        content_hash: sha256(&payload).to_vec(),
        payload,
        idempotency_key: format!("test-1-{}", key),
        conflict_policy: crate::ConflictPolicy::SourceWins,
        timeout_ms: 30_000,
        ..Request::default()
    }
}

/// How a call ended, as the engine sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The status; `Ok` where the adapter returned that.
    pub status: Status,
    /// The error's message.
    pub message: String,
    /// What the target asked to wait; zero: nothing.
    pub retry_after: Duration,
    /// That holds for the whole target.
    pub whole_target: bool,
    /// What the adapter saw; the default where it said nothing.
    pub observation: Observation,
}

impl Outcome {
    fn of(a: Answer) -> Outcome {
        Outcome {
            status: a.status,
            message: a.message,
            retry_after: Duration::from_millis(a.retry_after_ms.into()),
            whole_target: a.retry_after_target,
            observation: a.observation.unwrap_or_default(),
        }
    }

    /// What the engine gives to the later calls of a saga's step as `before`,
    /// after this outcome of an observe without one.
    pub fn image(&self) -> Image {
        let o = self.observation.clone();
        Image { exists: o.exists, cid: o.cid, uid: o.uid, content: o.content.unwrap_or_default() }
    }

    /// What the engine gives to later calls as `acked`, after this outcome of `r`.
    pub fn acked(&self, r: &Request) -> Acked {
        let o = self.observation.clone();
        Acked {
            generation: r.generation,
            content_hash: r.content_hash.clone(),
            reference: o.reference,
            as_found: o.as_found,
            uid: o.uid,
            cursor: o.cursor,
            adapter_state: o.adapter_state,
            payload: None,
        }
    }
}

/// How a call about the whole target ended, where that is no success.
fn succeeded(result: Option<Answer>) -> Result<(), Outcome> {
    match result.unwrap_or_default() {
        a if a.status == Status::Ok => Ok(()),
        a => Err(Outcome::of(a)),
    }
}

/// A configured plugin. Its one upstream is called [`UPSTREAM`].
pub struct Sink {
    /// The identity of the target, as configure gave it.
    pub target: String,
    instance: Rc<Instance>,
    host: Rc<FakeHost>,
    calls: Cell<i64>,
}

impl Sink {
    /// Configures the plugin; `answer` is the target. Panics where configure refuses.
    pub fn open<A: 'static>(
        plugin: Plugin<A>,
        config: &str,
        answer: impl FnMut(&HttpRequest) -> Result<HttpResponse, Failure> + 'static,
    ) -> Sink {
        match Sink::try_open(plugin, config, answer) {
            Ok(sink) => sink,
            Err(refused) => panic!("configure: {:?}: {}", refused.status, refused.message),
        }
    }

    /// Configures the plugin, or returns why it refuses.
    pub fn try_open<A: 'static>(
        plugin: Plugin<A>,
        config: &str,
        answer: impl FnMut(&HttpRequest) -> Result<HttpResponse, Failure> + 'static,
    ) -> Result<Sink, Outcome> {
        let host = Rc::new(FakeHost::new(answer));
        let instance = Instance::new(host.clone(), Box::new(plugin));
        let mut sink = Sink { target: String::new(), instance, host, calls: Cell::new(0) };
        let upstream = UpstreamRef { name: UPSTREAM.to_owned(), kind: "http".to_owned(), base_url: "http://target.test".to_owned() };
        let input = Config { sink: "test".to_owned(), config: config.as_bytes().to_vec(), upstreams: vec![upstream] };
        let configured: Answer = sink.call(Op::Configure, &input);
        if configured.status != Status::Ok {
            return Err(Outcome::of(configured));
        }
        sink.target = configured.target;
        Ok(sink)
    }

    /// The plugin's manifest.
    pub fn manifest(&self) -> Manifest {
        self.call(Op::Describe, &Sleep::default()) // of no bytes
    }

    /// Runs observe.
    pub fn observe(&self, r: &Request) -> Outcome {
        Outcome::of(self.call(Op::Observe, r))
    }

    /// Runs apply.
    pub fn apply(&self, r: &Request) -> Outcome {
        Outcome::of(self.call(Op::Apply, r))
    }

    /// Runs delete.
    pub fn delete(&self, r: &Request) -> Outcome {
        Outcome::of(self.call(Op::Delete, r))
    }

    /// Runs restore, of a request whose saga has an image.
    pub fn restore(&self, r: &Request) -> Outcome {
        Outcome::of(self.call(Op::Restore, r))
    }

    /// Runs unlock, of a request with a saga.
    pub fn unlock(&self, r: &Request) -> Outcome {
        Outcome::of(self.call(Op::Unlock, r))
    }

    /// Runs apply of a batch; the error is the answer for the batch as a whole.
    pub fn apply_batch(&self, rs: &[Request]) -> Result<Vec<Outcome>, Outcome> {
        let answer: BatchAnswer = self.call(Op::ApplyBatch, &BatchRequest { items: rs.to_vec() });
        match answer.whole {
            Some(whole) => Err(Outcome::of(whole)),
            None => Ok(answer.items.into_iter().map(Outcome::of).collect()),
        }
    }

    /// Runs poll; the error is how it failed.
    pub fn poll(&self, cursor: &str) -> Result<Changes, Outcome> {
        let input = PollRequest { cursor: cursor.to_owned(), ..PollRequest::default() };
        let answer: PollAnswer = self.call(Op::Poll, &input);
        succeeded(answer.result)?;
        Ok(Changes { seen: answer.seen, cursor: answer.cursor, more: answer.more, reset: answer.reset })
    }

    /// Runs compare; the error is how it failed.
    pub fn compare(&self, c: &Comparison) -> Result<Difference, Outcome> {
        let answer: CompareAnswer = self.call(Op::Compare, c);
        succeeded(answer.result)?;
        Ok(Difference { nodes: answer.nodes, items: answer.items, extra: answer.extra })
    }

    /// The requests that the target got so far.
    pub fn sent(&self) -> Vec<HttpRequest> {
        self.host.sent.borrow().clone()
    }

    /// The lines that were logged so far.
    pub fn logged(&self) -> Vec<String> {
        self.host.logged.borrow().clone()
    }

    /// How long the calls have slept so far.
    pub fn slept(&self) -> Duration {
        self.host.slept.get()
    }

    fn call<M: Message>(&self, op: Op, input: &impl Message) -> M {
        let id = self.calls.get() + 1;
        self.calls.set(id);
        *self.host.input.borrow_mut() = input.encode();
        let mut want = self.instance.start(op as u32, id);
        loop {
            if let Some((_, answer)) = self.host.results.borrow_mut().pop() {
                return M::decode(&answer).unwrap_or_else(|e| panic!("the SDK's answer: {}", e));
            }
            let done = self.host.done.borrow_mut().pop_front();
            want = match done {
                Some(ended) => {
                    *self.host.input.borrow_mut() = ended.response;
                    self.instance.resume(ended.io)
                }
                None if want == Want::Poll => self.instance.poll(),
                None => panic!("the call waits for something that is neither a request nor a sleep, and that nothing wakes"),
            };
        }
    }
}

type Target = dyn FnMut(&HttpRequest) -> Result<HttpResponse, Failure>;

/// An I/O whose response the instance has not got yet.
pub(crate) struct Ended {
    pub(crate) io: i64,
    call: i64,
    pub(crate) response: Vec<u8>,
}

/// A host that answers every I/O at once; the answers wait in `done`.
pub(crate) struct FakeHost {
    target: RefCell<Box<Target>>,
    pub(crate) input: RefCell<Vec<u8>>,
    pub(crate) results: RefCell<Vec<(i64, Vec<u8>)>>,
    pub(crate) done: RefCell<VecDeque<Ended>>,
    pub(crate) cancelled: RefCell<Vec<i64>>,
    ended: RefCell<BTreeSet<i64>>,
    sent: RefCell<Vec<HttpRequest>>,
    logged: RefCell<Vec<String>>,
    slept: Cell<Duration>,
    ios: Cell<i64>,
    pub(crate) sink_ios: Cell<usize>, // that all calls may have under way
}

impl FakeHost {
    pub(crate) fn new(target: impl FnMut(&HttpRequest) -> Result<HttpResponse, Failure> + 'static) -> FakeHost {
        FakeHost {
            target: RefCell::new(Box::new(target)),
            input: RefCell::default(),
            results: RefCell::default(),
            done: RefCell::default(),
            cancelled: RefCell::default(),
            ended: RefCell::default(),
            sent: RefCell::default(),
            logged: RefCell::default(),
            slept: Cell::default(),
            ios: Cell::default(),
            sink_ios: Cell::new(usize::MAX),
        }
    }

    fn exchange(&self, kind: u32, message: &[u8]) -> Vec<u8> {
        match kind {
            SLEEP => {
                let sleep = Sleep::decode(message).expect("the SDK encodes it");
                self.slept.set(self.slept.get() + Duration::from_millis(sleep.ms.into()));
                Vec::new()
            }
            HTTP => {
                let request = HttpRequest::decode(message).expect("the SDK encodes it");
                self.respond(&request).encode()
            }
            _ => unreachable!("the SDK knows two kinds"),
        }
    }

    fn respond(&self, request: &HttpRequest) -> HttpAnswer {
        let answered = if request.upstream != UPSTREAM {
            Err(denied("this upstream is not granted to the sink"))
        } else if !request.path.starts_with('/') {
            Err(denied("the path does not start with a slash"))
        } else {
            self.sent.borrow_mut().push(request.clone());
            (self.target.borrow_mut())(request)
        };
        match answered {
            Ok(r) => HttpAnswer { status: r.status, headers: r.headers, body: r.body, trailers: r.trailers, ..HttpAnswer::default() },
            Err(f) => HttpAnswer { failure: f.kind, failure_message: f.message, maybe_sent: f.maybe_sent, ..HttpAnswer::default() },
        }
    }
}

fn denied(message: &str) -> Failure {
    Failure { kind: FailureKind::Denied, upstream: String::new(), message: message.to_owned(), maybe_sent: false }
}

impl Host for FakeHost {
    fn input(&self) -> Vec<u8> {
        self.input.borrow().clone()
    }

    fn result(&self, call: i64, message: &[u8]) {
        self.ended.borrow_mut().insert(call);
        self.results.borrow_mut().push((call, message.to_vec()));
    }

    fn io_start(&self, call: i64, kind: u32, message: &[u8]) -> i64 {
        if self.ended.borrow().contains(&call) {
            return ENDED;
        }
        let of_call = self.done.borrow().iter().filter(|ended| ended.call == call).count();
        if of_call >= CALL_IOS || self.done.borrow().len() >= self.sink_ios.get() {
            return TOO_MANY;
        }
        let io = self.ios.get() + 1;
        self.ios.set(io);
        let response = self.exchange(kind, message);
        self.done.borrow_mut().push_back(Ended { io, call, response });
        io
    }

    fn io_cancel(&self, io: i64) {
        self.done.borrow_mut().retain(|ended| ended.io != io);
        self.cancelled.borrow_mut().push(io);
    }

    fn io_call(&self, _: i64, kind: u32, message: &[u8]) -> i32 {
        *self.input.borrow_mut() = self.exchange(kind, message);
        self.input.borrow().len() as i32
    }

    fn log(&self, _: i64, _: u32, line: &str) {
        self.logged.borrow_mut().push(line.to_owned());
    }
}
