//! Outcomes other than success.

use std::fmt;
use std::time::Duration;

use crate::message::{FailureKind, Status};

/// An outcome other than success, with its reason. The functions below make
/// them; [`Failure`] and [`json::Error`](crate::json::Error) turn into one by `?`.
#[derive(Clone, Debug, PartialEq)]
pub struct Error {
    /// How the call ended.
    pub status: Status,
    /// For people: what is wrong and what to do; never values of the payload,
    /// since it is logged and kept.
    pub message: String,
    /// What the target asked to wait; zero: nothing. Sent in whole milliseconds, rounded up.
    pub retry_after: Duration,
    /// `retry_after` speaks for the whole target, not for this object alone.
    pub whole_target: bool,
}

impl Error {
    /// An error of that status.
    pub fn new(status: Status, message: impl Into<String>) -> Error {
        Error { status, message: message.into(), retry_after: Duration::ZERO, whole_target: false }
    }

    /// The object does not exist; to a delete that is success.
    pub fn not_found(message: impl Into<String>) -> Error {
        Error::new(Status::NotFound, message)
    }

    /// A create met an object.
    pub fn already_exists(message: impl Into<String>) -> Error {
        Error::new(Status::AlreadyExists, message)
    }

    /// A precondition failed: the engine looks at the target, then decides by policy.
    pub fn conflict(message: impl Into<String>) -> Error {
        Error::new(Status::Conflict, message)
    }

    /// The target refuses this content for good: the resource fails until its content changes.
    pub fn rejected(message: impl Into<String>) -> Error {
        Error::new(Status::Rejected, message)
    }

    /// The target holds something newer than this generation: the engine leaves it alone.
    pub fn obsolete(message: impl Into<String>) -> Error {
        Error::new(Status::Obsolete, message)
    }

    /// The object is being deleted: the engine looks again until it is gone.
    pub fn in_progress(message: impl Into<String>) -> Error {
        Error::new(Status::InProgress, message)
    }

    /// The upstream's credentials were refused: the engine stops calling the target, and says so loudly.
    pub fn unauthorized(message: impl Into<String>) -> Error {
        Error::new(Status::Unauthorized, message)
    }

    /// The target can't now: the engine backs off.
    pub fn retry(message: impl Into<String>) -> Error {
        Error::new(Status::Retry, message)
    }

    /// [`retry`](Error::retry), with the time that the target asked to wait for this object.
    pub fn retry_after(wait: Duration, message: impl Into<String>) -> Error {
        Error { retry_after: wait, ..Error::retry(message) }
    }

    /// [`retry_after`](Error::retry_after) for the target as a whole: the sink pauses.
    pub fn target_retry_after(wait: Duration, message: impl Into<String>) -> Error {
        Error { whole_target: true, ..Error::retry_after(wait, message) }
    }

    /// The target gave no answer.
    pub fn unreachable(message: impl Into<String>) -> Error {
        Error::new(Status::Unreachable, message)
    }

    /// The same error, with what was being done before its message.
    pub fn context(mut self, doing: &str) -> Error {
        self.message = format!("{}: {}", doing, self.message);
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.status, self.message)
    }
}

impl std::error::Error for Error {}

/// A request that got no answer. As an [`Error`] it is `Unreachable`, but for
/// `Denied` (`Rejected`) and `TooLarge` (`Retry`: the target did answer).
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Why.
    pub kind: FailureKind,
    /// The upstream that the request was for.
    pub upstream: String,
    /// For people.
    pub message: String,
    /// The target may have seen the request.
    pub maybe_sent: bool,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            FailureKind::None => "no answer",
            FailureKind::Dns => "name lookup failed",
            FailureKind::Connect => "connection failed",
            FailureKind::Tls => "TLS failed",
            FailureKind::Timeout => "timed out",
            FailureKind::Denied => "refused by the host",
            FailureKind::TooLarge => "response too large",
            FailureKind::Cancelled => "cancelled",
            FailureKind::Protocol => "protocol error",
        };
        write!(f, "upstream {:?}: {}", self.upstream, kind)?;
        if !self.message.is_empty() {
            write!(f, ": {}", self.message)?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for Error {
    fn from(f: Failure) -> Error {
        let status = match f.kind {
            FailureKind::Denied => Status::Rejected,
            FailureKind::TooLarge => Status::Retry,
            _ => Status::Unreachable,
        };
        Error::new(status, f.to_string())
    }
}
