//! A catalog's answer on its way to the client: unchanged, or with identifiers in the client's spelling.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, TRANSFER_ENCODING};
use http::response::Parts;
use http::{HeaderMap, Response, StatusCode};
use http_body::Body as _;

use crate::backend::{AnswerReader, Backend, Failure};
use crate::body::{Body, KeepAliveBody};
use crate::error::Error;
use crate::gateway::request_body;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Access, Operation};
use crate::protocol::rewrite;
use crate::request::caller::KnownCaller;
use crate::request::held::{CountedBody, HeldBodies, HeldBody, SHORT};
use crate::route::Mount;

/// An answer that is changed, or one whose body is still arriving.
pub(super) enum RewrittenBody {
    Whole(Response<Body>),
    Partly(Parts, Box<ArrivingBody>),
}

/// A body that is still arriving, and the memory that it takes.
pub(super) struct ArrivingBody {
    reading: AnswerReader,
    held: Option<Arc<HeldBody>>,
}

/// The change that an answer needs.
pub(super) struct BodyChange<'a> {
    pub(super) operation: Operation,
    /// The route's identifier as the client spells it.
    pub(super) asked: &'a Identifier,
    /// The identifier as the catalog spells it.
    pub(super) there: &'a Identifier,
    /// True if client and catalog spell identifiers alike.
    pub(super) keeps_path: bool,
    /// True if the answer must not hold the keys of the table's storage.
    pub(super) lacks_credentials: bool,
    pub(super) mount: &'a Mount,
    pub(super) backend: &'a Backend,
    /// The memory of bodies that are held.
    pub(super) held: &'a Arc<HeldBodies>,
}

impl BodyChange<'_> {
    /// True if answers to this request may have to be changed.
    pub(super) fn is_needed(&self) -> bool {
        self.respells() || self.manages() || self.lacks_credentials
    }

    fn respells(&self) -> bool {
        !self.keeps_path && !self.operation.response_id_fields().is_empty()
    }

    fn manages(&self) -> bool {
        let tells = matches!(
            self.operation,
            Operation::DescribeTable | Operation::DeclareTable
        );
        tells && self.backend.sets_managed_versioning()
    }

    /// Changes a successful JSON answer; returns others unchanged. Most answers arrive whole with their heads; only
    /// the others need a timer and a buffer. One that may be long counts as a body of `caller`, until its client has
    /// read it.
    pub(super) fn apply(
        &self,
        response: Response<Body>,
        caller: Option<KnownCaller>,
    ) -> Result<RewrittenBody, Error> {
        if !response.status().is_success()
            || !(self.lacks_credentials || says_json(response.headers()))
        {
            return Ok(RewrittenBody::Whole(response));
        }
        if is_encoded(response.headers()) {
            return Err(self.fail(Failure::Lost(
                "a compressed answer, although an uncompressed one was requested".into(),
            )));
        }
        let (head, mut body) = response.into_parts();
        let is_short = body.size_hint().upper().is_some_and(|most| most <= SHORT);
        let caller = caller.filter(|_| !is_short);
        let held = caller.map(|known| Arc::new(self.held.hold(&known.caller())));
        if let Some(held) = &held {
            body = Body::stream(CountedBody::new(body, Arc::clone(held)));
        }
        Ok(match AnswerReader::begin(body) {
            Ok(read) => RewrittenBody::Whole(self.change(head, &self.read(read)?, held)?),
            Err(reading) => {
                let reading = *reading;
                RewrittenBody::Partly(head, Box::new(ArrivingBody { reading, held }))
            }
        })
    }

    /// Changes an answer whose body is still arriving, as [`apply`](Self::apply) does; waits at most `timeout` for
    /// it.
    pub(super) async fn finish(
        &self,
        head: Parts,
        ArrivingBody { reading, held }: ArrivingBody,
        timeout: Duration,
    ) -> Result<Response<Body>, Error> {
        let body = self.read(reading.finish(timeout).await)?;
        self.change(head, &body, held)
    }

    fn change(
        &self,
        mut head: Parts,
        body: &Bytes,
        held: Option<Arc<HeldBody>>,
    ) -> Result<Response<Body>, Error> {
        let answered = rewrite::ResponseRoute {
            operation: self.operation,
            asked: self.asked,
            there: self.there,
        };
        let to_client = |there: &Identifier| self.mount.to_client(there);
        let changes = rewrite::Changes {
            manages_versions: self.manages(),
            lacks_credentials: self.lacks_credentials,
        };
        let body = rewrite::response(answered, body, to_client, changes);
        let body = body.map_err(|cause| {
            let name = self.backend.name();
            let message = format!("backend `{name}` sent a description of the table that cannot be read, so it may hold what is not for this caller");
            Error::unavailable(message).with_status(StatusCode::BAD_GATEWAY).with_cause(cause)
        })?;
        // The HTTP server sets the length of the new body.
        head.headers.remove(CONTENT_LENGTH);
        head.headers.remove(TRANSFER_ENCODING);
        let body = Body::full(body);
        let body = match held {
            None => body,
            Some(held) => Body::stream(KeepAliveBody::new(body, held)),
        };
        Ok(Response::from_parts(head, body))
    }

    fn read(&self, read: Result<Bytes, Failure>) -> Result<Bytes, Error> {
        read.map_err(|failure| self.fail(failure))
    }

    fn fail(&self, failure: Failure) -> Error {
        // A change is done by now, so it is not to be sent again.
        if let Failure::Lost(cause) = &failure
            && let Some(full) = cause.downcast_ref()
            && self.operation.access() == Access::Read
        {
            return request_body::no_room(*full);
        }
        failure.into_error(self.backend.name())
    }
}

fn says_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE);
    content_type
        .is_some_and(|value| value == "application/json" || value.to_str().is_ok_and(is_json))
}

fn is_encoded(headers: &HeaderMap) -> bool {
    let encoding = headers.get(CONTENT_ENCODING);
    encoding.is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

/// True if a content type says JSON: `application/json`, or any type with the suffix `+json` (RFC 6839).
fn is_json(content_type: &str) -> bool {
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    let Some((_, subtype)) = essence.split_once('/') else {
        return false;
    };
    let subtype = subtype.to_ascii_lowercase();
    subtype == "json" || subtype.ends_with("+json")
}
