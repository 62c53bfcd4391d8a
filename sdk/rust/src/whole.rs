//! Calls about the whole target: what changed there, and where it differs.

use crate::error::Error;
use crate::message::{Answer, Observation};
use crate::Result;

message! {
    pub(crate) PollRequest {
        1 sink: String,
        2 cursor: String,
        3 timeout_ms: u32,
    }
}

message! {
    /// The state of one object at the target.
    pub Seen {
        /// Of the resource that it is, as [`Request::key`](crate::Request::key).
        1 key: String,
        /// None, or one that does not exist: it is gone. Else with its content.
        2 observation: Option<Observation>,
    }
}

/// Bounds [`Changes::seen`].
pub const MAX_SEEN: usize = 10_000;

/// What a poll tells.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Changes {
    /// The objects that changed, in the order of the target's changes, at most
    /// [`MAX_SEEN`]. Of several for one key the last one counts.
    pub seen: Vec<Seen>,
    /// What to ask from next. It is kept once `seen` is taken in.
    pub cursor: String,
    /// There is more, and the next poll follows at once.
    pub more: bool,
    /// The target knows the cursor that it was asked from no more. `seen` begins with
    /// the whole again, and what it lacks at its end is gone.
    pub reset: bool,
}

message! {
    pub(crate) PollAnswer {
        1 result: Option<Answer>,
        2 seen: Vec<Seen>,
        3 cursor: String,
        4 more: bool,
        5 reset: bool,
    }
}

message! {
    /// Asks about some nodes of the tree that resources are by the bytes of a hash of
    /// their keys.
    pub Comparison {
        /// The sink's name.
        1 sink: String,
        /// Of the store that asks, as [`Request::epoch`](crate::Request::epoch).
        2 epoch: String,
        /// Of which the target answers which differ.
        3 nodes: Vec<CompareNode>,
        /// Of which it answers which items differ, and what else it has there.
        4 leaves: Vec<CompareLeaf>,
        /// Milliseconds that were left of the call's deadline when it started.
        5 timeout_ms: u32,
    }
}

message! {
    /// The sum of all resources whose hash begins with `prefix`.
    pub CompareNode {
        /// Whole bytes of the hash; empty: the root.
        1 prefix: Vec<u8>,
        /// Of its items.
        2 count: u64,
        /// Sum of the digests of its items, 16 bytes.
        3 digest: Vec<u8>,
    }
}

message! {
    /// A node with all its items.
    pub CompareLeaf {
        /// See [`CompareNode::prefix`].
        1 prefix: Vec<u8>,
        /// All of them.
        2 items: Vec<CompareItem>,
    }
}

message! {
    /// One resource.
    pub CompareItem {
        /// Hash of its key, 16 bytes.
        1 key: Vec<u8>,
        /// Hash of all that is desired of it, 16 bytes.
        2 content: Vec<u8>,
    }
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    /// Prefixes of the nodes that differ.
    pub nodes: Vec<Vec<u8>>,
    /// Key hashes of the leaves' items that differ or are missing.
    pub items: Vec<Vec<u8>>,
    /// Keys that the target holds below the leaves asked about, and that they lack.
    pub extra: Vec<String>,
}

message! {
    pub(crate) CompareAnswer {
        1 result: Option<Answer>,
        2 nodes: Vec<Vec<u8>>,
        3 items: Vec<Vec<u8>>,
        4 extra: Vec<String>,
    }
}

impl PollAnswer {
    pub(crate) fn of(result: Answer, c: Changes) -> PollAnswer {
        PollAnswer { result: Some(result), seen: c.seen, cursor: c.cursor, more: c.more, reset: c.reset }
    }
}

impl CompareAnswer {
    pub(crate) fn of(result: Answer, d: Difference) -> CompareAnswer {
        CompareAnswer { result: Some(result), nodes: d.nodes, items: d.items, extra: d.extra }
    }
}

/// Refuses more objects than an answer may tell of.
pub(crate) fn bounded(c: Changes) -> Result<Changes> {
    match c.seen.len() {
        n if n > MAX_SEEN => {
            Err(Error::rejected(format!("the adapter told of {} objects in one poll, more than the {} allowed", n, MAX_SEEN)))
        }
        _ => Ok(c),
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;
    use crate::testing::Sink;
    use crate::{Configured, Context, HttpResponse, Manifest, Op, Plugin, Status};

    struct Watched;

    impl Watched {
        async fn poll(self: Rc<Self>, _: Context, cursor: String) -> Result<Changes> {
            match cursor.as_str() {
                "busy" => Err(Error::retry("later")),
                "many" => Ok(Changes { seen: vec![Seen::default(); MAX_SEEN + 1], ..Changes::default() }),
                _ => Ok(Changes { seen: vec![Seen { key: "a".into(), observation: None }], cursor: cursor + "+", more: true, reset: true }),
            }
        }

        async fn compare(self: Rc<Self>, _: Context, c: Comparison) -> Result<Difference> {
            let node = c.nodes.into_iter().next().ok_or_else(|| Error::rejected("of what?"))?;
            Ok(Difference { nodes: vec![node.prefix], items: vec![c.leaves[0].items[0].key.clone()], extra: vec![c.epoch] })
        }
    }

    fn open(plugin: impl FnOnce(Plugin<Watched>) -> Plugin<Watched>) -> Sink {
        let bare = Plugin::new(Manifest::default(), |_, _| async { Ok(Configured::new(Watched)) });
        Sink::open(plugin(bare), "{}", |_| Ok(HttpResponse::new(204)))
    }

    #[test]
    fn polls_and_comparisons_are_answered() {
        let sink = open(|p| p.poll(Watched::poll).compare(Watched::compare));
        assert_eq!(sink.manifest().ops, [Op::Poll, Op::Compare]);
        let got = sink.poll("17").unwrap();
        assert_eq!((got.seen[0].key.as_str(), got.cursor.as_str(), got.more, got.reset), ("a", "17+", true, true));
        assert_eq!(sink.poll("busy").unwrap_err().message, "later");
        let many = sink.poll("many").unwrap_err();
        assert_eq!((many.status, many.message.contains("10001 objects")), (Status::Rejected, true));

        let node = CompareNode { prefix: vec![1], ..CompareNode::default() };
        let item = CompareItem { key: vec![2], ..CompareItem::default() };
        let leaf = CompareLeaf { items: vec![item], ..CompareLeaf::default() };
        let c = Comparison { epoch: "e".into(), nodes: vec![node], leaves: vec![leaf], ..Comparison::default() };
        let want = Difference { nodes: vec![vec![1]], items: vec![vec![2]], extra: vec!["e".into()] };
        assert_eq!(sink.compare(&c), Ok(want));
        assert_eq!(sink.compare(&Comparison::default()).unwrap_err().message, "of what?");
    }

    #[test]
    fn what_is_not_registered_is_refused() {
        let sink = open(|p| p);
        assert_eq!(sink.poll("").unwrap_err().message, "the plugin does not implement op 7");
        assert_eq!(sink.compare(&Comparison::default()).unwrap_err().message, "the plugin does not implement op 10");
    }
}
