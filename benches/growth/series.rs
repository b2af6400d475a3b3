//! The number of series of metrics over the number of catalogs.

use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::program::Setup;
use crate::server::Server;
use crate::sizes;

/// The operations that each catalog is asked.
const OPERATIONS: [&str; 10] = [
    "describe",
    "exists",
    "count_rows",
    "query",
    "stats",
    "index/list",
    "version/list",
    "version/describe",
    "tags/list",
    "insert",
];

pub async fn measure() {
    let mut curve = Curve::new(
        "series of metrics over catalogs, 10 operations each",
        "series",
    );
    let server = Server::plain().await;
    for size in sizes("series", &[10, 50, 200, 1_000]) {
        let port = server.address.port();
        // Each address of the loopback network is another catalog to the gateway.
        let catalogs = (0..size).map(|at| format!("127.1.{}.{}:{port}", at / 250, 1 + at % 250));
        let setup = Setup {
            catalogs: catalogs.collect(),
            ..Setup::default()
        };
        let program = setup.start();
        let mut connection = Connection::open(program.address).await.unwrap();
        for catalog in 0..size {
            for operation in OPERATIONS {
                let target = format!("/v1/table/c{catalog}%24t/{operation}");
                connection
                    .send(Message::post(target, "", "{\"version\":1}"))
                    .await
                    .unwrap();
            }
        }
        let mut scraper = Connection::open(program.admin).await.unwrap();
        let page = scraper
            .send(Message::get("/metrics".to_owned(), ""))
            .await
            .unwrap()
            .1;
        let page = String::from_utf8_lossy(&page);
        let series = page.lines().filter(|line| !line.starts_with('#')).count();
        curve.add(size, series as f64);
    }
    curve.end(&Bound::Most(20_000.0));
}
