//! An adapter's functions, put together to what the host calls.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use crate::context::Context;
use crate::error::Error;
use crate::instance::{Serve, Task};
use crate::json;
use crate::message::{
    millis, Answer, BatchAnswer, BatchRequest, Config, Manifest, Observation, Op, Request, Status, UpstreamRef,
    MAX_ADAPTER_STATE_BYTES,
};
use crate::saga;
use crate::whole::{self, Changes, CompareAnswer, Comparison, Difference, PollAnswer, PollRequest};
use crate::wire::{Enum, Malformed, Message};
use crate::Result;

type Boxed<T> = Pin<Box<dyn Future<Output = T>>>;
type Configure<A> = Box<dyn Fn(Context, Config) -> Boxed<Result<Configured<A>>>>;
type Single<A> = Box<dyn Fn(Rc<A>, Context, Request) -> Boxed<Result<Observation>>>;
type Poll<A> = Box<dyn Fn(Rc<A>, Context, String) -> Boxed<Result<Changes>>>;
type Compare<A> = Box<dyn Fn(Rc<A>, Context, Comparison) -> Boxed<Result<Difference>>>;
type Batch<A> = Box<dyn Fn(Rc<A>, Context, Vec<Request>) -> Boxed<Result<Vec<Result<Observation>>>>>;

/// A manifest and the async functions that keep its promises. `A` is the
/// adapter: whatever `configure` makes of the sink's config. What is not
/// registered is left out of the manifest's ops.
pub struct Plugin<A> {
    manifest: Manifest,
    configure: Configure<A>,
    single: BTreeMap<u64, Single<A>>, // by op
    batch: Option<Batch<A>>,
    poll: Option<Poll<A>>,
    compare: Option<Compare<A>>,
    adapter: Rc<RefCell<Option<Rc<A>>>>,
}

/// What comes of configuring.
pub struct Configured<A> {
    adapter: A,
    target: String,
    manifest: Option<Manifest>,
}

impl<A> Configured<A> {
    /// The adapter for this sink.
    pub fn new(adapter: A) -> Configured<A> {
        Configured { adapter, target: String::new(), manifest: None }
    }

    /// Sets the identity of what the sink talks to; when it changes, acks of the
    /// old target count no more. Defaults to the base URLs of the granted upstreams.
    pub fn target(mut self, target: impl Into<String>) -> Configured<A> {
        self.target = target.into();
        self
    }

    /// Replaces the plugin's flags and ops for this sink.
    pub fn manifest(mut self, manifest: Manifest) -> Configured<A> {
        self.manifest = Some(manifest);
        self
    }
}

