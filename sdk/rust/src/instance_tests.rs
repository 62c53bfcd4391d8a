use std::time::Duration;

use super::*;
use crate::message::{Answer, Config, HttpRequest, Manifest, Observation, Op, Request, Status};
use crate::testing::{request, FakeHost, UPSTREAM};
use crate::wire::Message;
use crate::{join, join_all, race, Configured, Error, First, HttpResponse, Plugin, Result};

/// An instance whose apply is f, on a host whose I/Os end when the test says so.
struct Bench {
    host: Rc<FakeHost>,
    instance: Rc<Instance>,
}

fn bench<F, R>(f: F) -> Bench
where
    F: Fn(Context, Request) -> R + 'static,
    R: Future<Output = Result<()>> + 'static,
{
    let host = Rc::new(FakeHost::new(|r| Ok(HttpResponse { body: r.path.clone().into_bytes(), ..HttpResponse::new(200) })));
    let plugin = Plugin::new(Manifest::default(), |_, _| async { Ok(Configured::new(())) }).apply(move |_, cx, r| {
        let applied = f(cx, r);
        async move { applied.await.map(|()| Observation::default()) }
    });
    let b = Bench { instance: Instance::new(host.clone(), Box::new(plugin)), host };
    assert_eq!(b.enter(Op::Configure, 1, &Config::default()), Want::Nothing);
    assert_eq!(b.answers(), [(1, Status::Ok)]);
    b
}

impl Bench {
    fn enter(&self, op: Op, call: i64, input: &impl Message) -> Want {
        *self.host.input.borrow_mut() = input.encode();
        self.instance.start(op as u32, call)
    }

    fn apply(&self, call: i64) -> Want {
        self.enter(Op::Apply, call, &request(&call.to_string(), ""))
    }

    /// The I/Os under way.
    fn waiting(&self) -> Vec<i64> {
        self.host.done.borrow().iter().map(|ended| ended.io).collect()
    }

    fn end(&self, io: i64) -> Want {
        let at = self.waiting().iter().position(|&w| w == io).expect("an I/O under way");
        *self.host.input.borrow_mut() = self.host.done.borrow_mut().remove(at).unwrap().response;
        self.instance.resume(io)
    }

    /// The answers since the last look.
    fn answers(&self) -> Vec<(i64, Status)> {
        let answers = self.host.results.borrow_mut().split_off(0);
        answers.iter().map(|(call, answer)| (*call, Answer::decode(answer).unwrap().status)).collect()
    }
}

fn get(cx: &Context, path: &str) -> impl Future<Output = Result<HttpResponse, crate::Failure>> {
    cx.http(HttpRequest::new("GET", UPSTREAM, path))
}

#[test]
fn calls_park_and_go_on_in_any_order() {
    let b = bench(|cx, r| async move {
        for step in 0..3 {
            let path = format!("/{}/{}", r.key, step);
            assert_eq!(get(&cx, &path).await?.body, path.as_bytes());
        }
        Ok(())
    });
    for call in 2..102 {
        assert_eq!(b.apply(call), Want::Io);
    }
    let mut answered = Vec::new();
    let mut pick = 7_usize;
    while let waiting @ [_, ..] = &b.waiting()[..] {
        pick = pick.wrapping_mul(31).wrapping_add(11);
        let want = b.end(waiting[pick % waiting.len()]);
        answered.extend(b.answers());
        assert_eq!(want, if answered.len() == 100 { Want::Nothing } else { Want::Io });
    }
    answered.sort_by_key(|(call, _)| *call);
    assert_eq!(answered, (2..102).map(|call| (call, Status::Ok)).collect::<Vec<_>>());
}

#[test]
fn several_ios_of_one_call_are_under_way_at_once() {
    let b = bench(|cx, _| async move {
        let (all, slept) = join(join_all((0..3).map(|i| get(&cx, &format!("/{}", i)))), cx.sleep(Duration::from_secs(1))).await;
        let bodies: Vec<_> = all.into_iter().map(|r| r.unwrap().body).collect();
        assert_eq!(bodies, [b"/0", b"/1", b"/2"]);
        Ok(slept?)
    });
    assert_eq!(b.apply(2), Want::Io);
    assert_eq!(b.waiting(), [1, 2, 3, 4]);
    for io in [3, 1, 4] {
        assert_eq!(b.end(io), Want::Io);
        assert_eq!(b.answers(), []);
    }
    assert_eq!(b.end(2), Want::Nothing);
    assert_eq!(b.answers(), [(2, Status::Ok)]);
}

