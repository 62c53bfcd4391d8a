//! What a call that belongs to a saga has beside others.

use crate::error::Error;
use crate::message::{Observation, Op, Request};
use crate::wire::Enum;
use crate::Result;

message! {
    /// What a call that belongs to a saga knows of it. `id` and `step` are the
    /// mark: write them into the target together with the object, in one request.
    pub SagaRun {
        /// Of this run, 32 hexadecimal digits: no other run, of whatever store, has the same.
        1 id: String,
        /// The step's place in the saga, from 0.
        2 step: u32,
        /// What the run holds, or is to take with this very write, of an adapter whose
        /// manifest says `lock`: hexadecimal digits, sorted. A write that finds one
        /// taken by another run changes nothing and is a conflict.
        3 locks: Vec<String>,
        /// The run holds its locks already. The write goes through only if it still does.
        4 held: bool,
        /// The object as it was before the step: apply and delete are conditional on
        /// it, and restore brings it back. None: observe is to report it.
        5 before: Option<Image>,
    }
}

message! {
    /// An object as it was before a saga's step wrote it: what observe reported then.
    pub Image {
        /// Whether there was one.
        1 exists: bool,
        /// See [`Observation::cid`]: what a write is conditional on.
        2 cid: String,
        /// See [`Observation::uid`].
        3 uid: String,
        /// See [`Observation::content`]; in the adapter's own terms, at most [`MAX_IMAGE_BYTES`].
        4 content: Vec<u8>,
    }
}

/// Bounds [`Observation::content`] where the call is a saga's and bears no image yet.
pub const MAX_IMAGE_BYTES: usize = 1 << 20;

/// What the host's request must have for the operations that come in sagas alone.
pub(crate) fn check(op: u64, r: &Request) -> Result<()> {
    match (Op::from_number(op), &r.saga) {
        (Some(Op::Restore | Op::Unlock), None) => {
            Err(Error::rejected("the host's request names no saga, which this operation needs"))
        }
        (Some(Op::Restore), Some(run)) if run.before.is_none() => {
            Err(Error::rejected("the host's request says nothing of the object before the saga, which restore needs"))
        }
        _ => Ok(()),
    }
}

/// Refuses an observation whose content is more than a saga keeps.
pub(crate) fn bounded(o: Observation) -> Result<Observation> {
    match o.content.as_ref().map_or(0, Vec::len) {
        n if n > MAX_IMAGE_BYTES => Err(Error::rejected(format!(
            "the object has {} bytes, more than the {} that a saga keeps to bring it back",
            n, MAX_IMAGE_BYTES
        ))),
        _ => Ok(o),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::testing::{request, Sink};
    use crate::{Configured, Context, HttpResponse, Manifest, Plugin, Status};

    /// Says of each call what came with it.
    struct Echo;

    impl Echo {
        async fn observe(self: Rc<Self>, _: Context, r: Request) -> Result<Observation> {
            Ok(Observation { exists: true, cid: "c".into(), uid: "u".into(), content: Some(r.payload), ..Observation::default() })
        }

        async fn restore(self: Rc<Self>, _: Context, r: Request) -> Result<Observation> {
            if r.key == "changed" {
                return Err(Error::conflict("somebody else"));
            }
            Ok(Observation { reference: format!("{:?}", r.saga.unwrap()), ..Observation::default() })
        }

        async fn unlock(self: Rc<Self>, _: Context, r: Request) -> Result<()> {
            Err(Error::retry(format!("{:?}", r.saga.unwrap().locks)))
        }
    }

    fn plugin() -> Plugin<Echo> {
        Plugin::new(Manifest::default(), |_, _| async { Ok(Configured::new(Echo)) }).observe(Echo::observe)
    }

    fn open(plugin: Plugin<Echo>) -> Sink {
        Sink::open(plugin, "{}", |_| Ok(HttpResponse::new(204)))
    }

    fn of(key: &str, payload: impl Into<Vec<u8>>, run: SagaRun) -> Request {
        Request { saga: Some(run), ..request(key, payload) }
    }

    #[test]
    fn the_operations_of_a_saga_are_answered() {
        let sink = open(plugin().restore(Echo::restore).unlock(Echo::unlock));
        assert_eq!(sink.manifest().ops, [Op::Observe, Op::Unlock, Op::Restore]);
        let run = SagaRun { id: "r".into(), step: 3, locks: vec!["0a".into(), "0b".into()], held: true, before: None };

        let before = sink.observe(&of("k", "was", run.clone())).image();
        assert_eq!(before, Image { exists: true, cid: "c".into(), uid: "u".into(), content: b"was".to_vec() });

        let run = SagaRun { before: Some(before), ..run };
        let got = sink.restore(&of("k", "", run.clone()));
        assert_eq!((got.status, got.observation.reference), (Status::Ok, format!("{:?}", run)));
        assert_eq!(sink.restore(&of("changed", "", run.clone())).status, Status::Conflict);

        let got = sink.unlock(&of("k", "", run));
        assert_eq!((got.status, got.message.as_str()), (Status::Retry, "[\"0a\", \"0b\"]"));
    }

    #[test]
    fn what_a_saga_must_say_is_asked_for() {
        let sink = open(plugin().restore(Echo::restore).unlock(Echo::unlock));
        for got in [sink.restore(&request("k", "")), sink.unlock(&request("k", ""))] {
            assert_eq!((got.status, got.message.as_str()), (Status::Rejected, "the host's request names no saga, which this operation needs"));
        }
        let got = sink.restore(&of("k", "", SagaRun::default()));
        assert!(got.status == Status::Rejected && got.message.contains("before the saga"), "{:?}", got);
        let got = open(plugin()).restore(&of("k", "", SagaRun { before: Some(Image::default()), ..SagaRun::default() }));
        assert_eq!((got.status, got.message.as_str()), (Status::Rejected, "the plugin does not implement op 9"));
    }

    #[test]
    fn an_image_is_bounded() {
        let sink = open(plugin());
        let large = vec![b'x'; MAX_IMAGE_BYTES + 1];
        let got = sink.observe(&of("k", large.clone(), SagaRun::default()));
        assert!(got.status == Status::Rejected && got.message.contains("1048577 bytes"), "{:?}: {}", got.status, got.message);
        let known = SagaRun { before: Some(Image::default()), ..SagaRun::default() };
        for r in [of("k", &large[1..], SagaRun::default()), of("k", large.clone(), known), request("k", large)] {
            assert_eq!(sink.observe(&r).status, Status::Ok);
        }
    }
}