impl<A: 'static> Plugin<A> {
    /// A plugin that can't do anything yet. `configure` runs once per instance,
    /// before all else; its error refuses the sink, so say which key of the
    /// config is wrong and what would be right.
    pub fn new<F, R>(manifest: Manifest, configure: F) -> Plugin<A>
    where
        F: Fn(Context, Config) -> R + 'static,
        R: Future<Output = Result<Configured<A>>> + 'static,
    {
        Plugin {
            manifest,
            configure: Box::new(move |cx, config| Box::pin(configure(cx, config))),
            single: BTreeMap::new(),
            batch: None,
            poll: None,
            compare: None,
            adapter: Rc::default(),
        }
    }

    /// Looks at the target's object and changes nothing. One that does not exist
    /// is an observation with `exists` false, or [`Error::not_found`].
    pub fn observe<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Request) -> R + 'static,
        R: Future<Output = Result<Observation>> + 'static,
    {
        self.single.insert(Op::Observe.number(), Box::new(move |a, cx, r| Box::pin(f(a, cx, r))));
        self
    }

    /// Makes the target's object what the payload says. It finds the object by
    /// the request's key: twice is as good as once. The observation says what is
    /// known of the object now; it may be the default.
    pub fn apply<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Request) -> R + 'static,
        R: Future<Output = Result<Observation>> + 'static,
    {
        self.single.insert(Op::Apply.number(), Box::new(move |a, cx, r| Box::pin(f(a, cx, r))));
        self
    }

    /// Removes the object. That it is not there is success, or [`Error::not_found`].
    pub fn delete<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Request) -> R + 'static,
        R: Future<Output = Result<()>> + 'static,
    {
        self.single.insert(Op::Delete.number(), sees_nothing(f));
        self
    }

    /// Makes the object what the image in the request's saga says, if what the
    /// step wrote still stands: the payload, empty for a deletion. `Ok`: it is as
    /// before, also where it was already. [`Error::conflict`]: somebody changed it
    /// since, and it was left as it is. Where nothing was there before, only an
    /// object that bears the mark is removed, by its identity. Which operations it
    /// undoes stands in [`Manifest::undoable`].
    pub fn restore<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Request) -> R + 'static,
        R: Future<Output = Result<Observation>> + 'static,
    {
        self.single.insert(Op::Restore.number(), Box::new(move |a, cx, r| Box::pin(f(a, cx, r))));
        self
    }

    /// Gives up whatever the run of the request's saga holds at the target, locks
    /// and marks, and leaves objects as they are. `Ok`: there is none of it. It is
    /// needed where [`Manifest::lock`] is set.
    pub fn unlock<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Request) -> R + 'static,
        R: Future<Output = Result<()>> + 'static,
    {
        self.single.insert(Op::Unlock.number(), sees_nothing(f));
        self
    }

    /// Applies up to `max` requests in one go. It answers with one result per
    /// request, in order, or with an error for the batch as a whole, which the
    /// engine then tries in halves.
    pub fn apply_batch<F, R>(mut self, max: u32, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Vec<Request>) -> R + 'static,
        R: Future<Output = Result<Vec<Result<Observation>>>> + 'static,
    {
        self.manifest.batch_max = max;
        self.batch = Some(Box::new(move |a, cx, rs| Box::pin(f(a, cx, rs))));
        self
    }

    /// Tells what changed at the target after a cursor, which is what an earlier poll
    /// answered; "" is the beginning, where everything counts as changed. It changes
    /// nothing, and leaves nothing out: what changes while it runs comes with the next
    /// one. It needs [`Manifest::reports_content`].
    pub fn poll<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, String) -> R + 'static,
        R: Future<Output = Result<Changes>> + 'static,
    {
        self.poll = Some(Box::new(move |a, cx, cursor| Box::pin(f(a, cx, cursor))));
        self
    }

    /// Says where the target differs from what is asked.
    pub fn compare<F, R>(mut self, f: F) -> Plugin<A>
    where
        F: Fn(Rc<A>, Context, Comparison) -> R + 'static,
        R: Future<Output = Result<Difference>> + 'static,
    {
        self.compare = Some(Box::new(move |a, cx, c| Box::pin(f(a, cx, c))));
        self
    }

    /// The manifest as the host sees it.
    pub fn manifest(&self) -> Manifest {
        self.with_ops(self.manifest.clone())
    }

    fn with_ops(&self, mut m: Manifest) -> Manifest {
        if m.ops.is_empty() {
            m.ops = self.single.keys().filter_map(|&op| Op::from_number(op)).collect();
            if self.batch.is_some() && m.batch_max > 1 {
                m.ops.push(Op::ApplyBatch);
            }
            m.ops.extend(self.poll.as_ref().map(|_| Op::Poll));
            m.ops.extend(self.compare.as_ref().map(|_| Op::Compare));
        }
        m
    }

    fn serve_configure(&self, cx: Context, input: &[u8]) -> Task {
        let config = match Config::decode(input) {
            Ok(config) => config,
            Err(e) => return answered(failed(malformed(e)).encode()),
        };
        let granted = target_of(&config.upstreams);
        let adapter = self.adapter.clone();
        let registered = self.manifest();
        let configured = (self.configure)(cx, config);
        Box::pin(async move {
            let done = match configured.await {
                Ok(done) => done,
                Err(e) => return failed(e).encode(),
            };
            *adapter.borrow_mut() = Some(Rc::new(done.adapter));
            let mut answer = Answer { status: Status::Ok, target: done.target, ..Answer::default() };
            if answer.target.is_empty() {
                answer.target = granted;
            }
            if let Some(mut m) = done.manifest {
                if m.ops.is_empty() {
                    m.ops = registered.ops;
                }
                answer.observation = Some(Observation { content: Some(m.encode()), ..Observation::default() });
            }
            answer.encode()
        })
    }

    fn serve_single(&self, cx: Context, op: u64, input: &[u8]) -> Result<Task> {
        let (adapter, f) = self.ready(self.single.get(&op), op)?;
        let request = Request::decode(input).map_err(malformed)?;
        saga::check(op, &request)?;
        let keeps_image = matches!(&request.saga, Some(run) if run.before.is_none());
        let observed = f(adapter, cx, request);
        Ok(Box::pin(async move {
            let observed = observed.await;
            finish(op, if keeps_image { observed.and_then(saga::bounded) } else { observed }).encode()
        }))
    }

    fn serve_batch(&self, cx: Context, op: u64, input: &[u8]) -> Result<Task> {
        let (adapter, f) = self.ready(self.batch.as_ref(), op)?;
        let requests = BatchRequest::decode(input).map_err(malformed)?.items;
        let asked = requests.len();
        let applied = f(adapter, cx, requests);
        Ok(Box::pin(async move {
            match applied.await {
                Ok(items) if items.len() == asked => {
                    let items = items.into_iter().map(|item| finish(Op::Apply.number(), item)).collect();
                    BatchAnswer { items, whole: None }.encode()
                }
                Ok(items) => batch_failed(Error::retry(format!("the adapter answered {} items to a batch of {}", items.len(), asked))),
                Err(e) => batch_failed(e),
            }
        }))
    }

    fn serve_poll(&self, cx: Context, op: u64, input: &[u8]) -> Result<Task> {
        let (adapter, f) = self.ready(self.poll.as_ref(), op)?;
        let told = f(adapter, cx, PollRequest::decode(input).map_err(malformed)?.cursor);
        Ok(Box::pin(async move {
            match told.await.and_then(whole::bounded) {
                Ok(changes) => PollAnswer::of(done(), changes).encode(),
                Err(e) => poll_failed(e),
            }
        }))
    }

    fn serve_compare(&self, cx: Context, op: u64, input: &[u8]) -> Result<Task> {
        let (adapter, f) = self.ready(self.compare.as_ref(), op)?;
        let found = f(adapter, cx, Comparison::decode(input).map_err(malformed)?);
        Ok(Box::pin(async move {
            match found.await {
                Ok(difference) => CompareAnswer::of(done(), difference).encode(),
                Err(e) => compare_failed(e),
            }
        }))
    }

    /// The adapter and what is registered for op.
    fn ready<'a, F>(&self, registered: Option<&'a F>, op: u64) -> Result<(Rc<A>, &'a F)> {
        let f = registered.ok_or_else(|| Error::rejected(format!("the plugin does not implement op {}", op)))?;
        let adapter = self.adapter.borrow().clone().ok_or_else(|| Error::rejected("the plugin was not configured"))?;
        Ok((adapter, f))
    }
}

