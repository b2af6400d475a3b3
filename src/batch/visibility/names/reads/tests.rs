//! Long listings of one catalog, some of whose names batches hide.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use futures_util::stream;
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use serde_json::Value;
use tempfile::TempDir;

use super::*;
use crate::backend::{self, Failure};
use crate::batch::log::disk::DiskLog;
use crate::batch::visibility::commit_flag::CommitFlag;
use crate::batch::{Names, TableKey};
use crate::config::{BatchConfig, BatchMode, Limits};
use crate::error::BoxError;
use crate::metrics::Metrics;
use crate::protocol::data_scope::DataScope;
use crate::protocol::query::Query;

const COUNT: usize = 200_000;
/// The names in a piece of an answer.
const PIECE: usize = 500;

/// Called with the number of a request and of a piece, both from 0, before the piece is sent.
type Meanwhile = dyn Fn(usize, usize, &Names) + Send + Sync;

/// A catalog with the tables `t000000` and so on, which keeps to `limit` and `page_token` and sends its answers in
/// pieces, as they are read.
#[derive(Clone)]
struct Tables {
    count: usize,
    requests: Arc<AtomicUsize>,
    /// The bytes that it has sent.
    sent: Arc<AtomicUsize>,
    names: Names,
    meanwhile: Arc<Meanwhile>,
}

impl backend::Catalog for Tables {
    fn call(&self, request: Request<Body>) -> BoxFuture<'_, Result<Response<Body>, Failure>> {
        let query = Query::new(request.uri().query());
        let number = |name: &'static str| {
            let value = query.get(name).unwrap();
            value.map(|value| value.parse::<usize>().unwrap())
        };
        let begin = number("page_token").unwrap_or(0);
        let limit = number("limit").unwrap_or(self.count);
        let end = self.count.min(begin + limit);
        let token = (end < self.count).then(|| end.to_string());
        let last = format!("],\"page_token\":{}}}", Value::from(token));
        let (this, asked) = (self.clone(), self.requests.fetch_add(1, Ordering::Relaxed));
        let starts = (begin..end).step_by(PIECE).map(Some).chain([None]);
        let pieces = starts.enumerate().map(move |(number, start)| {
            (this.meanwhile)(asked, number, &this.names);
            let text = match start {
                None => last.clone(),
                Some(start) => {
                    let names =
                        (start..end.min(start + PIECE)).map(|name| format!("\"{}\"", table(name)));
                    let names = names.collect::<Vec<_>>().join(",");
                    let before = if start == begin { "{\"tables\":[" } else { "," };
                    format!("{before}{names}")
                }
            };
            this.sent.fetch_add(text.len(), Ordering::Relaxed);
            Ok::<_, BoxError>(Frame::data(Bytes::from(text)))
        });
        let body = Body::stream(StreamBody::new(stream::iter(pieces)));
        Box::pin(async { Ok(Response::new(body)) })
    }
}

/// The batches of a gateway over such a catalog.
struct Lake {
    catalog: Tables,
    backend: Backend,
    batches: Batches,
    _log: TempDir,
}

fn table(number: usize) -> String {
    format!("t{number:06}")
}

fn key(name: &str) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: "lake".into(),
        table: Identifier::from_names(["ns", name]).unwrap(),
    }
}

impl Lake {
    fn of(count: usize, meanwhile: impl Fn(usize, usize, &Names) + Send + Sync + 'static) -> Self {
        let (limits, metrics) = (Limits::default(), Metrics::new());
        let folder = tempfile::tempdir().unwrap();
        let log = Arc::new(DiskLog::open(&folder.path().join("log"), |_| {}).unwrap());
        let batches = Batches::new(log, BatchConfig::default(), metrics.batch().clone());
        let catalog = Tables {
            count,
            requests: Arc::default(),
            sent: Arc::default(),
            names: batches.names().clone(),
            meanwhile: Arc::new(meanwhile),
        };
        let own = catalog.clone();
        let backend = Backend::own("lake", BatchMode::Versions, own, &limits, &metrics);
        Self {
            catalog,
            backend,
            batches,
            _log: folder,
        }
    }

    /// Hides tables that an undecided batch makes.
    fn hide(&self, tables: impl Iterator<Item = usize>) -> BTreeSet<usize> {
        let (hidden, flag): (BTreeSet<_>, _) = (tables.collect(), CommitFlag::default());
        for number in &hidden {
            self.catalog.names.hide_made(key(&table(*number)), &flag);
        }
        hidden
    }

    async fn list(&self, query: &str) -> Result<Body, Error> {
        let mut request = Request::new(Body::empty());
        *request.uri_mut() = format!("/v1/namespace/ns/table/list?{query}")
            .parse()
            .unwrap();
        let level = Level::Below(Identifier::from_names(["ns"]).unwrap());
        let listed = self
            .batches
            .list_tables(&self.backend, level, request)
            .await;
        listed.map(Response::into_body)
    }

