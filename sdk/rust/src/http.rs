//! What a target answered, and what it means to the engine.

use std::time::Duration;

use crate::error::{Error, Failure};
use crate::message::{FailureKind, Header, HttpAnswer};
use crate::Result;

/// The target's answer, whole. 400 and 500 are answers too.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HttpResponse {
    /// The status code.
    pub status: u32,
    /// The headers, in the order in which they came.
    pub headers: Vec<Header>,
    /// The body, decoded by nobody.
    pub body: Vec<u8>,
    /// What came after the body.
    pub trailers: Vec<Header>,
}

impl HttpResponse {
    /// An answer without headers and body; for tests.
    pub fn new(status: u32) -> HttpResponse {
        HttpResponse { status, ..HttpResponse::default() }
    }

    /// The value of the first header of that name, whatever its case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|h| h.name.eq_ignore_ascii_case(name)).map(|h| h.value.as_str())
    }

    /// Self for a status of 200 to 299, else what most targets mean by theirs:
    ///
    /// | status | error |
    /// |---|---|
    /// | 404, 410 | not found |
    /// | 409, 412 | conflict |
    /// | 401, 403 | unauthorized |
    /// | 408, 425, 429, 500 and above | retry, after what Retry-After says in seconds; with 429 and 503 that holds for the whole target |
    /// | any other, redirects too | rejected |
    ///
    /// The message names the status and nothing of the body, which may repeat
    /// values of the payload.
    pub fn success(self) -> Result<HttpResponse> {
        if (200..300).contains(&self.status) {
            return Ok(self);
        }
        let message = format!("the target answered {}", self.status);
        Err(match self.status {
            404 | 410 => Error::not_found(message),
            409 | 412 => Error::conflict(message),
            401 | 403 => Error::unauthorized(message),
            300..=399 => Error::rejected(message + "; a redirect is never a confirmation: give the upstream the address that it leads to"),
            408 | 425 | 429 | 500..=u32::MAX | 0..=199 => match self.retry_after() {
                Some(wait) if self.status == 429 || self.status == 503 => Error::target_retry_after(wait, message),
                Some(wait) => Error::retry_after(wait, message),
                None => Error::retry(message),
            },
            _ => Error::rejected(message),
        })
    }

    fn retry_after(&self) -> Option<Duration> {
        let seconds: u32 = self.header("retry-after")?.parse().ok()?;
        Some(Duration::from_secs(seconds.into()))
    }
}

impl HttpAnswer {
    pub(crate) fn split(self, upstream: &str) -> Result<HttpResponse, Failure> {
        if self.failure != FailureKind::None {
            return Err(Failure {
                kind: self.failure,
                upstream: upstream.to_owned(),
                message: self.failure_message,
                maybe_sent: self.maybe_sent,
            });
        }
        Ok(HttpResponse { status: self.status, headers: self.headers, body: self.body, trailers: self.trailers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Status;

    #[test]
    fn a_status_means_what_most_targets_mean_by_it() {
        for (code, want) in [
            (204, Status::Ok),
            (302, Status::Rejected),
            (400, Status::Rejected),
            (401, Status::Unauthorized),
            (403, Status::Unauthorized),
            (404, Status::NotFound),
            (409, Status::Conflict),
            (410, Status::NotFound),
            (412, Status::Conflict),
            (418, Status::Rejected),
            (429, Status::Retry),
            (503, Status::Retry),
        ] {
            let got = HttpResponse::new(code).success().map_or_else(|e| e.status, |_| Status::Ok);
            assert_eq!(got, want, "{}", code);
        }
    }

    #[test]
    fn retry_after_speaks_for_the_target_where_it_is_overloaded() {
        let answer = |status| HttpResponse {
            headers: vec![Header { name: "Retry-After".into(), value: "7".into() }],
            ..HttpResponse::new(status)
        };
        let busy = answer(429).success().unwrap_err();
        assert_eq!((busy.retry_after, busy.whole_target), (Duration::from_secs(7), true));
        let broken = answer(500).success().unwrap_err();
        assert_eq!((broken.retry_after, broken.whole_target), (Duration::from_secs(7), false));
    }
}
