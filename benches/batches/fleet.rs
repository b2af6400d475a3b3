//! Three gateways that share a log in PostgreSQL, beside one with its log in a file.

use std::net::SocketAddr;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http_body_util::BodyExt as _;
use nsgate::batch::log::disk::DiskLog;
use nsgate::batch::log::{BatchId, Log as _};
use tokio::task::JoinSet;

use crate::catalog::Catalog;
use crate::house::batch;
use crate::postgres::Postgres;
use crate::program::{Client, Program};
use crate::remembered::intent;
use crate::table::{Table, Times, millis};

/// The plain requests that must not cost a transaction, over all gateways.
const PLAIN: usize = 100_000;
const READS: usize = 2000;
const ROUNDS: u64 = 500;
const WARM_UP: u64 = 50;
const CLIENTS: usize = 64;
const RUN: Duration = Duration::from_secs(8);
const BATCH: &str = "/v1/table/version/batch-create";
/// The open batches of a gateway that died, and the lease in seconds.
const OPEN: usize = 10_000;
const LEASE: u32 = 5;

pub async fn measure(table: &mut Table) {
    let Some(server) = Postgres::start() else {
        return;
    };
    prepare(&server);
    let catalogs: Vec<Catalog> = (0..8).map(|_| Catalog::default()).collect();
    let mut served = Vec::new();
    for (number, catalog) in catalogs.iter().enumerate() {
        served.push((format!("c{number}"), catalog.serve().await));
    }
    let served: Vec<(&str, SocketAddr)> = served
        .iter()
        .map(|(name, at)| (name.as_str(), *at))
        .collect();
    let alone = Program::start(&served);
    let fleet = [(); 3].map(|()| Program::sharing(&served, &server.socket(), LEASE));
    until_served(&fleet).await;

    plain(table, &server, &catalogs, &fleet).await;
    guarded(table, &catalogs, &fleet).await;
    for count in [2, 8] {
        one_client(table, &catalogs[..count], &alone, &fleet).await;
    }
    rate(table, &catalogs, &alone, &fleet).await;
    drop(fleet);
    drop(alone);
    recovered(table).await;
}

fn prepare(server: &Postgres) {
    let prepared = nsgate(&["log", "prepare", &server.socket()]);
    assert!(prepared.status.success(), "{prepared:?}");
}

fn nsgate(arguments: &[&str]) -> std::process::Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nsgate"));
    command.args(arguments).output().unwrap()
}

