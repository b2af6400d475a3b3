//! A catalog's answer to a request of the gateway itself, whose body has not been read.

use bytes::Bytes;
use http::{HeaderMap, Response, StatusCode};
use http_body_util::BodyExt as _;
use tokio::time::{Instant, timeout_at};

use super::transport::upstream_timer::UpstreamTimer;
use super::{Failure, InternalAnswer, read_answer};
use crate::body::Body;
use crate::request::CatalogWait;

/// An answer with any status. The wait for the catalog lasts until it is dropped.
pub struct AnswerStream<'a> {
    /// The catalog's status.
    pub status: StatusCode,
    /// The catalog's headers, end-to-end only.
    pub headers: HeaderMap,
    body: Body,
    deadline: Instant,
    waits: (Option<UpstreamTimer<'a>>, Option<CatalogWait>),
}

impl<'a> AnswerStream<'a> {
    /// Creates the answer of this response. All of its body must arrive before `deadline`.
    pub fn new(response: Response<Body>, deadline: Instant) -> Self {
        let (head, body) = response.into_parts();
        Self {
            status: head.status,
            headers: head.headers,
            body,
            deadline,
            waits: (None, None),
        }
    }

    /// Returns the same answer, with the waits that end when it is dropped.
    pub(super) fn measured(mut self, timer: UpstreamTimer<'a>, wait: Option<CatalogWait>) -> Self {
        self.waits = (Some(timer), wait);
        self
    }

    /// Returns the next bytes of the body; `None` at its end.
    ///
    /// # Errors
    ///
    /// The body broke off, or has not arrived in time.
    pub async fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        loop {
            // A body whose next bytes are always there already would never wait for the time.
            if Instant::now() >= self.deadline {
                return Err(Failure::TimedOut);
            }
            let frame = timeout_at(self.deadline, self.body.frame()).await;
            let Some(frame) = frame.map_err(|_| Failure::TimedOut)? else {
                return Ok(None);
            };
            if let Ok(data) = frame.map_err(Failure::Lost)?.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// Reads the whole body, 64 MiB at most.
    ///
    /// # Errors
    ///
    /// The body broke off, is too large, or has not arrived in time.
    pub async fn whole(self) -> Result<InternalAnswer, Failure> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let body = read_answer(self.body, left).await?;
        drop(self.waits);
        Ok(InternalAnswer {
            status: self.status,
            headers: self.headers,
            body,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]

    use std::time::Duration;

    use futures_util::stream::{self, StreamExt as _};
    use http_body::Frame;
    use http_body_util::StreamBody;

    use super::*;
    use crate::error::BoxError;

    const LIMIT: Duration = Duration::from_secs(5);

    fn frame(_: usize) -> Result<Frame<Bytes>, BoxError> {
        Ok(Frame::data(Bytes::from_static(b"x")))
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_limit_covers_the_whole_body() {
        let silent = Body::stream(StreamBody::new(
            stream::iter(0..2).map(frame).chain(stream::pending()),
        ));
        let began = Instant::now();
        let mut answer = AnswerStream::new(Response::new(silent), began + LIMIT);
        assert_eq!(answer.next().await.unwrap().unwrap(), "x");
        assert_eq!(answer.next().await.unwrap().unwrap(), "x");
        assert!(matches!(answer.next().await, Err(Failure::TimedOut)));
        assert_eq!(began.elapsed(), LIMIT);

        // The next bytes of this one are there at any time.
        let endless = Body::stream(StreamBody::new(stream::iter(0..).map(frame)));
        let mut answer = AnswerStream::new(Response::new(endless), Instant::now() + LIMIT);
        assert_eq!(answer.next().await.unwrap().unwrap(), "x");
        tokio::time::advance(LIMIT).await;
        assert!(matches!(answer.next().await, Err(Failure::TimedOut)));
    }

    #[tokio::test]
    async fn an_answer_that_breaks_off_is_lost() {
        let broken = stream::iter([frame(0), Err("cut".into())]);
        let body = Body::stream(StreamBody::new(broken));
        let mut answer = AnswerStream::new(Response::new(body), Instant::now() + LIMIT);
        assert_eq!(answer.next().await.unwrap().unwrap(), "x");
        assert!(matches!(answer.next().await, Err(Failure::Lost(_))));
    }
}
