#![allow(clippy::unwrap_used, reason = "a test says what it expects")]
use std::sync::{Arc, Mutex};

use futures_util::stream;
use http_body_util::StreamBody;

use super::*;

#[derive(Clone, Default)]
struct Seen(Arc<Mutex<(usize, Vec<End>)>>);

impl Observer for Seen {
    fn data(&mut self, length: usize) {
        self.0.lock().unwrap().0 += length;
    }
    fn end(&mut self, how: End) {
        self.0.lock().unwrap().1.push(how);
    }
}

fn chunks(parts: &[&'static str]) -> Body {
    let frames = parts
        .iter()
        .map(|part| Ok::<_, BoxError>(Frame::data(Bytes::from_static(part.as_bytes()))))
        .collect::<Vec<_>>();
    Body::stream(StreamBody::new(stream::iter(frames)))
}

#[tokio::test]
async fn a_body_is_read_whole_up_to_its_limit() {
    let cases: [(Body, usize, Option<&str>); 6] = [
        (Body::empty(), 0, Some("")),
        (Body::full("abc"), 3, Some("abc")),
        (Body::full("abcd"), 3, None),
        (chunks(&["ab", "c"]), 3, Some("abc")),
        (chunks(&["ab", "", "cd"]), 3, None),
        (chunks(&["ab", "c", "d"]), 4, Some("abcd")),
    ];
    for (body, limit, expected) in cases {
        let read = body.collect_up_to(limit).await;
        match expected {
            Some(text) => assert_eq!(read.unwrap(), text),
            None => assert!(matches!(read, Err(CollectError::TooLarge))),
        }
    }
}

#[tokio::test]
async fn every_observer_sees_the_length_and_one_end() {
    let (first, second) = (Seen::default(), Seen::default());
    let body = chunks(&["ab", "c"]).observe(Box::new(first.clone()));
    let body = body.observe(Box::new(second.clone()));
    body.collect_up_to(9).await.unwrap();
    for seen in [first, second] {
        assert_eq!(*seen.0.lock().unwrap(), (3, vec![End::Complete]));
    }
}

#[tokio::test]
async fn a_body_that_is_dropped_before_its_end_was_aborted() {
    let seen = Seen::default();
    let mut body = chunks(&["ab", "c"]).observe(Box::new(seen.clone()));
    body.frame().await.unwrap().unwrap();
    drop(body);
    assert_eq!(*seen.0.lock().unwrap(), (2, vec![End::Aborted]));

    let empty = Seen::default();
    drop(Body::empty().observe(Box::new(empty.clone())));
    assert_eq!(*empty.0.lock().unwrap(), (0, vec![End::Complete]));
}
