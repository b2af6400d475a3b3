//! Answers that are long, slow, broken or without end: the memory for a page, the time, and the requests that wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::stream::{self, StreamExt as _};
use tokio::time::Instant;

use super::stream::{open, streamed};
use super::*;
use crate::gateway::listing::page::{Page, Reading, Segment};
use crate::gateway::listing::read_catalog::{Budget, ListingError};
use crate::gateway::listing::spelling::Level;
use crate::gateway::listing::token::Position;
use crate::protocol::data_scope::DataScope;
use crate::util::polls::{counted, most_at_once};

/// A catalog that ignores `limit`: the pieces of its answers.
struct Stream<F>(F);

impl<F, I> Catalogs for Stream<F>
where
    F: Fn() -> I + Sync,
    I: Iterator<Item = Bytes> + Send + Sync + 'static,
{
    async fn open_answer(&self, _: usize, _: InternalRequest) -> Result<AnswerStream<'_>, Failure> {
        Ok(streamed((self.0)()))
    }
}

/// Returns the text of a list of this many names, in an order of its own, in pieces.
fn list(count: usize, end: &'static str) -> impl Iterator<Item = Bytes> + Send + Sync + 'static {
    // 7919 and the number of names have no common factor, so that all names differ.
    let name = move |number: usize| format!("\"t{:06}\"", number * 7919 % count);
    let names = (0..count).step_by(1000).map(move |start| {
        let names = (start..count.min(start + 1000)).map(name);
        let comma = if start == 0 { "" } else { "," };
        Bytes::from(format!("{comma}{}", names.collect::<Vec<_>>().join(",")))
    });
    let begin = std::iter::once(Bytes::from_static(b"{\"tables\":["));
    begin
        .chain(names)
        .chain([Bytes::from_static(end.as_bytes())])
}

/// Reads a page of `prod` from one catalog within a budget.
async fn page_within(
    catalogs: &impl Catalogs,
    budget: Budget,
    from: Option<&Position>,
    room: usize,
) -> Result<Page, ListingError> {
    let (routes, level) = (sample(), id(&["prod"]));
    let request = request(&level, "limit=1");
    let segment = Segment {
        key: "owner".to_owned(),
        mount: routes.find(&level).unwrap(),
        ask: Arc::new(request.ask(id(&["p"]), Vec::new(), None)),
        may_lack: false,
    };
    let spelling = Level {
        routes: &routes,
        request: &request,
        leading: BTreeSet::new(),
        hidden: &|| Some(std::collections::HashSet::new()),
    };
    let reading = Reading {
        catalogs,
        spelling: &spelling,
        budget,
    };
    reading.fill(&[segment], from, room).await
}

fn request<'a>(level: &'a Identifier, query: &'a str) -> Request<'a> {
    Request {
        operation: Operation::ListTables,
        id: level,
        query: Query::new(Some(query)),
        body: Bytes::new(),
        authority: Authority::Caller(None),
        context: Context::default(),
        rights: None,
        origin: Origin::default(),
        log: None,
    }
}

#[tokio::test]
async fn a_page_keeps_as_many_names_as_it_has_whatever_the_catalog_lists() {
    let count = 200_000;
    let catalogs = Stream(|| list(count, "]}"));
    let mut from: Option<Position> = None;
    for number in 0..3 {
        // 11 names of 7 bytes, and of those that come before it is clear that the catalog ignores the limit.
        let budget = Budget::of(1, 1 << 30, 2 * 11 * (24 + 7));
        let page = page_within(&catalogs, budget, from.as_ref(), 10).await;
        let (names, next) = page.unwrap();
        let expected = (10 * number..10 * number + 10).map(|number| format!("t{number:06}"));
        assert!(names.iter().eq(&expected.collect::<Vec<_>>()), "{names:?}");
        from = next;
    }
    let budget = Budget::of(1, 1 << 30, 10 * (24 + 7));
    let refused = page_within(&catalogs, budget, None, 10).await;
    assert!(matches!(refused, Err(ListingError::Error(_))));
}

#[tokio::test]
async fn a_list_without_end_is_read_to_a_bound() {
    let read = Arc::new(AtomicUsize::new(0));
    let catalogs = Stream(|| {
        let read = Arc::clone(&read);
        let names = std::iter::repeat_with(move || {
            read.fetch_add(1, Ordering::Relaxed);
            Bytes::from_static(b"\"t\",")
        });
        std::iter::once(Bytes::from_static(b"{\"tables\":[")).chain(names)
    });
    let budget = Budget::of(1, 40_000, 1 << 20);
    let refused = page_within(&catalogs, budget, None, 10).await;
    let Err(ListingError::Error(error)) = refused else {
        panic!("{refused:?}");
    };
    assert!(error.message().contains("`b0` lists more"), "{error}");
    assert!(read.load(Ordering::Relaxed) <= 10_001);
}

/// A catalog that sends the beginning of a list and then nothing.
struct Silent;

impl Catalogs for Silent {
    async fn open_answer(&self, _: usize, _: InternalRequest) -> Result<AnswerStream<'_>, Failure> {
        let begin = Bytes::from_static(b"{\"tables\":[\"a\",\"b\",");
        let pieces = stream::iter([begin]).chain(stream::pending());
        Ok(open(pieces))
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_does_not_go_on_fails_in_time_with_a_limit_and_without() {
    for query in ["limit=1", ""] {
        let (level, began) = (id(&["prod"]), Instant::now());
        let listed = answer(
            &sample(),
            &Silent,
            &Names::default(),
            request(&level, query),
        )
        .await;
        let error = listed.unwrap_err();
        assert_eq!((error.status().as_u16(), error.code().number()), (503, 17));
        assert_eq!(began.elapsed().as_secs(), 60, "{query}");
    }
}

#[tokio::test]
async fn a_list_that_is_broken_anywhere_is_no_short_page() {
    for end in [
        "",
        "]",
        "]} x",
        ",]}",
        "}",
        "],\"tables\":[]}",
        "],\"page_token\":1}",
    ] {
        for query in ["limit=10", "limit=1000", ""] {
            let (catalogs, level) = (Stream(move || list(2001, end)), id(&["prod"]));
            let listed = answer(
                &sample(),
                &catalogs,
                &Names::default(),
                request(&level, query),
            )
            .await;
            let error = listed.unwrap_err();
            assert_eq!(error.code().number(), 17, "{end} {query}");
            assert!(error.message().contains("`b0` gave an answer"), "{error}");
        }
    }
}

/// The whole answer is there at once, so that nothing but the reader itself lets others run: after each piece that it has
/// read, and after some of the names that it has spelled.
#[tokio::test]
async fn other_requests_run_between_pieces_of_an_answer_and_between_its_names() {
    let count = 50_000;
    let whole: Vec<Bytes> = list(count, "]}").collect();
    let whole = Bytes::from(whole.concat());
    let pauses = whole.len() / (8 << 10) + count / 512;
    let catalogs = Stream(move || std::iter::once(whole.clone()));
    let budget = Budget::of(1, 1 << 30, 1 << 20);
    let (page, polls) = counted(page_within(&catalogs, budget, None, 10)).await;
    assert_eq!(page.unwrap().0.len(), 10);
    assert!(polls >= pauses, "{polls} polls, {pauses} pauses");
}

/// The pieces are small, or empty, and all there at once.
#[tokio::test]
async fn other_requests_run_between_small_pieces_of_an_answer() {
    let whole: Vec<Bytes> = list(20_000, "]}").collect();
    let whole = Bytes::from(whole.concat());
    let begin = Bytes::from_static(b"{\"tables\":[\"t\"");
    let empty = std::iter::repeat_n(Bytes::new(), 10_000);
    let small: Vec<Bytes> = whole.chunks(1000).map(Bytes::copy_from_slice).collect();
    let many = [begin].into_iter().chain(empty);
    let many = many.chain([Bytes::from_static(b"]}")]);
    for (pieces, most) in [(small, 8), (many.collect::<Vec<_>>(), 130)] {
        for query in ["limit=10", ""] {
            let (level, sent) = (id(&["prod"]), Arc::new(AtomicUsize::new(0)));
            let catalogs = Stream(|| {
                let sent = Arc::clone(&sent);
                let note = move |_: &Bytes| {
                    sent.fetch_add(1, Ordering::Relaxed);
                };
                pieces.clone().into_iter().inspect(note)
            });
            let (routes, names) = (sample(), Names::default());
            let listed = answer(&routes, &catalogs, &names, request(&level, query));
            let (listed, at_once) = most_at_once(&sent, listed).await;
            listed.unwrap();
            assert_eq!(sent.load(Ordering::Relaxed), pieces.len());
            assert!(at_once <= most, "{at_once} pieces at once, {query}");
        }
    }
}

/// The query of the next page, from the answer with this one.
fn next(query: &str, page: &Value) -> Option<String> {
    let token = page["page_token"].as_str()?;
    Some(format!("{query}&page_token={token}"))
}

async fn tables(catalogs: &impl Catalogs, routes: &Table, names: &Names, query: &str) -> Value {
    let root = Identifier::root();
    let request = Request {
        operation: Operation::ListAllTables,
        ..request(&root, query)
    };
    let response = answer(routes, catalogs, names, request).await.unwrap();
    let body = response.into_body().collect_up_to(1 << 24).await.unwrap();
    serde_json::from_slice(&body).unwrap()
}

/// Batches hide all tables but a few, and more than a page of those that come next in order.
#[tokio::test]
async fn a_page_is_full_although_most_names_are_hidden() {
    let routes = routes(&[(&["m"], 0, &[])]);
    let (catalogs, names, flag) = (
        Stream(|| list(300, "]}")),
        Names::default(),
        CommitFlag::default(),
    );
    let is_hidden = |number: usize| number % 30 > 1;
    for number in (0..300).filter(|number| is_hidden(*number)) {
        let table = id(&[&format!("t{number:06}")]);
        let backend = "b0".into();
        names.hide_made(
            TableKey {
                backend,
                scope: DataScope::default(),
                table,
            },
            &flag,
        );
    }
    for limit in [1, 3, 7, 100] {
        let (mut all, mut query) = (Vec::new(), Some(format!("limit={limit}")));
        while let Some(asked) = query {
            let page = tables(&catalogs, &routes, &names, &asked).await;
            let here: Vec<String> = serde_json::from_value(page["tables"].clone()).unwrap();
            query = next(&format!("limit={limit}"), &page);
            assert!(here.len() == limit || query.is_none(), "{here:?}");
            all.extend(here);
        }
        let shown = (0..300).filter(|number| !is_hidden(*number));
        let shown: Vec<_> = shown.map(|number| format!("m$t{number:06}")).collect();
        assert_eq!(all, shown);
    }
}

/// A catalog with two mounts shows each table twice, so a page ends within an answer that keeps to the limit. Meanwhile
/// tables are added until it does not.
#[tokio::test]
async fn a_walk_over_two_mounts_of_a_growing_catalog_has_every_name_once() {
    let routes = routes(&[(&["a"], 0, &[]), (&["b"], 0, &[])]);
    for (first, added, limit) in [(5, 1, 5), (5, 20, 5), (4, 3, 5), (12, 2, 5)] {
        let count = Arc::new(AtomicUsize::new(first));
        let catalogs = Stream(|| {
            let names = (0..count.load(Ordering::Relaxed))
                .rev()
                .map(|number| format!("t{number:03}"));
            let body = json!({ "tables": names.collect::<Vec<_>>() });
            std::iter::once(Bytes::from(body.to_string()))
        });
        let (mut all, mut query) = (Vec::new(), Some(format!("limit={limit}")));
        while let Some(asked) = query {
            let page = tables(&catalogs, &routes, &Names::default(), &asked).await;
            let here: Vec<String> = serde_json::from_value(page["tables"].clone()).unwrap();
            query = next(&format!("limit={limit}"), &page);
            all.extend(here);
            count.store(first + added, Ordering::Relaxed);
        }
        let unique: BTreeSet<_> = all.iter().collect();
        assert_eq!(unique.len(), all.len(), "{all:?}");
        for number in 0..first {
            for mount in ["a", "b"] {
                assert!(
                    unique.contains(&format!("{mount}$t{number:03}")),
                    "{number} of {all:?}"
                );
            }
        }
    }
}
