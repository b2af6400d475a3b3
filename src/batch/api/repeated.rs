//! Requests that repeat a batch: those that the present configuration would refuse, and the answers to a key that does not
//! lead to its batch.

use http::{Response, StatusCode};

use super::{BatchCall, Caller};
use crate::batch::api::outcomes::{Admission, Fingerprint, RequestKey};
use crate::batch::log::LogError;
use crate::batch::{Batches, busy, unread};
use crate::body::Body;
use crate::error::Error;
use crate::error::origin::ErrorOrigin;

impl Batches {
    /// Returns the answer to a request that cannot be carried out any more because of `error`: that of its batch, if it
    /// was carried out before. The configuration may be another one by now.
    pub(super) async fn repeated(
        &self,
        call: &BatchCall,
        fingerprint: Fingerprint,
        error: Error,
    ) -> Result<Response<Body>, Error> {
        let Caller {
            name,
            idempotency_key,
            origin,
            ..
        } = &call.caller;
        let request = RequestKey::new(name, idempotency_key.as_deref(), fingerprint);
        let known = self.outcomes.known(&request).await;
        match known.map_err(|error| unknown(error, idempotency_key.as_deref()))? {
            Some(Admission::Join(outcome)) => {
                origin.began(&outcome.id);
                origin.repeats();
                call.form.answer(&call.operations, &outcome).await
            }
            Some(Admission::Withdrawn) => Err(withdrawn()),
            _ => Err(error),
        }
    }
}

/// Returns the answer to a request whose key cannot be looked up. It may be repeating a batch that was carried out.
pub(super) fn unknown(error: LogError, key: Option<&str>) -> Error {
    match key {
        Some(key) if matches!(error, LogError::Away { .. }) => busy(&format!(
            "the batch log does not answer. If this batch was sent before, it may have been carried out: \
             send it again with `Idempotency-Key: {key}` to learn how it ended"
        ))
        .of(ErrorOrigin::BatchLog),
        _ => unread(error),
    }
}

/// Returns the answer to a key that was used before with other entries.
pub(super) fn different() -> Error {
    let message = "this Idempotency-Key was used before, with other entries or context";
    Error::invalid(message).with_status(StatusCode::UNPROCESSABLE_ENTITY)
}

/// Returns the answer to a key whose batch is being taken out of the log.
pub(super) fn withdrawn() -> Error {
    let message = "the batch with this Idempotency-Key was refused, and is not out of the batch log yet; retry later";
    busy(message).of(ErrorOrigin::BatchLog)
}