/// Waits until one of the gateways owns the log.
async fn until_served(gateways: &[Program]) {
    for gateway in gateways {
        let begun = Instant::now();
        while open_batches(gateway.admin).await.is_none() {
            assert!(
                begun.elapsed() < Duration::from_secs(60),
                "no gateway owns the log"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Returns the states of the open batches; `None` if no gateway owns the log.
async fn open_batches(admin: SocketAddr) -> Option<Vec<String>> {
    let stream = tokio::net::TcpStream::connect(admin).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("/batches").header("host", "localhost");
    let body = http_body_util::Empty::<bytes::Bytes>::new();
    let answer = sender
        .send_request(request.body(body).unwrap())
        .await
        .unwrap();
    if answer.status() != http::StatusCode::OK {
        return None;
    }
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    let page: serde_json::Value = serde_json::from_slice(&body).unwrap();
    let batches = page["batches"].as_array().unwrap().iter();
    Some(
        batches
            .map(|batch| batch["state"].as_str().unwrap().to_owned())
            .collect(),
    )
}

/// Plain requests on tables that no batch is on cost no transaction.
async fn plain(table: &mut Table, server: &Postgres, catalogs: &[Catalog], fleet: &[Program; 3]) {
    catalogs[0].seed("plain", 1);
    let count = || -> f64 {
        let sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()";
        server.sql(sql).parse().unwrap()
    };
    // The server counts a transaction up to a second late.
    let settle = || tokio::time::sleep(Duration::from_millis(1500));
    settle().await;
    let (before, begun) = (count(), Instant::now());
    tokio::time::sleep(Duration::from_secs(10)).await;
    settle().await;
    let idle = (count() - before) / begun.elapsed().as_secs_f64();
    let (before, begun) = (count(), Instant::now());
    let mut asking = JoinSet::new();
    for gateway in fleet {
        let mut client = Client::connect(gateway.address).await;
        asking.spawn(async move {
            for _ in 0..PLAIN / 3 {
                client
                    .post("/v1/table/c0%24plain/describe", None, "{}".into())
                    .await;
            }
        });
    }
    asking.join_all().await;
    settle().await;
    let took = begun.elapsed().as_secs_f64();
    let more = count() - before - idle * took;
    table.note(
        "three gateways, idle: transactions in PostgreSQL",
        format!("{idle:.1} a second"),
    );
    table.at_most(
        &format!("the same for {PLAIN} plain requests, beside those"),
        more,
        idle,
        "",
    );
}

/// A read of a table that a batch is on, at a gateway that does not own the log, over one of another table.
async fn guarded(table: &mut Table, catalogs: &[Catalog], fleet: &[Program; 3]) {
    for name in ["free", "busy"] {
        catalogs[0].seed(name, 1);
    }
    let owner = fleet[0].address;
    let batches = tokio::spawn(async move {
        let mut client = Client::connect(owner).await;
        // A guard stays for a second after its batch.
        let mut turns = tokio::time::interval(Duration::from_millis(300));
        for version in 2.. {
            turns.tick().await;
            let body = batch(std::iter::once("c0\",\"busy".to_owned()), version);
            client.post(BATCH, None, body).await;
        }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut client = Client::connect(fleet[1].address).await;
    let [mut free, mut busy] = [(); 2].map(|()| Times::default());
    for _ in 0..READS {
        free.add(
            client
                .post("/v1/table/c0%24free/describe", None, "{}".into())
                .await,
        );
        busy.add(
            client
                .post("/v1/table/c0%24busy/describe", None, "{}".into())
                .await,
        );
    }
    batches.abort();
    table.at_most(
        "a read of a table that a batch is on, at another gateway: more, median",
        millis(busy.median()) - millis(free.median()),
        0.5,
        "ms",
    );
}

/// A batch from one client: with the log in a file, at the owner of the shared log, and at another gateway.
async fn one_client(
    table: &mut Table,
    catalogs: &[Catalog],
    alone: &Program,
    fleet: &[Program; 3],
) {
    let names = ["file", "owner", "other"];
    let mut clients = [
        Client::connect(alone.address).await,
        Client::connect(fleet[0].address).await,
        Client::connect(fleet[1].address).await,
    ];
    let count = catalogs.len();
    let mut times = names.map(|_| Times::default());
    for name in names {
        for catalog in catalogs {
            catalog.seed(format!("{name}{count}"), 1);
        }
    }
    for round in 0..WARM_UP + ROUNDS {
        for (name, (client, times)) in names.iter().zip(clients.iter_mut().zip(&mut times)) {
            let entries = (0..count).map(|number| format!("c{number}\",\"{name}{count}"));
            let took = client.post(BATCH, None, batch(entries, 2 + round)).await;
            if round >= WARM_UP {
                times.add(took);
            }
        }
    }
    let of = |times: &Times, share| millis(times.quantile(share));
    let [file, owner, other] = times;
    table.note(
        &format!("a batch over {count} catalogs, log in a file: p50, p99"),
        format!("{:.2}, {:.2} ms", of(&file, 0.5), of(&file, 0.99)),
    );
    for (what, shared) in [("at the owner", owner), ("elsewhere", other)] {
        for (share, bound) in [(0.5, 5.0), (0.99, 15.0)] {
            table.at_most(
                &format!(
                    "    three gateways, {what}, over that: p{:.0}",
                    share * 100.0
                ),
                of(&shared, share) - of(&file, share),
                bound,
                "ms",
            );
        }
    }
}

/// Batches a second from many clients: with the log in a file, and spread over three gateways.
async fn rate(table: &mut Table, catalogs: &[Catalog], alone: &Program, fleet: &[Program; 3]) {
    let file = rate_of(catalogs, "rf", &[alone.address]).await;
    let addresses = [&fleet[0], &fleet[1], &fleet[2]].map(|gateway| gateway.address);
    let shared = rate_of(catalogs, "rs", &addresses).await;
    table.note(
        &format!("batches of 2 entries from {CLIENTS} clients, log in a file"),
        format!("{file:.0} a second"),
    );
    table.at_least("    three gateways", shared, 500.0, "a second");
    table.at_least("    the same as a share of that", shared / file, 0.5, "");
}

async fn rate_of(catalogs: &[Catalog], name: &str, gateways: &[SocketAddr]) -> f64 {
    let end = Instant::now() + RUN;
    let mut asking = JoinSet::new();
    for number in 0..CLIENTS {
        let name = format!("{name}{number}");
        for catalog in &catalogs[..2] {
            catalog.seed(&name, 1);
        }
        let address = gateways[number % gateways.len()];
        asking.spawn(async move {
            let mut client = Client::connect(address).await;
            let mut done = 0;
            while Instant::now() < end {
                let entries = (0..2).map(|number| format!("c{number}\",\"{name}"));
                client.post(BATCH, None, batch(entries, 2 + done)).await;
                done += 1;
            }
            done
        });
    }
    let done: u64 = asking.join_all().await.into_iter().sum();
    done as f64 / RUN.as_secs_f64()
}

/// The open batches of a gateway that died, finished by two others.
async fn recovered(table: &mut Table) {
    let Some(server) = Postgres::start() else {
        return;
    };
    prepare(&server);
    let catalogs = [Catalog::default(), Catalog::default()];
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("batches.redb");
    let log = DiskLog::open(&path, |error| panic!("{error}")).unwrap();
    let written = (0..OPEN).map(|number| {
        for (place, catalog) in catalogs.iter().enumerate() {
            // Half of the batches were completely prepared, and are committed; the others are rolled back.
            let prepared = number % 2 == 0 || place == 0;
            catalog.seed(format!("t{number}"), 1 + u64::from(prepared));
        }
        log.intend(BatchId::now_v7(), Arc::new(intent(number)))
    });
    for written in futures_util::future::join_all(written).await {
        written.unwrap();
    }
    log.close().await.unwrap();
    drop(log);
    let moved = nsgate(&[
        "log",
        "move",
        "--from",
        &path.display().to_string(),
        "--to",
        &server.socket(),
    ]);
    assert!(moved.status.success(), "{moved:?}");
    let dead = "00000000-0000-4000-8000-000000000001";
    server.sql(&format!(
        "INSERT INTO nsgate.instance (id, name, version, lease_ms, address, token)
         VALUES ('{dead}', 'dead', '0', {}, '127.0.0.1:9', 'x');
         UPDATE nsgate.log SET owner = '{dead}', fence = fence + 1",
        LEASE * 1000
    ));
    let served = [
        ("c0", catalogs[0].serve().await),
        ("c1", catalogs[1].serve().await),
    ];
    let begun = Instant::now();
    let gateways = [(); 2].map(|()| Program::sharing(&served, &server.socket(), LEASE));
    until_served(&gateways[..1]).await;
    let taken = begun.elapsed();
    let undecided = "SELECT count(*) FROM nsgate.batch WHERE verdict IS NULL";
    loop {
        let states = open_batches(gateways[0].admin).await.unwrap();
        if states.iter().all(|state| state == "watching") && server.sql(undecided) == "0" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ended = begun.elapsed();
    table.note(
        "two gateways start after a third has died: one of them owns the log",
        format!("{:.2} s", taken.as_secs_f64()),
    );
    table.at_most(
        &format!("{OPEN} open batches of it are over, after its lease"),
        ended.as_secs_f64() - f64::from(LEASE),
        10.0,
        "s",
    );
}
