//! Decides what a refusal says of a change that may have been carried out.

use std::time::Duration;

use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use tokio::time::timeout;

use crate::body::Body;
use crate::error::Error;
use crate::error::facts::ErrorFacts;
use crate::error::origin::ErrorOrigin;
use crate::error::retry_after::RetryAfter;
use crate::protocol::operation::{Access, Lock, Operation};

pub(super) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The longest refusal of another gateway that is read, in bytes, and the longest time for that.
const REFUSAL: usize = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(5);

/// The words for a gateway that cannot reach the log itself.
pub(super) const LOST_CONTACT: &str = "this gateway has lost its contact to the batch log";

/// The reasons to think that a request was carried out already. A refusal must not read as the end of its batch then.
pub(super) struct Doubt {
    is_change: bool,
    /// The key by which a batch is found again.
    key: Option<HeaderValue>,
    /// True if the batch came with its key: the client may have sent it before.
    is_repeat: bool,
    /// The number of the copy of the log, once another gateway may have carried the change out with it, and has not
    /// answered.
    sent: Option<u64>,
}

impl Doubt {
    /// Returns the doubt about a request that has just come.
    pub(super) fn of(request: &Request<Body>, operation: Option<Operation>) -> Self {
        let is_batch = operation.is_some_and(|of| of.lock() == Lock::Batch);
        let key = request.headers().get(IDEMPOTENCY_KEY);
        let key = key.filter(|_| is_batch).cloned();
        Self {
            is_change: operation.is_none_or(|of| of.access() == Access::Write),
            is_repeat: key.is_some(),
            key,
            sent: None,
        }
    }

    /// Notes the key that a batch without one was given.
    pub(super) fn has_key(&mut self, key: HeaderValue) {
        self.key = Some(key);
    }

    /// True if the request is a batch that is found again by its key.
    pub(super) fn is_about_batch(&self) -> bool {
        self.key.is_some()
    }

    /// Notes that the request was sent, and not answered. `copy` is the number of the copy of the log before.
    pub(super) fn was_sent(&mut self, copy: u64) {
        if self.is_change {
            self.sent.get_or_insert(copy);
        }
    }

    /// Returns the refusal of the request. `words` say what is wrong, without a full stop.
    pub(super) fn refusal(&self, words: &str) -> Error {
        let key = self.key.as_ref().and_then(|key| key.to_str().ok());
        let learn =
            |key| format!("send it again with `Idempotency-Key: {key}` to learn how it ended");
        if self.sent.is_some() {
            // Without `Retry-After`: it is not safe to repeat a change at once.
            let more = match key {
                Some(key) => format!("The batch may have been carried out: {}", learn(key)),
                None => {
                    "The change may have been carried out: look before you repeat it".to_owned()
                }
            };
            return Error::unavailable(format!("{words}. {more}")).with_facts(ErrorFacts {
                undecided: true,
                ..ErrorFacts::default()
            });
        }
        match key {
            Some(key) if self.is_repeat => Error::unavailable(format!(
                "{words}. If this batch was sent before, it may have been carried out: {}",
                learn(key)
            ))
            .with_retry_after(RetryAfter::SOON),
            _ => Error::unavailable(format!("{words}; retry later"))
                .with_retry_after(RetryAfter::SOON),
        }
    }

    /// Returns the refusal of a gateway that does not know what batches do.
    pub(super) fn instead_of(&self, refusal: Error) -> Error {
        if self.is_repeat {
            self.refusal(LOST_CONTACT).of(refusal.origin())
        } else {
            refusal
        }
    }

    /// Returns the answer of the gateway with the batch log. Once the request was sent before, a refusal that says nothing
    /// of the first time does not count; one that a takeover has aborted the batch does. `copy` is the number of the copy of
    /// the log by now: another one may have forgotten the batch.
    pub(super) async fn judge(
        &self,
        answer: Result<Response<Body>, Error>,
        copy: u64,
    ) -> Result<Response<Body>, Error> {
        let (status, origin) = match &answer {
            Ok(response) => (response.status(), response.extensions().get().copied()),
            Err(error) if error.transaction().is_some() => return answer,
            Err(error) => (error.status(), Some(error.origin())),
        };
        let is_definite = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => {
                false
            }
            status => !status.is_server_error(),
        };
        let Some(sent) = self.sent.filter(|_| origin != Some(ErrorOrigin::Takeover)) else {
            return answer;
        };
        let may_be_forgotten = sent != copy && self.is_about_batch();
        if status.is_success() || (is_definite && !may_be_forgotten) {
            return answer;
        }
        let number = status.as_u16();
        let said = match words(answer).await {
            words if words.is_empty() => number.to_string(),
            words => format!("{number} ({words})"),
        };
        if !is_definite {
            return Err(self.refusal(&format!(
                "the request was sent again to the gateway with the batch log, which answered {said}"
            )));
        }
        let words = format!(
            "the batch was sent again to the gateway with the batch log, which answered {said}. The log was restarted, or \
             replaced by another copy, in between, and may have forgotten the first time. The batch may have been carried out: \
             look at its tables before you repeat it"
        );
        Err(Error::unavailable(words).with_facts(ErrorFacts {
            undecided: true,
            forgotten: true,
            ..ErrorFacts::default()
        }))
    }
}

