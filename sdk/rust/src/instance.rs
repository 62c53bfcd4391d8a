//! Runs the calls of one instance: a small executor whose reactor is the host.
//!
//! The host enters by start, resume, poll and cancel, one at a time. Each wakes
//! what it concerns, runs every future that can go on, and says what the
//! instance waits for. Everything is on one thread; the wakers alone must be
//! Send by their type, and so lock what they touch.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Wake, Waker};

use crate::context::Context;

/// The host's functions, as the ABI has them. The real ones are in `guest`.
pub(crate) trait Host {
    /// A copy of the current entry's input.
    fn input(&self) -> Vec<u8>;
    fn result(&self, call: i64, message: &[u8]);
    fn io_start(&self, call: i64, kind: u32, message: &[u8]) -> i64;
    fn io_cancel(&self, io: i64);
    /// The answer is the current input afterwards.
    fn io_call(&self, call: i64, kind: u32, message: &[u8]) -> i32;
    fn log(&self, call: i64, level: u32, line: &str);
}

/// What an entry returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Want {
    /// No call is live.
    Nothing = 0,
    /// Some are, and none can go on before a host I/O ends.
    Io = 1,
    /// Some could go on already.
    Poll = 2,
}

/// Code of `Host::io_start`: the call has ended.
pub(crate) const ENDED: i64 = -1;

/// Code of `Host::io_start`: the call, or the sink, has as many I/Os under way as it may have.
pub(crate) const TOO_MANY: i64 = -2;

/// How often one entry polls futures before it returns: a future that wakes
/// itself again and again must not keep the host from what else it has to do.
const MAX_POLLS: usize = 4096;

/// A call's work; its output is the encoded answer.
pub(crate) type Task = Pin<Box<dyn Future<Output = Vec<u8>>>>;

/// Begins the work of a call.
pub(crate) trait Serve {
    fn serve(&self, cx: Context, op: u32, input: &[u8]) -> Task;
}

pub(crate) struct Instance {
    pub(crate) host: Rc<dyn Host>,
    plugin: Box<dyn Serve>,
    calls: RefCell<BTreeMap<i64, Call>>,
    ios: RefCell<BTreeMap<i64, Wait>>,
    backlog: RefCell<VecDeque<Waker>>, // of calls without an I/O, that wait until the sink has fewer
    ready: Arc<Mutex<VecDeque<i64>>>,
    running: Cell<i64>,
}

struct Call {
    task: Option<Task>, // None while it is polled
    alarm: Arc<Alarm>,
    ios: usize,          // under way
    backlog: Vec<Waker>, // of I/Os that wait until the call has fewer
}

struct Wait {
    call: i64,
    waker: Waker,
    response: Option<Vec<u8>>,
}

/// Wakes one call.
struct Alarm {
    call: i64,
    queued: AtomicBool,
    ready: Arc<Mutex<VecDeque<i64>>>,
}

impl Wake for Alarm {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }
    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.ready.lock().expect("no holder panics").push_back(self.call);
        }
    }
}

impl Instance {
    pub(crate) fn new(host: Rc<dyn Host>, plugin: Box<dyn Serve>) -> Rc<Instance> {
        Rc::new(Instance {
            host,
            plugin,
            calls: RefCell::default(),
            ios: RefCell::default(),
            backlog: RefCell::default(),
            ready: Arc::default(),
            running: Cell::new(0),
        })
    }

    /// The call whose code runs, or 0.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))] // asked by the real host's side alone
    pub(crate) fn running(&self) -> i64 {
        self.running.get()
    }

    pub(crate) fn start(self: &Rc<Self>, op: u32, call: i64) -> Want {
        let input = self.host.input();
        self.running.set(call);
        let task = self.plugin.serve(Context::new(self.clone(), call), op, &input);
        self.running.set(0);
        drop(input); // what the adapter keeps was copied
        let alarm = Arc::new(Alarm { call, queued: AtomicBool::new(false), ready: self.ready.clone() });
        alarm.wake_by_ref();
        self.calls.borrow_mut().insert(call, Call { task: Some(task), alarm, ios: 0, backlog: Vec::new() });
        self.run()
    }

    /// Hands an I/O its response. One that nobody waits for is no fault: its
    /// call may have ended in between.
    pub(crate) fn resume(&self, io: i64) -> Want {
        if let Some(wait) = self.ios.borrow_mut().get_mut(&io) {
            wait.response = Some(self.host.input());
            wait.waker.wake_by_ref();
            self.io_over(wait.call);
        }
        self.run()
    }

