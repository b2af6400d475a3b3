//! The number of series of metrics over the number of catalogs.

use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::program::Setup;
use crate::server::Server;
use crate::sizes;
use crate::stalls::Stalls;

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
    let mut scraped = Curve::new("a scrape over catalogs, 10 operations each", "MiB");
    let mut left = Curve::new(
        "series after a reload without all but one of so many catalogs",
        "series",
    );
    let mut stalls = Stalls::during("requests to many catalogs, and scrapes");
    let server = Server::plain().await;
    for size in sizes("series", &[10, 50, 200, 1_000]) {
        let port = server.address.port();
        // Each address of the loopback network is another catalog to the gateway.
        let catalogs = (0..size).map(|at| format!("127.1.{}.{}:{port}", at / 250, 1 + at % 250));
        let mut setup = Setup {
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
        let page = page(&mut scraper).await;
        curve.add(size, series(&page));
        scraped.add(size, page.len() as f64 / f64::from(1 << 20));
        setup.catalogs.truncate(1);
        std::fs::write(program.folder().join("gateway.yaml"), setup.yaml()).unwrap();
        let reload = Message::post("/reload".to_owned(), "", "");
        let (status, body) = scraper.send(reload).await.unwrap();
        assert!(status.is_success(), "{}", String::from_utf8_lossy(&body));
        left.add(size, series(&self::page(&mut scraper).await));
        stalls.add(&program).await;
    }
    curve.end(&Bound::Most(20_000.0));
    scraped.end(&Bound::Free);
    left.end(&Bound::Exponent(0.05));
    stalls.end();
}

/// Returns the page of metrics.
async fn page(scraper: &mut Connection) -> String {
    let page = Message::get("/metrics".to_owned(), "");
    let page = scraper.send(page).await.unwrap().1;
    String::from_utf8(page.into()).unwrap()
}

fn series(page: &str) -> f64 {
    let series = page.lines().filter(|line| !line.starts_with('#'));
    series.count() as f64
}
