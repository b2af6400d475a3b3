//! Answers in pieces, answers that are read after their head was sent, and answers to changes that are not made.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, StreamExt as _};
use http_body::Frame;
use http_body_util::StreamBody;
use nsgate::body::Body;
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
