//! A catalog's answer on its way to the client: as it is, or with identifiers as the client spells them.

use std::time::Duration;

use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, Response};

use crate::backend::{self, Backend, Failure};
use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;
use crate::protocol::rewrite;
use crate::route::Mount;

/// What must be done to an answer.
pub(super) struct Change<'a> {
    pub(super) operation: Operation,
    /// The route's identifier as the client spells it.
    pub(super) asked: &'a Identifier,
    pub(super) mount: &'a Mount,
    pub(super) backend: &'a Backend,
}

impl Change<'_> {
    /// Whether answers to this may have to be changed at all.
    pub(super) fn is_needed(&self) -> bool {
        self.respells() || self.manages()
    }

    fn respells(&self) -> bool {
        !self.mount.keeps_path() && !self.operation.response_id_fields().is_empty()
    }

    fn manages(&self) -> bool {
        let tells = matches!(
            self.operation,
            Operation::DescribeTable | Operation::DeclareTable
        );
        tells && self.backend.sets_managed_versioning()
    }

    /// Changes a successful JSON answer; others pass as they are.
    pub(super) async fn apply(
        &self,
        response: Response<Body>,
        timeout: Duration,
    ) -> Result<Response<Body>, Error> {
        if !response.status().is_success() || !says_json(response.headers()) {
            return Ok(response);
        }
        let fail = |failure: Failure| failure.into_error(self.backend.name());
        if is_encoded(response.headers()) {
            return Err(fail(Failure::Lost(
                "an encoded answer, although identity was asked for".into(),
            )));
        }
        let (mut head, body) = response.into_parts();
        let body = backend::read_answer(body, timeout).await.map_err(fail)?;
        let body = rewrite::response(
            self.operation,
            self.asked,
            &body,
            |there| self.mount.to_client(there),
            self.manages(),
        );
        head.headers.remove(TRANSFER_ENCODING);
        head.headers.insert(CONTENT_LENGTH, body.len().into());
        Ok(Response::from_parts(head, Body::full(body)))
    }
}

fn says_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    content_type.is_some_and(|value| value.to_str().is_ok_and(is_json))
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let encoding = headers.get(CONTENT_ENCODING);
    encoding.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// Whether a content type says JSON: `application/json`, or any type with the suffix `+json` (RFC 6839).
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let Some((_, subtype)) = essence.split_once('/') else {
        return false;
    };
    let subtype = subtype.to_ascii_lowercase();
    subtype == "json" || subtype.ends_with("+json")
}