#[test]
fn more_ios_than_a_call_may_have_take_turns() {
    let b = bench(|cx, _| async move {
        let all = join_all((0..100).map(|i| get(&cx, &format!("/{}", i)))).await;
        for (i, got) in all.into_iter().enumerate() {
            assert_eq!(got?.body, format!("/{}", i).as_bytes());
        }
        Ok(())
    });
    b.apply(2);
    let mut ended = 0;
    while let Some(&io) = b.waiting().last() {
        assert_eq!(b.waiting().len(), 16.min(100 - ended));
        b.end(io);
        ended += 1;
    }
    assert_eq!((ended, b.answers()), (100, vec![(2, Status::Ok)]));
}

/// Combinators of other crates poll only those of their futures that were woken.
#[test]
fn an_io_that_waits_for_its_turn_is_woken_itself() {
    struct Flag(AtomicBool, Mutex<Option<Waker>>);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
            if let Some(outer) = self.1.lock().unwrap().take() {
                outer.wake();
            }
        }
    }
    struct Picky<F>(Vec<(Pin<Box<F>>, Arc<Flag>)>);
    impl<F: Future> Future for Picky<F> {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, t: &mut task::Context<'_>) -> Poll<()> {
            self.0.retain_mut(|(future, flag)| {
                *flag.1.lock().unwrap() = Some(t.waker().clone());
                let woken = flag.0.swap(false, Ordering::Relaxed);
                !woken || future.as_mut().poll(&mut task::Context::from_waker(&flag.clone().into())).is_pending()
            });
            if self.0.is_empty() {
                return Poll::Ready(());
            }
            Poll::Pending
        }
    }
    let b = bench(|cx, _| async move {
        let all = (0..40).map(|_| (Box::pin(get(&cx, "/")), Arc::new(Flag(AtomicBool::new(true), Mutex::default()))));
        Picky(all.collect()).await;
        Ok(())
    });
    b.apply(2);
    let mut ended = 0;
    while let Some(&io) = b.waiting().first() {
        b.end(io);
        ended += 1;
    }
    assert_eq!((ended, b.answers()), (40, vec![(2, Status::Ok)]));
}

#[test]
fn more_ios_than_the_sink_may_have_take_turns() {
    let b = bench(|cx, _| async move { get(&cx, "/").await.map(drop).map_err(Error::from) });
    b.host.sink_ios.set(3);
    for call in 2..12 {
        assert_eq!(b.apply(call), Want::Io);
    }
    b.instance.cancel(6); // while it waits for its turn
    b.instance.cancel(11);
    let mut ended = 0;
    while let Some(&io) = b.waiting().first() {
        b.end(io);
        ended += 1;
    }
    // The wakes of those that were cancelled are lost: a poll goes on.
    while b.instance.poll() != Want::Nothing {
        for io in b.waiting() {
            b.end(io);
            ended += 1;
        }
    }
    assert_eq!((ended, b.answers().len()), (8, 8));
}

#[test]
fn an_instance_that_waits_for_the_ios_of_others_asks_to_be_polled() {
    let b = bench(|cx, _| async move { get(&cx, "/").await.map(drop).map_err(Error::from) });
    b.host.sink_ios.set(0);
    assert_eq!(b.apply(2), Want::Poll);
    assert_eq!(b.instance.poll(), Want::Poll);
    b.host.sink_ios.set(1);
    assert_eq!(b.instance.poll(), Want::Io);
    assert_eq!(b.end(1), Want::Nothing);
    assert_eq!(b.answers(), [(2, Status::Ok)]);
}

#[test]
fn what_loses_a_race_is_cancelled_at_the_host() {
    let b = bench(|cx, _| async move {
        match race(get(&cx, "/slow"), get(&cx, "/fast")).await {
            First::B(fast) => assert_eq!(fast?.body, b"/fast"),
            First::A(_) => panic!("the slow one was first"),
        }
        get(&cx, "/more").await.map(drop).map_err(Error::from)
    });
    b.apply(2);
    assert_eq!(b.end(2), Want::Io);
    assert_eq!(*b.host.cancelled.borrow(), [1]);
    assert_eq!(b.waiting(), [3]);
    assert_eq!(b.end(3), Want::Nothing);
    assert_eq!(b.answers(), [(2, Status::Ok)]);
}

