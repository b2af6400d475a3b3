//! Answers of catalogs whose bodies come in pieces.

use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use http::{Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::time::Instant;

use crate::backend::AnswerStream;
use crate::body::Body;
use crate::error::BoxError;

/// Returns an answer whose body comes in pieces of 50 bytes.
pub(super) fn answered(status: u16, body: String) -> AnswerStream<'static> {
    let body = Bytes::from(body);
    let starts = (0..body.len()).step_by(50);
    let pieces = starts.map(move |start| body.slice(start..body.len().min(start + 50)));
    let mut answer = streamed(pieces);
    answer.status = StatusCode::from_u16(status).unwrap();
    answer
}

/// Returns an answer of these pieces, which are made when they are read.
pub(super) fn streamed(
    pieces: impl Iterator<Item = Bytes> + Send + Sync + 'static,
) -> AnswerStream<'static> {
    open(stream::iter(pieces))
}

/// Returns an answer of these pieces as they come.
pub(super) fn open(
    pieces: impl Stream<Item = Bytes> + Send + Sync + 'static,
) -> AnswerStream<'static> {
    let frames = pieces.map(|piece| Ok::<_, BoxError>(Frame::data(piece)));
    let deadline = Instant::now() + Duration::from_secs(3600);
    AnswerStream::new(
        Response::new(Body::stream(StreamBody::new(frames))),
        deadline,
    )
}