    pub(crate) fn poll(&self) -> Want {
        self.backlog.borrow_mut().drain(..).for_each(Waker::wake);
        self.run()
    }

    /// Drops the call's future where it waits.
    #[cfg_attr(not(target_arch = "wasm32"), allow(dead_code))] // as above
    pub(crate) fn cancel(&self, call: i64) -> Want {
        let gone = self.calls.borrow_mut().remove(&call);
        self.running.set(call);
        drop(gone);
        self.running.set(0);
        self.run()
    }

    fn run(&self) -> Want {
        for _ in 0..MAX_POLLS {
            let next = self.ready.lock().expect("no holder panics").pop_front();
            match next {
                Some(call) => self.step(call),
                None => return self.want(),
            }
        }
        Want::Poll
    }

    /// What an instance wants in which no future can go on.
    fn want(&self) -> Want {
        if self.calls.borrow().is_empty() {
            return Want::Nothing;
        }
        // Where the sink's I/Os are all another instance's, nothing wakes the backlog.
        let woken = self.backlog.borrow().is_empty() || self.ios.borrow().values().any(|wait| wait.response.is_none());
        if woken {
            Want::Io
        } else {
            Want::Poll
        }
    }

    /// Lets one call go on until it waits or ends.
    fn step(&self, id: i64) {
        let (mut task, waker) = match self.calls.borrow_mut().get_mut(&id) {
            Some(Call { task, alarm, .. }) => {
                alarm.queued.store(false, Ordering::Relaxed);
                (task.take().expect("a call is not polled while it is polled"), Waker::from(alarm.clone()))
            }
            None => return, // woken after its end
        };
        self.running.set(id);
        let polled = task.as_mut().poll(&mut task::Context::from_waker(&waker));
        if let Poll::Ready(answer) = &polled {
            self.host.result(id, answer);
            self.calls.borrow_mut().remove(&id);
        } else if let Some(call) = self.calls.borrow_mut().get_mut(&id) {
            call.task = Some(task);
        }
        self.running.set(0);
    }

    /// Begins an I/O of a call. None: there are too many; the waker is called
    /// when it is worth another try.
    pub(crate) fn io_start(&self, id: i64, kind: u32, message: &[u8], waker: &Waker) -> Result<Option<i64>, i64> {
        let io = self.host.io_start(id, kind, message);
        let mut calls = self.calls.borrow_mut();
        match calls.get_mut(&id) {
            Some(call) if io > 0 => call.ios += 1,
            Some(call) if io == TOO_MANY => {
                if call.ios > 0 {
                    call.backlog.push(waker.clone());
                } else {
                    self.backlog.borrow_mut().push_back(waker.clone());
                }
                return Ok(None);
            }
            _ => return Err(io),
        }
        self.ios.borrow_mut().insert(io, Wait { call: id, waker: waker.clone(), response: None });
        Ok(Some(io))
    }

    /// The response of an I/O that has one.
    pub(crate) fn io_poll(&self, io: i64, waker: &Waker) -> Option<Vec<u8>> {
        let mut ios = self.ios.borrow_mut();
        let wait = ios.get_mut(&io)?;
        let response = wait.response.take();
        if response.is_some() {
            ios.remove(&io);
        } else if !wait.waker.will_wake(waker) {
            wait.waker = waker.clone();
        }
        response
    }

    /// Gives up an I/O whose future is dropped. Where its call is over the host
    /// has ended it already.
    pub(crate) fn io_drop(&self, io: i64) {
        let wait = self.ios.borrow_mut().remove(&io);
        if let Some(Wait { call, response: None, .. }) = wait {
            if self.calls.borrow().contains_key(&call) {
                self.host.io_cancel(io);
            }
            self.io_over(call);
        }
    }

    fn io_over(&self, call: i64) {
        if let Some(call) = self.calls.borrow_mut().get_mut(&call) {
            call.ios -= 1;
            call.backlog.drain(..).for_each(Waker::wake);
        }
        // One, for the one that has ended: to wake all for each would be work by the square.
        if let Some(waker) = self.backlog.borrow_mut().pop_front() {
            waker.wake();
        }
    }
}

#[cfg(test)]
#[path = "instance_tests.rs"]
mod tests;
