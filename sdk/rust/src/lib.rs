//! For authors of Pawl plugins: adapters that bring one kind of target to the
//! state that is desired of it.
//!
//! ```
//! use std::rc::Rc;
//! use pawl::{Config, Configured, Context, HttpRequest, Manifest, Observation, Plugin, Request, Result};
//!
//! struct Things {
//!     upstream: String,
//! }
//!
//! impl Things {
//!     async fn configure(_: Context, c: Config) -> Result<Configured<Things>> {
//!         Ok(Configured::new(Things { upstream: c.upstream(None)?.name.clone() }))
//!     }
//!
//!     async fn apply(self: Rc<Self>, cx: Context, r: Request) -> Result<Observation> {
//!         let path = format!("/things/{}", pawl::escape_path(&r.key));
//!         let put = HttpRequest::new("PUT", &self.upstream, path).body(r.payload);
//!         cx.http(put).await?.success()?;
//!         Ok(Observation { exists: true, ..Observation::default() })
//!     }
//! }
//!
//! fn plugin() -> Plugin<Things> {
//!     let manifest = Manifest { name: "things".into(), version: "1.0.0".into(), finds_by_key: true, ..Manifest::default() };
//!     Plugin::new(manifest, Things::configure).apply(Things::apply)
//! }
//!
//! pawl::export!(plugin());
//! ```
//!
//! # Calls
//!
//! One instance serves many calls at once, on one thread, and never two at a
//! time for one resource. A call that awaits [`Context::http`] or
//! [`Context::sleep`] is parked at the host. A loop without an await delays the
//! others, and one that is too long is a fault.
//!
//! # Outcomes
//!
//! `Ok` is done; of observe with `exists` false it is "not found". What else an
//! outcome can be is an [`Error`]. A panic is logged and traps the instance,
//! which counts as the plugin's fault; so return an error for what depends on input.

#![deny(unsafe_code)]
#![warn(missing_docs)]

#[macro_use]
mod wire;

mod context;
mod error;
mod escape;
mod export;
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
#[allow(missing_docs)]
pub mod guest;
mod http;
mod instance;
mod join;
pub mod json;
mod message;
mod plugin;
mod saga;
mod sha256;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
#[cfg(test)]
mod vectors;
mod whole;

pub use context::{Context, Level};
pub use error::{Error, Failure};
pub use escape::{escape_path, escape_segment};
pub use http::HttpResponse;
pub use join::{join, join_all, race, First};
pub use message::{
    Acked, Attempt, Config, ConflictPolicy, FailureKind, Header, HttpRequest, Manifest, Mode, Observation, Op, Request,
    Status, Tri, UpstreamRef, MAX_ADAPTER_STATE_BYTES,
};
pub use plugin::{Configured, Plugin};
pub use saga::{Image, SagaRun, MAX_IMAGE_BYTES};
pub use sha256::{hex, sha256};
pub use whole::{Changes, CompareItem, CompareLeaf, CompareNode, Comparison, Difference, Seen, MAX_SEEN};

/// What an adapter's functions return.
pub type Result<T, E = Error> = std::result::Result<T, E>;
