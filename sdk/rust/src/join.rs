//! Several futures within one call.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// What [`race`] ended with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<A, B> {
    /// The first future was ready first.
    A(A),
    /// The second one was.
    B(B),
}

enum Member<F: Future> {
    Running(Pin<Box<F>>),
    Done(Option<F::Output>),
}

impl<F: Future> Member<F> {
    fn new(f: F) -> Self {
        Member::Running(Box::pin(f))
    }

    fn poll(&mut self, t: &mut Context<'_>) -> bool {
        if let Member::Running(f) = self {
            match f.as_mut().poll(t) {
                Poll::Ready(output) => *self = Member::Done(Some(output)),
                Poll::Pending => return false,
            }
        }
        true
    }

    fn output(&mut self) -> F::Output {
        match self {
            Member::Done(output) => output.take().expect("a future was polled after its end"),
            Member::Running(_) => unreachable!("all members are done"),
        }
    }
}

struct JoinAll<F: Future>(Vec<Member<F>>);

// Nothing is pinned in place: the futures have boxes, and outputs are moved.
impl<F: Future> Unpin for JoinAll<F> {}

impl<F: Future> Future for JoinAll<F> {
    type Output = Vec<F::Output>;

    fn poll(mut self: Pin<&mut Self>, t: &mut Context<'_>) -> Poll<Self::Output> {
        let mut all = true;
        for member in &mut self.0 {
            all &= member.poll(t);
        }
        if !all {
            return Poll::Pending;
        }
        Poll::Ready(self.0.iter_mut().map(Member::output).collect())
    }
}

/// Runs all at once and returns their outputs in order. The host bounds how
/// many requests one call has under way; more wait for their turn.
///
/// ```
/// # async fn get(cx: pawl::Context) -> pawl::Result<()> {
/// let requests = ["/a", "/b"].map(|path| cx.http(pawl::HttpRequest::new("GET", "target", path)));
/// for response in pawl::join_all(requests).await {
///     response?.success()?;
/// }
/// # Ok(()) }
/// ```
pub fn join_all<F: Future>(futures: impl IntoIterator<Item = F>) -> impl Future<Output = Vec<F::Output>> {
    JoinAll(futures.into_iter().map(Member::new).collect())
}

struct Pair<A: Future, B: Future>(Member<A>, Member<B>);

impl<A: Future, B: Future> Unpin for Pair<A, B> {}

impl<A: Future, B: Future> Future for Pair<A, B> {
    type Output = (A::Output, B::Output);

    fn poll(mut self: Pin<&mut Self>, t: &mut Context<'_>) -> Poll<Self::Output> {
        let a = self.0.poll(t);
        let b = self.1.poll(t);
        if !(a && b) {
            return Poll::Pending;
        }
        Poll::Ready((self.0.output(), self.1.output()))
    }
}

/// Runs both at once and returns both outputs.
pub fn join<A: Future, B: Future>(a: A, b: B) -> impl Future<Output = (A::Output, B::Output)> {
    Pair(Member::new(a), Member::new(b))
}

struct Race<A, B>(Pin<Box<A>>, Pin<Box<B>>);

impl<A: Future, B: Future> Future for Race<A, B> {
    type Output = First<A::Output, B::Output>;

    fn poll(mut self: Pin<&mut Self>, t: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(a) = self.0.as_mut().poll(t) {
            return Poll::Ready(First::A(a));
        }
        self.1.as_mut().poll(t).map(First::B)
    }
}

/// Runs both at once until one is ready; the other is dropped, and its request ended.
pub fn race<A: Future, B: Future>(a: A, b: B) -> impl Future<Output = First<A::Output, B::Output>> {
    Race(Box::pin(a), Box::pin(b))
}
