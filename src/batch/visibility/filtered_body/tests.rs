#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream;
use http_body_util::StreamBody;

use super::*;
use crate::util::polls::most_at_once;

/// A filter that shows each byte or none, and counts those that it has looked at.
#[derive(Clone, Default)]
struct Counting {
    shows: bool,
    read: Arc<AtomicUsize>,
}

impl PieceFilter for Counting {
    fn push(&mut self, piece: &[u8], out: &mut BytesMut) -> Result<(), StreamFailure> {
        self.read.fetch_add(piece.len(), Ordering::Relaxed);
        if self.shows {
            out.extend_from_slice(piece);
        }
        Ok(())
    }

    fn finish(&mut self, _: &mut BytesMut) -> Result<(), StreamFailure> {
        Ok(())
    }

    fn shows_something(&self) -> bool {
        false
    }

    fn check_end(&self) -> Result<(), Outdated> {
        Ok(())
    }
}

/// The bytes after which other requests run.
const TURN: usize = 8 * STEP;

/// All of the answer is there, so that nothing but the reader itself lets others run.
#[tokio::test]
async fn other_requests_run_while_a_long_answer_is_filtered() {
    let whole = Bytes::from(vec![b' '; 40 * STEP]);
    let filter = Counting::default();
    let body = || FilteredBody::new(whole.clone(), Body::empty(), filter.clone());
    let mut list = body();
    let (read, most) = most_at_once(&filter.read, list.read_to_end()).await;
    read.unwrap();
    assert_eq!(most, TURN);
    let mut list = body();
    let (read, most) = most_at_once(&filter.read, list.read_to_visible()).await;
    assert!(read.unwrap());
    assert_eq!(most, TURN);
    let (read, most) = most_at_once(&filter.read, body().collect()).await;
    assert!(read.unwrap().to_bytes().is_empty());
    assert_eq!(most, TURN);
    let mut shown = body();
    shown.filter.shows = true;
    let (read, most) = most_at_once(&filter.read, shown.collect()).await;
    assert_eq!(read.unwrap().to_bytes().len(), whole.len());
    assert_eq!(most, TURN);
    assert_eq!(filter.read.load(Ordering::Relaxed), 4 * whole.len());
}

/// The pieces are counted: they are there at once, too, and take time although they are empty.
#[tokio::test]
async fn other_requests_run_between_empty_pieces() {
    let count = Arc::new(AtomicUsize::new(0));
    let pieces = || {
        let count = Arc::clone(&count);
        let piece = move |_| {
            count.fetch_add(1, Ordering::Relaxed);
            Ok::<_, BoxError>(Frame::data(Bytes::new()))
        };
        Body::stream(StreamBody::new(stream::iter((0..1000).map(piece))))
    };
    let body = || FilteredBody::new(Bytes::new(), pieces(), Counting::default());
    let (read, most) = most_at_once(&count, body().read_to_end()).await;
    read.unwrap();
    assert!(most < 200, "{most}");
    let (read, most) = most_at_once(&count, body().collect()).await;
    read.unwrap();
    assert!(most < 200, "{most}");
}

#[tokio::test]
async fn a_long_answer_is_shown_piece_by_piece() {
    let whole = Bytes::from(vec![b'x'; 10 * STEP + 1]);
    let filter = Counting {
        shows: true,
        ..Counting::default()
    };
    let mut body = FilteredBody::new(whole.clone(), Body::empty(), filter);
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        let data = frame.unwrap().into_data().unwrap();
        assert!(data.len() <= STEP);
        length += data.len();
    }
    assert_eq!(length, whole.len());
}