impl<A: 'static> Serve for Plugin<A> {
    fn serve(&self, cx: Context, op: u32, input: &[u8]) -> Task {
        let number = op.into();
        match Op::from_number(number) {
            Some(Op::Describe) => answered(self.manifest().encode()),
            Some(Op::Configure) => self.serve_configure(cx, input),
            Some(Op::ApplyBatch) => self.serve_batch(cx, number, input).unwrap_or_else(|e| answered(batch_failed(e))),
            Some(Op::Poll) => self.serve_poll(cx, number, input).unwrap_or_else(|e| answered(poll_failed(e))),
            Some(Op::Compare) => self.serve_compare(cx, number, input).unwrap_or_else(|e| answered(compare_failed(e))),
            _ => self.serve_single(cx, number, input).unwrap_or_else(|e| answered(failed(e).encode())),
        }
    }
}

/// An operation that observes nothing.
fn sees_nothing<A, F, R>(f: F) -> Single<A>
where
    F: Fn(Rc<A>, Context, Request) -> R + 'static,
    R: Future<Output = Result<()>> + 'static,
{
    Box::new(move |a, cx, r| {
        let done = f(a, cx, r);
        Box::pin(async move { done.await.map(|()| Observation::default()) })
    })
}

fn answered(answer: Vec<u8>) -> Task {
    Box::pin(std::future::ready(answer))
}

