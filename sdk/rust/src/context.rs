//! What an adapter can ask of the host.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{self, Poll};
use std::time::Duration;

use crate::error::Failure;
use crate::http::HttpResponse;
use crate::instance::{Instance, ENDED, TOO_MANY};
use crate::message::{millis, FailureKind, HttpAnswer, HttpRequest, Sleep};
use crate::wire::Message;

pub(crate) const HTTP: u32 = 1;
pub(crate) const SLEEP: u32 = 2;

/// One call, as its adapter sees it: the way to the host.
///
/// A call that waits in `http` or `sleep` is parked: it costs its memory only,
/// and the instance serves others meanwhile. When the host gives a call up its
/// future is dropped where it waits, so nothing after that `.await` runs; what
/// must be undone then belongs into a `Drop`.
#[derive(Clone)]
pub struct Context {
    instance: Rc<Instance>,
    call: i64,
}

/// Severity of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// For whoever writes the plugin.
    Debug = 0,
    /// Worth knowing.
    Info = 1,
    /// Somebody should look at it.
    Warn = 2,
    /// Something is broken.
    Error = 3,
}

impl Context {
    pub(crate) fn new(instance: Rc<Instance>, call: i64) -> Context {
        Context { instance, call }
    }

    /// Sends a request to a granted upstream, once the future is polled, and
    /// parks the call until the whole answer is there. A status of 400 or 500 is
    /// an answer; a [`Failure`] says that there was none.
    ///
    /// Several can be under way at once: see [`join_all`](crate::join_all).
    /// Dropping the future ends the request, which may have reached the target.
    pub fn http(&self, request: HttpRequest) -> impl Future<Output = Result<HttpResponse, Failure>> {
        let io = self.io(HTTP, request.encode());
        let upstream = request.upstream;
        async move { answer(io.await, &upstream) }
    }

    /// Parks the call for that long.
    pub fn sleep(&self, d: Duration) -> impl Future<Output = Result<(), Failure>> {
        let io = self.io(SLEEP, Sleep { ms: millis(d) }.encode());
        async move { io.await.map(drop).map_err(|code| refusal(code, "")) }
    }

    /// [`http`](Context::http) without parking: the whole instance waits. The
    /// host then gives every call an instance of its own, up to a limit, so
    /// prefer `http` where thousands of calls are under way.
    pub fn http_blocking(&self, request: &HttpRequest) -> Result<HttpResponse, Failure> {
        answer(self.io_blocking(HTTP, &request.encode()), &request.upstream)
    }

    /// [`sleep`](Context::sleep) without parking; see [`http_blocking`](Context::http_blocking).
    pub fn sleep_blocking(&self, d: Duration) -> Result<(), Failure> {
        self.io_blocking(SLEEP, &Sleep { ms: millis(d) }.encode()).map(drop).map_err(|code| refusal(code, ""))
    }

    /// Hands a line to the host's log, which adds sink, key and plugin and
    /// limits the rate. Never log values of the payload.
    pub fn log(&self, level: Level, line: &str) {
        self.instance.host.log(self.call, level as u32, line);
    }

    fn io(&self, kind: u32, message: Vec<u8>) -> Io {
        Io { cx: self.clone(), kind, state: State::Fresh(message) }
    }

    fn io_blocking(&self, kind: u32, message: &[u8]) -> Result<Vec<u8>, i64> {
        match self.instance.host.io_call(self.call, kind, message) {
            code if code < 0 => Err(code.into()),
            _ => Ok(self.instance.host.input()),
        }
    }
}

/// One host I/O: its output is the response, or the code of a refusal.
struct Io {
    cx: Context,
    kind: u32,
    state: State,
}

enum State {
    Fresh(Vec<u8>), // its message
    Waiting(i64),   // its id
    Done,
}

impl Future for Io {
    type Output = Result<Vec<u8>, i64>;

    fn poll(mut self: Pin<&mut Self>, t: &mut task::Context<'_>) -> Poll<Self::Output> {
        let instance = &self.cx.instance;
        let output = match &self.state {
            State::Fresh(message) => match instance.io_start(self.cx.call, self.kind, message, t.waker()) {
                Ok(Some(io)) => {
                    self.state = State::Waiting(io); // the message is the host's now
                    return Poll::Pending;
                }
                Ok(None) => return Poll::Pending,
                Err(code) => Err(code),
            },
            State::Waiting(io) => match instance.io_poll(*io, t.waker()) {
                Some(response) => Ok(response),
                None => return Poll::Pending,
            },
            State::Done => panic!("a future was polled after its end"),
        };
        self.state = State::Done;
        Poll::Ready(output)
    }
}

impl Drop for Io {
    fn drop(&mut self) {
        if let State::Waiting(io) = self.state {
            self.cx.instance.io_drop(io);
        }
    }
}

fn answer(response: Result<Vec<u8>, i64>, upstream: &str) -> Result<HttpResponse, Failure> {
    let bytes = response.map_err(|code| refusal(code, upstream))?;
    match HttpAnswer::decode(&bytes) {
        Ok(answer) => answer.split(upstream),
        Err(e) => Err(Failure {
            kind: FailureKind::Protocol,
            upstream: upstream.to_owned(),
            message: format!("the plugin can't decode the host's answer: {}", e),
            maybe_sent: true,
        }),
    }
}

/// What a negative code of the host means.
fn refusal(code: i64, upstream: &str) -> Failure {
    let (kind, message) = match code {
        ENDED => (FailureKind::Cancelled, "the call has ended"),
        TOO_MANY => (FailureKind::Cancelled, "too many requests are under way"), // of the blocking form
        -3 => (FailureKind::Denied, "the request is larger than the host allows"),
        _ => (FailureKind::Denied, "the host refused the request"),
    };
    Failure { kind, upstream: upstream.to_owned(), message: message.to_owned(), maybe_sent: false }
}