#[test]
fn a_cancelled_call_is_dropped_where_it_waits() {
    struct Undo(Rc<RefCell<Vec<String>>>, String);
    impl Drop for Undo {
        fn drop(&mut self) {
            self.0.borrow_mut().push(self.1.clone());
        }
    }
    let undone = Rc::new(RefCell::new(Vec::new()));
    let log = undone.clone();
    let b = bench(move |cx, r| {
        let undo = Undo(log.clone(), r.key);
        async move {
            let _undo = undo;
            get(&cx, "/").await?;
            panic!("went on after it was cancelled");
        }
    });
    b.apply(2);
    b.apply(3);
    assert_eq!(b.instance.cancel(2), Want::Io);
    assert_eq!(*undone.borrow(), ["2"]);
    assert_eq!(b.instance.cancel(2), Want::Io, "twice");
    assert_eq!(b.instance.cancel(3), Want::Nothing);
    assert_eq!(b.host.cancelled.borrow().len(), 0, "the host has ended its I/O itself");
    *b.host.input.borrow_mut() = Vec::new();
    assert_eq!(b.instance.resume(1), Want::Nothing, "a response that comes late");
    assert!(b.instance.ios.borrow().is_empty() && b.instance.calls.borrow().is_empty());
    assert_eq!(b.answers(), []);
}

#[test]
fn a_call_that_another_one_wakes_goes_on_in_the_same_entry() {
    #[derive(Clone, Default)]
    struct Gate(Rc<RefCell<(bool, Option<Waker>)>>);
    impl Future for Gate {
        type Output = ();
        fn poll(self: Pin<&mut Self>, t: &mut task::Context<'_>) -> Poll<()> {
            let (open, waker) = &mut *self.0.borrow_mut();
            *waker = Some(t.waker().clone());
            if *open {
                Poll::Ready(())
            } else {
                Poll::Pending
            }
        }
    }
    let gate = Gate::default();
    let b = bench(move |cx, r| {
        let gate = gate.clone();
        async move {
            if r.key == "3" {
                get(&cx, "/").await?;
                let mut inner = gate.0.borrow_mut();
                inner.0 = true;
                inner.1.take().unwrap().wake();
            } else {
                gate.await;
            }
            Ok(())
        }
    });
    assert_eq!(b.apply(2), Want::Io);
    assert_eq!(b.apply(3), Want::Io);
    assert_eq!(b.end(1), Want::Nothing);
    assert_eq!(b.answers(), [(3, Status::Ok), (2, Status::Ok)]);
}

#[test]
fn a_future_that_wakes_itself_lets_the_host_in() {
    struct Yields(usize);
    impl Future for Yields {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, t: &mut task::Context<'_>) -> Poll<()> {
            if self.0 == 0 {
                return Poll::Ready(());
            }
            self.0 -= 1;
            t.waker().wake_by_ref();
            Poll::Pending
        }
    }
    let b = bench(|_, _| async {
        Yields(3 * MAX_POLLS).await;
        Ok(())
    });
    let mut want = b.apply(2);
    let mut entries = 1;
    while want == Want::Poll {
        want = b.instance.poll();
        entries += 1;
    }
    assert_eq!((entries, want), (4, Want::Nothing));
    assert_eq!(b.answers(), [(2, Status::Ok)]);
}

#[test]
fn a_call_that_nothing_can_wake_is_the_hosts_to_judge() {
    let b = bench(|_, _| std::future::pending());
    assert_eq!(b.apply(2), Want::Io);
    assert_eq!(b.waiting(), []);
}

#[test]
fn a_request_of_a_call_that_has_ended_is_refused() {
    let kept: Rc<RefCell<Option<Context>>> = Rc::default();
    let keep = kept.clone();
    let b = bench(move |cx, r| {
        let old = keep.borrow_mut().replace(cx);
        async move {
            if r.key == "3" {
                let failure = get(&old.unwrap(), "/").await.unwrap_err();
                assert_eq!(failure.kind, crate::FailureKind::Cancelled);
            }
            Ok(())
        }
    });
    b.apply(2);
    assert_eq!(b.apply(3), Want::Nothing);
    assert_eq!(b.answers(), [(2, Status::Ok), (3, Status::Ok)]);
}

#[test]
fn a_request_that_can_not_be_decoded_is_told() {
    let b = bench(|_, _| async { Ok(()) });
    *b.host.input.borrow_mut() = vec![0xff];
    b.instance.start(Op::Apply as u32, 2);
    *b.host.input.borrow_mut() = Vec::new();
    b.instance.start(Op::Delete as u32, 3);
    b.instance.start(77, 4);
    assert_eq!(b.answers(), [(2, Status::Rejected), (3, Status::Rejected), (4, Status::Rejected)]);
}
