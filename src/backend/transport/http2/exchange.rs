//! One request and its answer's headers as a stream of an HTTP/2 connection.

use std::future::poll_fn;
use std::mem::take;
use std::pin::Pin;
use std::task::Poll;

use h2::client::ResponseFuture;
use h2::{Reason, RecvStream};
use http::header::HOST;
use http::uri::{PathAndQuery, Uri};
use http::{Request, Response, Version};
use http_body::Body as _;

use super::Http2Pool;
use super::request_body::SendBody;
use super::response_body::RecvBody;
use super::session::StreamPermit;
use crate::backend::transport::request_copy::RequestCopy;
use crate::body::Body;
use crate::error::BoxError;

/// The reason why an exchange gave no response.
pub(super) enum StreamError {
    /// The catalog has not acted and will not; the request is unchanged.
    Unsent(BoxError),
    /// The catalog has not acted and will not, but parts of the request are gone.
    Refused(BoxError),
    /// The catalog may have acted.
    Lost(BoxError),
}

/// Sends `request` and waits for the response's headers. Dropping it earlier resets the stream.
pub(super) async fn exchange(
    pool: &Http2Pool,
    slot: StreamPermit,
    request: &mut Request<Body>,
) -> Result<Response<RecvBody>, StreamError> {
    let sender = slot.sender().ready().await;
    let mut sender = sender.map_err(|error| StreamError::Unsent(error.into()))?;
    let spare = RequestCopy::of(request);
    let (head, body) = addressed(pool, take(request));
    let (answer, stream) = match sender.send_request(head, body.is_end_stream()) {
        Ok(opened) => opened,
        Err(error) => return Err(unsent(spare, request, error)),
    };
    drop(sender);
    let mut sending = (!body.is_end_stream()).then(|| SendBody::new(body, stream));
    let response = match answered(answer, &mut sending).await {
        Ok(response) => response,
        Err(StreamEnd::Stream(error)) if is_unprocessed(&error) => {
            return Err(unsent(spare, request, error));
        }
        Err(StreamEnd::Stream(error)) => return Err(StreamError::Lost(error.into())),
        Err(StreamEnd::Body(error)) => return Err(StreamError::Lost(error)),
    };
    let (mut head, stream) = response.into_parts();
    head.version = Version::HTTP_11;
    let body = RecvBody::new(stream, &head.headers, sending.map(Box::new), slot);
    Ok(Response::from_parts(head, body))
}

/// Restores the request from `spare`, if there is one.
fn unsent(
    spare: Option<RequestCopy>,
    request: &mut Request<Body>,
    error: h2::Error,
) -> StreamError {
    let Some(spare) = spare else {
        return StreamError::Refused(error.into());
    };
    spare.restore(request);
    StreamError::Unsent(error.into())
}

/// True if the catalog says that it did not process the request: it refused the stream, or is going away and names an
/// earlier stream as its last (RFC 9113, section 8.7). A connection that just ends does not say that.
fn is_unprocessed(error: &h2::Error) -> bool {
    error.is_remote()
        && (error.is_go_away()
            || (error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM)))
}

/// Converts the request to HTTP/2: `:scheme` and `:authority` instead of `host`.
fn addressed(pool: &Http2Pool, request: Request<Body>) -> (Request<()>, Body) {
    let (mut head, body) = request.into_parts();
    let mut uri = take(&mut head.uri).into_parts();
    uri.scheme = Some(pool.scheme.clone());
    uri.authority = Some(pool.authority.clone());
    let path = uri.path_and_query.take();
    uri.path_and_query = Some(path.unwrap_or(PathAndQuery::from_static("/")));
    head.uri = Uri::from_parts(uri).unwrap_or_default();
    head.version = Version::HTTP_2;
    head.headers.remove(HOST);
    (Request::from_parts(head, ()), body)
}

enum StreamEnd {
    Stream(h2::Error),
    Body(BoxError),
}

/// Waits for the answer's headers, while the body is sent.
async fn answered(
    mut answer: ResponseFuture,
    sending: &mut Option<SendBody>,
) -> Result<Response<RecvStream>, StreamEnd> {
    poll_fn(|cx| {
        if let Some(body) = sending
            && let Poll::Ready(sent) = body.poll(cx)
        {
            *sending = None;
            if let Err(error) = sent {
                return Poll::Ready(Err(StreamEnd::Body(error)));
            }
        }
        Pin::new(&mut answer).poll(cx).map_err(StreamEnd::Stream)
    })
    .await
}
