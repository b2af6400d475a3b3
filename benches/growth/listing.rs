//! A page of a listing over the numbers of tables and catalogs, and over the tables of a catalog that ignores `limit`; the
//! whole listing of one catalog.

use bytes::Bytes;

use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::program::Setup;
use crate::server::Server;
use crate::sizes;
use crate::stalls::Stalls;

/// The tables that a page asks for.
const LIMIT: usize = 10;
/// The pages of each size.
const PAGES: usize = 200;
/// The sizes of what stays the same while the other one grows.
const CATALOGS: usize = 8;
const TABLES: usize = 1_000;

pub async fn measure() {
    let tables = sizes("tables", &[100, 1_000, 10_000, 100_000]);
    let over = [
        "a page over tables of 8 catalogs: requests to catalogs",
        "a page over tables of 8 catalogs: bytes of catalogs",
        "a page over tables of 8 catalogs: processor time",
    ];
    curves(over, tables.into_iter().map(|size| (size, CATALOGS, size))).await;
    let catalogs = sizes("catalogs", &[1, 4, 16, 64]);
    let over = [
        "a page over catalogs: requests to catalogs",
        "a page over catalogs: bytes of catalogs",
        "a page over catalogs: processor time",
    ];
    curves(over, catalogs.into_iter().map(|size| (size, size, TABLES))).await;
    ignored_limit().await;
    whole().await;
}

/// Measures the listing of all tables of one catalog, of which every hundredth is still being written, so that its name is
/// left out.
async fn whole() {
    let mut memory = Curve::new(
        "all tables of one catalog, some left out: memory more than before",
        "MiB",
    );
    let mut used = Curve::new(
        "all tables of one catalog, some left out: processor time of each table",
        "ns",
    );
    let mut stalls = Stalls::during("listings of all tables of one catalog");
    for tables in sizes("whole", &[16_000, 64_000, 256_000, 1_000_000]) {
        let names = (0..tables).map(|at| match at % 100 {
            0 => format!("\"__nsgate_new_{at}\""),
            _ => format!("\"t{at:07}\""),
        });
        let list = format!("{{\"tables\":[{}]}}", names.collect::<Vec<_>>().join(","));
        let list = Bytes::from(list);
        let server = Server::start(move |_| list.clone()).await;
        let program = Setup::over([server.address]).start();
        let mut connection = Connection::open(program.address).await.unwrap();
        let target = || Message::get("/v1/namespace/c0/table/list".to_owned(), "");
        let count = (4_000_000 / tables).clamp(5, 100);
        program.forget_peak();
        let (before, began) = (program.resident(), program.processor_time());
        for _ in 0..count {
            let (status, body) = connection.send(target()).await.unwrap();
            let body = String::from_utf8_lossy(&body);
            assert!(status.is_success(), "{status} {body}");
            assert_eq!(body.matches("\"t").count(), tables - tables / 100 + 1);
            assert!(!body.contains("__nsgate"));
        }
        // Less than that is chance.
        memory.add(tables, (program.peak() - before).max(1.0));
        let spent = (program.processor_time() - began).as_secs_f64();
        used.add(tables, spent * 1e9 / (count * tables) as f64);
        stalls.add(&program).await;
    }
    memory.end(&Bound::Exponent(0.1));
    used.end(&Bound::Exponent(0.1));
    stalls.end();
}

/// Measures a page of a catalog that lists everything whatever `limit` is. The gateway has to read all of it.
async fn ignored_limit() {
    let mut memory = Curve::new(
        "a page over tables, limit ignored: memory more than before",
        "MiB",
    );
    let mut used = Curve::new(
        "a page over tables, limit ignored: processor time of each table",
        "ns",
    );
    let mut stalls = Stalls::during("pages of a catalog that ignores the limit");
    for tables in sizes("ignored", &[4_000, 16_000, 64_000, 256_000, 1_000_000]) {
        let list = page("", tables);
        let server = Server::start(move |_| list.clone()).await;
        let program = Setup::over([server.address]).start();
        let mut connection = Connection::open(program.address).await.unwrap();
        pages(&mut connection, 1).await;
        program.forget_peak();
        let (before, began) = (program.resident(), program.processor_time());
        let count = (2_000_000 / tables).clamp(5, 100);
        pages(&mut connection, count).await;
        // Less than that is chance.
        memory.add(tables, (program.peak() - before).max(1.0));
        let spent = (program.processor_time() - began).as_secs_f64();
        used.add(tables, spent * 1e9 / (count * tables) as f64);
        stalls.add(&program).await;
    }
    memory.end(&Bound::Exponent(0.1));
    used.end(&Bound::Exponent(0.1));
    stalls.end();
}

async fn curves(names: [&'static str; 3], all: impl Iterator<Item = (usize, usize, usize)>) {
    let mut requests = Curve::new(names[0], "requests");
    let mut bytes = Curve::new(names[1], "bytes");
    let mut used = Curve::new(names[2], "µs");
    let mut stalls = Stalls::during("pages of catalogs that keep to the limit");
    for (size, catalogs, tables) in all {
        let mut servers = Vec::new();
        for _ in 0..catalogs {
            servers.push(Server::start(move |target| page(target, tables)).await);
        }
        let program = Setup::over(servers.iter().map(|server| server.address)).start();
        let mut connection = Connection::open(program.address).await.unwrap();
        // The first pages open connections and fill caches.
        pages(&mut connection, PAGES / 4).await;
        let counted = |count: fn(&Server) -> u64| servers.iter().map(count).sum::<u64>();
        let before = (
            counted(Server::requests),
            counted(Server::bytes),
            program.processor_time(),
        );
        pages(&mut connection, PAGES).await;
        let each = |count: u64| count as f64 / PAGES as f64;
        requests.add(size, each(counted(Server::requests) - before.0));
        bytes.add(size, each(counted(Server::bytes) - before.1));
        let spent = program.processor_time() - before.2;
        used.add(size, spent.as_secs_f64() * 1e6 / PAGES as f64);
        stalls.add(&program).await;
    }
    for curve in [requests, bytes, used] {
        curve.end(&Bound::Exponent(0.1));
    }
    stalls.end();
}

async fn pages(connection: &mut Connection, count: usize) {
    for _ in 0..count {
        let target = format!("/v1/table?limit={LIMIT}");
        let (status, body) = connection.send(Message::get(target, "")).await.unwrap();
        let body = String::from_utf8_lossy(&body);
        assert!(status.is_success(), "{status} {body}");
        assert_eq!(body.matches("$t").count(), LIMIT, "{body}");
    }
}

/// Returns a page of a catalog that honours `limit` and `page_token`, a number. Without them it has all tables.
fn page(target: &str, tables: usize) -> Bytes {
    let query = target.split_once('?').map_or("", |(_, query)| query);
    let number = |name: &str| -> Option<usize> {
        let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name)?.1.parse().ok()
    };
    let from = number("page_token").unwrap_or(0).min(tables);
    let to = tables.min(from + number("limit").unwrap_or(tables));
    let names: Vec<_> = (from..to).map(|at| format!("\"t{at:07}\"")).collect();
    let token = if to < tables {
        format!(",\"page_token\":\"{to}\"")
    } else {
        String::new()
    };
    format!("{{\"tables\":[{}]{token}}}", names.join(",")).into()
}
