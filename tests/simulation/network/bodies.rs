//! Answers in pieces, answers that are read after their head was sent, answers that are out of date, and answers to changes
//! that are not made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http_body::Frame;
use http_body_util::StreamBody;
use nsgate::body::Body;
use serde_json::Value;
use tokio::time::sleep;

use super::{Parcel, Wire};
use crate::catalog::{Question, Reply};

/// Returns a body that comes in pieces, some of which take as long as a part of a batch.
pub(super) fn slow(text: &str) -> Body {
    const PAUSES: [u64; 5] = [0, 1, 40, 3, 11];
    let pieces: Vec<Bytes> = text
        .as_bytes()
        .chunks(45)
        .map(Bytes::copy_from_slice)
        .collect();
    let salt = text.len();
    let pieces = stream::iter(pieces.into_iter().enumerate());
    Body::stream(StreamBody::new(pieces.then(
        move |(index, piece)| async move {
            sleep(Duration::from_millis(PAUSES[(salt + index) % PAUSES.len()])).await;
            Ok::<_, std::io::Error>(Frame::data(piece))
        },
    )))
}

impl Wire {
    /// Returns a body that the catalog reads this much later than it has sent the head.
    pub(super) fn read_later(&self, question: Arc<Question>, later: Duration) -> Body {
        let (world, catalog) = (Arc::clone(&self.world), self.catalog);
        Body::stream(StreamBody::new(stream::once(async move {
            sleep(later).await;
            let inner = &mut *world.lock();
            let Reply { status, body } = inner.catalogs[catalog].catalog.answer(&question);
            world.trace(inner, || {
                format!("{question} is read after its head: {status} {body}")
            });
            Ok::<_, std::io::Error>(Frame::data(Bytes::from(body)))
        })))
    }
}

impl Parcel {
    /// The answer to a list in descending order, as it was before the latest version was made.
    pub(super) fn listed_before(&self) -> Reply {
        let query = self.question.query.split('&');
        let limit = query.clone().find_map(|part| part.strip_prefix("limit="));
        let query: Vec<_> = query.filter(|part| !part.starts_with("limit=")).collect();
        let all = Question {
            query: query.join("&"),
            ..Question::clone(&self.question)
        };
        let mut reply = self.change(|inner| inner.catalogs[self.catalog].catalog.answer(&all));
        let mut body: Value = serde_json::from_str(&reply.body).expect("JSON");
        let listed = body["versions"].as_array_mut().expect("a list");
        listed.remove(0);
        if let Some(limit) = limit {
            listed.truncate(limit.parse().expect("a number"));
        }
        reply.body = body.to_string();
        reply
    }

    /// Returns the answer of a catalog that says that it has made a change, and has not.
    pub(super) fn as_if_done(&self) -> Reply {
        if self.question.removes() {
            return Reply {
                status: 200,
                body: "{\"deleted_count\":1}".into(),
            };
        }
        let mut copy = self.world.lock().catalogs[self.catalog].catalog.clone();
        copy.answer(&self.question)
    }
}