/// Turns what an adapter returned into an answer.
fn finish(op: u64, returned: Result<Observation>) -> Answer {
    match returned {
        Ok(o) if o.adapter_state.len() > MAX_ADAPTER_STATE_BYTES => failed(Error::rejected(format!(
            "the adapter returned {} bytes of state, more than the {} allowed",
            o.adapter_state.len(),
            MAX_ADAPTER_STATE_BYTES
        ))),
        Ok(o) => Answer {
            status: if op == Op::Observe.number() && !o.exists { Status::NotFound } else { Status::Ok },
            observation: Some(o).filter(|o| *o != Observation::default()),
            ..Answer::default()
        },
        Err(e) => failed(e),
    }
}

fn failed(e: Error) -> Answer {
    match e.status {
        Status::Unspecified | Status::Ok => Answer {
            status: Status::Retry,
            message: format!("the adapter returned an error of the status {:?}: {}", e.status, e.message),
            ..Answer::default()
        },
        status => Answer {
            status,
            message: e.message,
            retry_after_ms: millis(e.retry_after),
            retry_after_target: e.whole_target,
            ..Answer::default()
        },
    }
}

/// Success, of which nothing else is to be said.
fn done() -> Answer {
    Answer { status: Status::Ok, ..Answer::default() }
}

fn poll_failed(e: Error) -> Vec<u8> {
    PollAnswer::of(failed(e), Changes::default()).encode()
}

fn compare_failed(e: Error) -> Vec<u8> {
    CompareAnswer::of(failed(e), Difference::default()).encode()
}

fn batch_failed(e: Error) -> Vec<u8> {
    BatchAnswer { items: Vec::new(), whole: Some(failed(e)) }.encode()
}

/// The host is newer or older than it should be; another try won't mend it.
fn malformed(e: Malformed) -> Error {
    Error::rejected(format!("the plugin can't decode the host's request: {}", e))
}

fn target_of(upstreams: &[UpstreamRef]) -> String {
    let urls: Vec<&str> = upstreams.iter().map(|u| u.base_url.as_str()).collect();
    urls.join(" ")
}

impl Config {
    /// The config as JSON.
    pub fn json(&self) -> Result<json::Value> {
        Ok(json::parse(&self.config)?)
    }

    /// The granted upstream of that name, or where there is no name the only one.
    pub fn upstream(&self, name: Option<&str>) -> Result<&UpstreamRef> {
        let found = match name {
            Some(name) => self.upstreams.iter().find(|u| u.name == name),
            None if self.upstreams.len() == 1 => self.upstreams.first(),
            None => None,
        };
        found.ok_or_else(|| {
            let granted: Vec<&str> = self.upstreams.iter().map(|u| u.name.as_str()).collect();
            let wanted = name.map_or("exactly one upstream is needed where the config names none".to_owned(), |n| format!("upstream {:?} is not granted", n));
            Error::rejected(format!("{}; granted: {}", wanted, if granted.is_empty() { "none".to_owned() } else { granted.join(", ") }))
        })
    }
}
