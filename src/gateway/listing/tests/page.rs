//! The requests that a page costs.

use std::ops::AddAssign;

use super::*;

/// Catalogs of many tables, which count what they list.
struct Shelves {
    /// The tables of each catalog, in its order.
    tables: Vec<Vec<String>>,
    /// True if the catalogs do as `limit` says.
    has_pages: bool,
    cost: Mutex<Cost>,
    names: Names,
}

/// The requests to catalogs, and the names in their answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    requests: usize,
    names: usize,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.requests += other.requests;
        self.names += other.names;
    }
}

impl Catalogs for Shelves {
    async fn open_answer(
        &self,
        backend: usize,
        ask: InternalRequest,
    ) -> Result<AnswerStream<'_>, Failure> {
        let value = |key| ask.query.iter().find(|(name, _)| *name == key);
        let number = |key| value(key).map(|(_, value)| value.parse::<usize>().unwrap());
        let limit = number("limit").filter(|_| self.has_pages);
        let begin = number("page_token").unwrap_or(0);
        let all = self.tables[backend][begin..].iter();
        let tables: Vec<_> = all.take(limit.unwrap_or(usize::MAX)).collect();
        let end = begin + tables.len();
        let token = (end < self.tables[backend].len()).then(|| end.to_string());
        *self.cost.lock().unwrap() += Cost {
            requests: 1,
            names: tables.len(),
        };
        let body = json!({ "tables": tables, "page_token": token });
        Ok(answered(200, body.to_string()))
    }
}

/// Returns `catalogs` of `tables` tables each, in no particular order, and a mount of each.
fn shelves(catalogs: usize, tables: usize, has_pages: bool) -> (Table, Shelves) {
    let mounts = (0..catalogs).map(|backend| Mount {
        namespace: Identifier::from_names([format!("m{backend:03}")]).unwrap(),
        backend,
        backend_name: format!("b{backend}").into(),
        backend_namespace: Identifier::root(),
    });
    // 7919 is a prime number, so that all names differ.
    let name = |number: usize| format!("t{:05}", number * 7919 % 100_003);
    let shelves = Shelves {
        tables: vec![(0..tables).map(name).collect(); catalogs],
        has_pages,
        cost: Mutex::default(),
        names: Names::default(),
    };
    (Table::new(mounts.collect()), shelves)
}

/// Returns the page after `token`, the next token, and the cost.
async fn page(
    routes: &Table,
    shelves: &Shelves,
    limit: usize,
    token: Option<String>,
) -> (Vec<String>, Option<String>, Cost) {
    let token = token.map(|token| format!("&page_token={token}"));
    let query = format!("limit={limit}{}", token.unwrap_or_default());
    let request = Request {
        operation: Operation::ListAllTables,
        id: &Identifier::root(),
        query: Query::new(Some(&query)),
        body: Bytes::new(),
        authority: Authority::Caller(None),
        context: Context::default(),
        rights: None,
        origin: Origin::default(),
        log: None,
    };
    *shelves.cost.lock().unwrap() = Cost::default();
    let response = answer(routes, shelves, &shelves.names, request).await;
    let body = response.unwrap().into_body().collect_up_to(1 << 24).await;
    let value: Value = serde_json::from_slice(&body.unwrap()).unwrap();
    let names = serde_json::from_value(value["tables"].clone()).unwrap();
    let next = value["page_token"].as_str().map(str::to_owned);
    let cost = *shelves.cost.lock().unwrap();
    (names, next, cost)
}

#[tokio::test]
async fn a_page_asks_one_catalog_for_as_much_as_it_needs() {
    let asked = Cost {
        requests: 1,
        names: 10,
    };
    for (catalogs, tables) in [(10, 100), (100, 100), (100, 10_000), (1000, 1000)] {
        let (routes, shelves) = shelves(catalogs, tables, true);
        let (names, token, cost) = page(&routes, &shelves, 10, None).await;
        println!("{catalogs} catalogs of {tables} tables: {cost:?}");
        assert_eq!((names.len(), cost), (10, asked));
        let (_, _, cost) = page(&routes, &shelves, 10, token).await;
        assert_eq!(cost, asked);
    }
    // A catalog without pages is read whole, but it alone.
    let (routes, shelves) = shelves(100, 10_000, false);
    let (names, _, cost) = page(&routes, &shelves, 10, None).await;
    assert_eq!((names.len(), cost.requests, cost.names), (10, 1, 10_000));
}

#[tokio::test]
async fn a_walk_lists_every_table_once_and_costs_as_much_as_there_is() {
    for (catalogs, tables, limit, has_pages) in [
        (20, 50, 7, true),
        (40, 50, 7, true),
        (40, 100, 7, true),
        (40, 1, 7, true),
        (40, 0, 7, true),
        (3, 40, 1, true),
        (20, 50, 7, false),
        (3, 40, 1, false),
    ] {
        let (routes, shelves) = shelves(catalogs, tables, has_pages);
        let (mut all, mut total, mut pages) = (Vec::new(), Cost::default(), 0);
        let mut token = None;
        loop {
            let (names, next, cost) = page(&routes, &shelves, limit, token).await;
            all.extend(names);
            total += cost;
            pages += 1;
            token = next;
            if token.is_none() {
                break;
            }
        }
        println!("{catalogs} catalogs of {tables}, by {limit}: {pages} pages, {total:?}");
        let count = catalogs * tables;
        assert_eq!(all.len(), count);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "every table once");
        assert!(pages <= count / limit + 1);
        if has_pages {
            assert!(total.names <= 3 * count, "{total:?}");
            assert!(total.requests <= 3 * catalogs + 2 * pages, "{total:?}");
        }
    }
}

#[tokio::test]
async fn a_walk_goes_on_where_its_catalog_or_its_last_table_is_gone() {
    for has_pages in [true, false] {
        let (routes, mut shelves) = shelves(3, 20, has_pages);
        let (first, token, _) = page(&routes, &shelves, 5, None).await;
        let last = first.last().unwrap().trim_start_matches("m000$").to_owned();
        shelves.tables[0].retain(|table| *table != last);
        let (mut all, mut next) = (first.clone(), token.clone());
        while let Some(token) = next.take() {
            let (names, more, _) = page(&routes, &shelves, 5, Some(token)).await;
            (all, next) = ([all, names].concat(), more);
        }
        let all: BTreeSet<_> = all.into_iter().collect();
        // A catalog that counts its names leaves one out; that is its own doing.
        assert!(all.len() >= 60 - usize::from(has_pages), "{}", all.len());
    }
    let (routes, shelves) = shelves(3, 20, true);
    let (_, token, _) = page(&routes, &shelves, 5, None).await;
    let others: Vec<_> = routes.mounts()[1..]
        .iter()
        .map(|mount| Mount::clone(mount))
        .collect();
    let (names, ..) = page(&Table::new(others), &shelves, 100, token).await;
    assert_eq!(names.len(), 40);
}
