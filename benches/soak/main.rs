//! A soak: the program under a mixed load for minutes or hours, and what grows meanwhile.
//! `cargo bench --bench soak -- --minutes 120`; see benches/README.md.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a measurement that cannot be made ends; `pub` is for the other files here"
)]

#[path = "../batches/catalog.rs"]
#[allow(dead_code, reason = "the benchmark of batches uses more of it")]
mod catalog;
mod clients;
mod connection;
mod fill;
#[path = "../growth/fit.rs"]
mod fit;
#[path = "../../tests/support/forge.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod forge;
mod gateway;
mod issuer;
mod options;
#[path = "../../tests/support/proc_status.rs"]
#[allow(dead_code, reason = "the other benches use more of it")]
mod proc_status;
#[path = "../batches/processor.rs"]
#[allow(dead_code, reason = "the benchmark of batches uses more of it")]
mod processor;
mod report;
#[path = "../../tests/support/running_gateway.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod running_gateway;
mod site;
mod tally;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;

use clients::{CLIENTS, Client, Kind, TABLES, VERSIONS, Wallet};
use connection::{Connection, Message};
use gateway::Gateway;
use issuer::Issuer;
use options::{AWAY, Options};
use report::Report;
use site::Site;
use tally::{Ending, Tally};

/// The number of catalogs.
const SITES: usize = 3;

/// All parts of a soak.
pub struct World {
    sites: Vec<Arc<Site>>,
    issuer: Issuer,
    gateway: Gateway,
    tally: Tally,
    wallet: Wallet,
}

impl World {
    /// Returns one of many tokens.
    fn token(&self) -> Arc<str> {
        self.wallet
            .pick(|number| self.issuer.bearer(&format!("token{number}")))
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let options = Options::parse();
    let mut sites = Vec::new();
    for number in 0..SITES {
        sites.push(Arc::new(Site::start(format!("c{number}")).await));
    }
    for site in &sites {
        for table in 0..TABLES {
            for kept in [String::new(), format!("same%24{}%24", site.name)] {
                site.catalog.seed(format!("{kept}t{table:03}"), VERSIONS);
            }
        }
        for client in 0..CLIENTS {
            site.catalog.seed(clients::batched(client), 1);
        }
    }
    let spare = Site::start("spare".to_owned()).await;
    let issuer = Issuer::start().await;
    let world = Arc::new(World {
        gateway: Gateway::start(&sites, &spare, &issuer),
        sites,
        issuer,
        tally: Tally::default(),
        wallet: Wallet::new(),
    });
    fill::tokens(&world, options.fill).await;

    for (kind, share) in Kind::SHARES {
        let rate = options.rate * f64::from(share) / 100.0;
        // Enough of them for the rate if a request takes 50 ms.
        let clients = ((rate / 20.0).ceil() as usize).clamp(1, CLIENTS);
        for number in 0..clients {
            let every = Duration::from_secs_f64(clients as f64 / rate);
            tokio::spawn(Client::new(&world, kind, number).run(every));
        }
    }
    for number in 0..options.idle {
        tokio::spawn(Client::new(&world, Kind::Idle, number).run_idle());
    }
    tokio::spawn(reloads(Arc::clone(&world), options.reload));
    tokio::spawn(restarts(Arc::clone(&world), options.restart));
    tokio::spawn(rotations(Arc::clone(&world), options.rotation));

    let mut report = Report::begin(&world, &options);
    let mut minutes = tokio::time::interval(Duration::from_secs(60));
    minutes.tick().await;
    for _ in 0..options.minutes {
        minutes.tick().await;
        report.minute(&world).await;
    }
    if report.end(&world) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Reloads the configuration again and again, each time with another catalog and mount.
async fn reloads(world: Arc<World>, every: Duration) {
    for number in 1.. {
        tokio::time::sleep(every).await;
        world.gateway.change(number);
        if let Err(error) = reload(&world).await {
            let ending = Ending::Unexplained(format!("reload: {error}"));
            world.tally.add(Kind::Idle, ending);
        }
    }
}

async fn reload(world: &World) -> Result<(), String> {
    let mut operator = Connection::open(world.gateway.admin).await?;
    let message = Message::post("/reload".to_owned(), "", "");
    let (status, body) = operator.send(message).await?;
    if status.is_success() {
        return Ok(());
    }
    Err(format!("{status} {}", String::from_utf8_lossy(&body)))
}

/// Restarts the catalogs in turn.
async fn restarts(world: Arc<World>, every: Duration) {
    for site in world.sites.iter().cycle() {
        tokio::time::sleep(every).await;
        site.restart(AWAY).await;
    }
}

async fn rotations(world: Arc<World>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        world.issuer.rotate();
    }
}