/// Returns the words of a refusal; none if it is long or slow.
async fn words(answer: Result<Response<Body>, Error>) -> String {
    let body = match answer {
        Ok(response) => response.into_body().collect_up_to(REFUSAL),
        Err(error) => return error.message().to_owned(),
    };
    let Ok(Ok(body)) = timeout(PATIENCE, body).await else {
        return String::new();
    };
    let said: serde_json::Value = serde_json::from_slice(&body).unwrap_or_default();
    said["error"].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use super::*;

    fn batch(key: Option<&'static str>) -> Doubt {
        let mut request = Request::new(Body::empty());
        if let Some(key) = key {
            let key = HeaderValue::from_static(key);
            request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        }
        Doubt::of(&request, Some(Operation::BatchCreateTableVersions))
    }

    fn answered(status: StatusCode) -> Result<Response<Body>, Error> {
        let mut response = Response::new(Body::full(r#"{"error":"no","code":14}"#));
        *response.status_mut() = status;
        Ok(response)
    }

    #[test]
    fn a_batch_that_was_never_sent_is_refused_for_good() {
        let refusal = batch(None).refusal("no gateway has it");
        assert_eq!(refusal.message(), "no gateway has it; retry later");
        assert_eq!(refusal.retry_after(), Some(RetryAfter::SOON));
    }

    /// Otherwise the gateway that passed it on would not ask the next owner.
    #[test]
    fn a_refusal_because_of_the_log_stays_one_whatever_its_words() {
        let lost = Error::unavailable("lost").of(ErrorOrigin::BatchLog);
        let refusal = batch(Some("k")).instead_of(lost);
        assert_eq!(refusal.origin(), ErrorOrigin::BatchLog);
    }

    #[test]
    fn whoever_repeats_a_batch_is_told_that_it_may_have_been_carried_out() {
        let refusal = batch(Some("k")).refusal("no gateway has it");
        let words = "If this batch was sent before, it may have been carried out: send it again with `Idempotency-Key: k`";
        assert!(refusal.message().contains(words), "{refusal}");
    }

    #[tokio::test]
    async fn a_refusal_of_a_batch_that_was_sent_again_is_not_its_end() {
        let mut doubt = batch(None);
        doubt.has_key(HeaderValue::from_static("nsgate-1"));
        let (refused, decided) = ([401, 403, 429, 500, 503], [200, 400, 404, 409]);
        let status = |number| StatusCode::from_u16(number).unwrap();
        for number in refused {
            assert!(
                doubt.judge(answered(status(number)), 7).await.is_ok(),
                "{number}"
            );
        }
        doubt.was_sent(7);
        for number in refused {
            let refusal = doubt.judge(answered(status(number)), 7).await.unwrap_err();
            let words = format!(
                "which answered {number} (no). The batch may have been carried out: send it again with `Idempotency-Key: nsgate-1`"
            );
            assert!(refusal.message().contains(&words), "{refusal}");
            assert!(refusal.facts().unwrap().undecided, "{refusal}");
        }
        for number in decided {
            assert!(
                doubt.judge(answered(status(number)), 7).await.is_ok(),
                "{number}"
            );
        }
        let undone = Error::unavailable("the gateway stopped").of(ErrorOrigin::Takeover);
        let answer = doubt.judge(Err(undone), 7).await.unwrap_err();
        assert_eq!(answer.message(), "the gateway stopped");
        let known = Error::unavailable("it is not over").with_transaction("7");
        let answer = doubt.judge(Err(known), 7).await.unwrap_err();
        assert_eq!(answer.transaction(), Some("7"));
    }

    /// The new owner does not find the batch in its log then, carries it out again, and meets its versions.
    #[tokio::test]
    async fn a_conflict_by_another_copy_of_the_log_is_not_the_end_of_a_batch() {
        let mut doubt = batch(Some("k"));
        assert!(doubt.judge(answered(StatusCode::CONFLICT), 8).await.is_ok());
        doubt.was_sent(7);
        doubt.was_sent(8);
        let judged = async |status, copy| doubt.judge(answered(status), copy).await;
        assert!(judged(StatusCode::CONFLICT, 7).await.is_ok());
        assert!(judged(StatusCode::OK, 8).await.is_ok());
        let refusal = judged(StatusCode::CONFLICT, 8).await.unwrap_err();
        let words = "which answered 409 (no). The log was restarted, or replaced by another copy, in between";
        assert!(refusal.message().contains(words), "{refusal}");
        let facts = refusal.facts().unwrap();
        assert!(facts.undecided && facts.forgotten, "{refusal}");
        assert_eq!(refusal.retry_after(), None);
    }

    #[tokio::test]
    async fn a_read_is_never_in_doubt() {
        let request = Request::new(Body::empty());
        let mut doubt = Doubt::of(&request, Some(Operation::DescribeTable));
        doubt.was_sent(7);
        let answer = doubt
            .judge(answered(StatusCode::SERVICE_UNAVAILABLE), 7)
            .await;
        assert!(answer.is_ok());
    }
}