    fn requests(&self) -> usize {
        self.catalog.requests.load(Ordering::Relaxed)
    }
}

/// Returns the names and the page token of a listing.
fn parsed(text: &[u8]) -> (Vec<String>, Option<String>) {
    let mut page: Value = serde_json::from_slice(text).unwrap();
    let tables = serde_json::from_value(page["tables"].take()).unwrap();
    (tables, page["page_token"].as_str().map(str::to_owned))
}

async fn read(body: Body) -> Result<Vec<String>, BoxError> {
    let text = body.collect().await?.to_bytes();
    Ok(parsed(&text).0)
}

fn without(hidden: &BTreeSet<usize>) -> Vec<String> {
    let shown = (0..COUNT).filter(|number| !hidden.contains(number));
    shown.map(table).collect()
}

#[tokio::test]
async fn a_listing_of_many_tables_streams_without_the_hidden_ones() {
    let lake = Lake::of(COUNT, |_, _, _| {});
    let hidden = lake.hide((0..COUNT).step_by(199));
    let mut body = lake.list("").await.unwrap();
    let (mut text, mut held) = (Vec::new(), 0);
    let mut left_out = 0;
    loop {
        let sent = lake.catalog.sent.load(Ordering::Relaxed);
        held = held.max(sent - text.len() - left_out);
        let Some(frame) = body.frame().await else {
            break;
        };
        text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        // A name with its quotes and a comma has ten bytes.
        left_out = hidden.range(..text.len() / 10).count() * 10;
    }
    assert_eq!(parsed(&text), (without(&hidden), None));
    assert_eq!(lake.requests(), 1);
    println!("{} bytes, at most {held} of them held", text.len());
    assert!(held < 160 << 10, "{held}");
}

/// One page has nothing to show, and would be taken for the last one.
#[tokio::test]
async fn a_walk_over_many_tables_has_each_one_that_is_not_hidden_once() {
    for (limit, requests) in [(10_000, 20), (2_000, 100)] {
        let lake = Lake::of(COUNT, |_, _, _| {});
        let hidden = lake.hide((0..COUNT).step_by(97).chain(50_000..60_000));
        let (mut all, mut token) = (Vec::new(), String::new());
        loop {
            let page = lake.list(&format!("limit={limit}{token}")).await.unwrap();
            let (tables, next) = parsed(&page.collect().await.unwrap().to_bytes());
            assert!(!tables.is_empty() && tables.len() <= limit);
            all.extend(tables);
            match next {
                Some(next) => token = format!("&page_token={next}"),
                None => break,
            }
        }
        assert!(all == without(&hidden), "{} tables", all.len());
        assert_eq!(lake.requests(), requests, "each page is read once");
    }
}

fn rename(names: &Names) {
    let (flag, [old, new]) = (
        CommitFlag::default(),
        [table(150_000), table(7)].map(|name| key(&name)),
    );
    names.hide_removed(old.clone(), &flag);
    names.hide_made(new.clone(), &flag);
    names.reveal(&flag, [&old, &new]);
    names.forget(&new, &flag);
    names.gone(&old, &flag);
}

#[tokio::test]
async fn a_listing_whose_names_change_before_its_client_has_anything_is_asked_for_again() {
    let lake = Lake::of(COUNT, |request, piece, names| {
        if (request, piece) == (0, 3) {
            rename(names);
        }
    });
    let listed = read(lake.list("").await.unwrap()).await.unwrap();
    assert_eq!((listed.len(), lake.requests()), (COUNT, 2));
    let busy = Lake::of(COUNT, |_, piece, names| {
        if piece == 3 {
            rename(names);
        }
    });
    let error = busy.list("").await.err().unwrap();
    assert_eq!((error.status().as_u16(), error.code().number()), (503, 17));
    assert_eq!(busy.requests(), ROUNDS);
}

#[tokio::test]
async fn a_listing_that_a_client_has_begun_to_read_is_cut_by_a_rename_and_not_by_a_new_table() {
    let lake = Lake::of(COUNT, |_, piece, names| {
        if piece == 300 {
            rename(names);
        }
    });
    let cut = read(lake.list("").await.unwrap()).await;
    let words = cut.unwrap_err().to_string();
    assert!(words.contains("while they were listed"), "{words}");
    // Two batches make tables, of which one is committed and one undone, all between two pieces.
    let lake = Lake::of(COUNT, |_, piece, names| {
        if piece == 300 {
            for (number, commits) in [(160_000, true), (160_001, false)] {
                let (new, flag) = (key(&table(number)), CommitFlag::default());
                names.hide_made(new.clone(), &flag);
                if commits {
                    names.reveal(&flag, [&new]);
                    names.forget(&new, &flag);
                } else {
                    names.gone(&new, &flag);
                }
            }
        }
    });
    let listed = read(lake.list("").await.unwrap()).await.unwrap();
    assert!(listed == without(&[160_000, 160_001].into()));
    assert_eq!(lake.requests(), 1);
}
