//! Sends the gateway's own requests to a catalog, over the same connections as callers' requests, and limits the size
//! of their answers.

use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt as _;
use http::header::{ACCEPT, ACCEPT_ENCODING, CONTENT_TYPE};
use http::uri::PathAndQuery;
use http::{HeaderValue, Method, Request};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::time::Instant;

use super::{AnswerStream, Failure, InternalRequest, Kind};
use crate::body::{Body, Collect, CollectError};
use crate::error::BoxError;
use crate::protocol::data_scope::DataScope;
use crate::protocol::identifier::Identifier;
use crate::request::context::RequestContext;

/// The largest answer that is read, in bytes.
const ANSWER_LIMIT: usize = 64 << 20;

const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Kind {
    /// Sends the request, see [`super::Backend::open_answer`]. The time limit covers the whole answer.
    pub(super) async fn open_answer(
        &self,
        deadline: Instant,
        ask: InternalRequest,
        scope: &DataScope,
    ) -> Result<AnswerStream<'static>, Failure> {
        let mut request = ask.into_request().map_err(Failure::NotSent)?;
        scope.select_in(request.headers_mut());
        let response = self.pass(deadline, &mut request).await?;
        Ok(AnswerStream::new(response, deadline))
    }
}

/// Reads an answer's body, 64 MiB at most, within `limit`.
pub async fn read_answer(body: Body, limit: Duration) -> Result<Bytes, Failure> {
    match AnswerReader::begin(body) {
        Ok(read) => read,
        Err(reading) => Box::pin(reading.finish(limit)).await,
    }
}

/// An answer's body that has not arrived completely.
pub struct AnswerReader(Collect);

impl AnswerReader {
    /// Reads a body that has arrived completely, 64 MiB at most. `Err` holds a body that is still
    /// arriving.
    pub fn begin(body: Body) -> Result<Result<Bytes, Failure>, Box<Self>> {
        let mut all = body.collect_up_to(ANSWER_LIMIT);
        match (&mut all).now_or_never() {
            Some(read) => Ok(outcome(read)),
            None => Err(Box::new(Self(all))),
        }
    }

    /// Reads the rest within `limit`.
    pub async fn finish(self, limit: Duration) -> Result<Bytes, Failure> {
        let read = tokio::time::timeout(limit, self.0).await;
        read.map_or(Err(Failure::TimedOut), outcome)
    }
}

fn outcome(read: Result<Bytes, CollectError>) -> Result<Bytes, Failure> {
    read.map_err(|why| match why {
        CollectError::TooLarge => Failure::TooLarge,
        CollectError::Broken(cause) => Failure::Lost(cause),
    })
}

impl InternalRequest {
    /// Converts it into the form of a caller's request, as [`super::Backend::send`] expects it.
    ///
    /// # Errors
    ///
    /// The gateway does not send this operation itself, or the path cannot be spelled.
    pub fn into_request(self) -> Result<Request<Body>, BoxError> {
        let path = path(&self)?;
        let method = self.operation.method().unwrap_or(&Method::POST).clone();
        let has_body = self.body.is_some();
        let mut request = Request::new(self.body.map_or_else(Body::empty, Body::full));
        *request.method_mut() = method;
        *request.uri_mut() = path.into();
        let headers = request.headers_mut();
        headers.insert(ACCEPT, JSON);
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        if has_body {
            headers.insert(CONTENT_TYPE, JSON);
        }
        self.origin.label(headers);
        let extensions = request.extensions_mut();
        extensions.insert(self.origin);
        extensions.insert(self.authority);
        extensions.insert(RequestContext {
            operation: Some(self.operation),
            identifier: Some(self.identifier),
            context: Some(self.context),
            ..RequestContext::default()
        });
        Ok(request)
    }
}

fn path(ask: &InternalRequest) -> Result<PathAndQuery, BoxError> {
    let (collection, tail) = ask
        .operation
        .route()
        .filter(|(_, tail)| !tail.contains('{'))
        .ok_or("an operation that the gateway does not ask for itself")?;
    let delimiter = Identifier::delimiter_for(&[&ask.identifier]);
    let mut path = format!("/v1/{collection}");
    if ask.operation.kind().is_some() {
        path.push('/');
        path.push_str(&ask.identifier.to_segment(&delimiter)?);
    }
    if !tail.is_empty() {
        path.push('/');
        path.push_str(tail);
    }
    // If the path names nothing, the request may choose how the answer spells names.
    let says = ask.query.iter().any(|(name, _)| *name == "delimiter");
    let ours = (!says).then_some(("delimiter", delimiter));
    for (place, (name, value)) in ours.iter().chain(&ask.query).enumerate() {
        path.push(if place == 0 { '?' } else { '&' });
        path.push_str(name);
        path.push('=');
        path.extend(utf8_percent_encode(value, NON_ALPHANUMERIC));
    }
    Ok(PathAndQuery::try_from(path)?)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::backend::Authority;
    use crate::protocol::context::Context;
    use crate::protocol::operation::Operation;
    use crate::request::origin::Origin;

    #[test]
    fn a_question_is_spelled_as_the_contract_has_it() {
        type Pairs = &'static [(&'static str, &'static str)];
        let cases: [(Operation, &[&str], Pairs, &str); 5] = [
            (
                Operation::DescribeTableVersion,
                &["prod", "t 1"],
                &[],
                "/v1/table/prod%24t%201/version/describe?delimiter=%24",
            ),
            (
                Operation::ListTables,
                &[],
                &[("limit", "5"), ("page_token", "a&b")],
                "/v1/namespace/%24/table/list?delimiter=%24&limit=5&page_token=a%26b",
            ),
            (
                Operation::ListAllTables,
                &[],
                &[],
                "/v1/table?delimiter=%24",
            ),
            (
                Operation::ListAllTables,
                &[],
                &[("limit", "5"), ("delimiter", ".")],
                "/v1/table?limit=5&delimiter=%2E",
            ),
            (
                Operation::BatchCreateTableVersions,
                &[],
                &[],
                "/v1/table/version/batch-create?delimiter=%24",
            ),
        ];
        for (operation, names, query, expected) in cases {
            let ask = InternalRequest {
                operation,
                identifier: Identifier::from_names(names).unwrap(),
                query: query.iter().map(|(k, v)| (*k, (*v).to_owned())).collect(),
                body: None,
                authority: Authority::Service,
                context: Context::default(),
                origin: Origin::default(),
                timeout: None,
            };
            assert_eq!(path(&ask).unwrap(), expected);
        }
    }

    #[test]
    fn a_name_with_the_delimiter_gets_another_one() {
        let ask = InternalRequest {
            operation: Operation::DescribeTable,
            identifier: Identifier::from_names(["a$b", "t"]).unwrap(),
            query: Vec::new(),
            body: None,
            authority: Authority::Service,
            context: Context::default(),
            origin: Origin::default(),
            timeout: None,
        };
        let path = path(&ask).unwrap();
        let (segment, delimiter) = path
            .as_str()
            .strip_prefix("/v1/table/")
            .and_then(|rest| rest.split_once("/describe?delimiter="))
            .unwrap();
        let delimiter = percent_encoding::percent_decode_str(delimiter)
            .decode_utf8()
            .unwrap();
        let read = Identifier::parse_segment(segment, &delimiter).unwrap();
        assert_eq!(read, ask.identifier);
    }
}
