//! Requests that repeat a batch which the present configuration would refuse.

use http::Response;

use super::{BatchCall, Caller, withdrawn};
use crate::batch::api::outcomes::{Admission, Fingerprint, RequestKey};
use crate::batch::{Batches, unread};
use crate::body::Body;
use crate::error::Error;

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
        match self.outcomes.known(&request).await.map_err(unread)? {
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
