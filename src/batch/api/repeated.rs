//! Requests that repeat a batch which the present configuration would refuse.

use http::Response;

use super::{BatchCall, Caller, unknown, withdrawn};
use crate::batch::Batches;
use crate::batch::api::outcomes::{Admission, Fingerprint, RequestKey};
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
