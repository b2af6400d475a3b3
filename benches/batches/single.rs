//! A batch of one entry in one catalog, compared with the same create sent to the catalog directly: from one client,
//! and from many.

use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::catalog::Catalog;
use crate::house::batch;
use crate::program::{Client, Program};
use crate::table::{Table, Times, millis};

const ROUNDS: u64 = 2000;
/// The number of rounds that are not counted, in which connections are opened and caches are filled.
const WARM_UP: u64 = 100;

/// The number of clients, each with a connection of its own to the gateway and to the catalog.
const CLIENTS: usize = 64;
/// The interval at which each client sends a request, alternately to the catalog and to the gateway: together about
/// half of the capacity of two cores.
const EVERY: Duration = Duration::from_millis(80);
const STEADY: Duration = Duration::from_secs(6);
/// The most that a batch of one entry takes more than a create, in milliseconds. As every batch, it waits for the disk
/// twice.
const MORE: f64 = 1.5;

pub async fn measure(table: &mut Table) {
    one_client(table).await;
    many_clients(table).await;
}

async fn one_client(table: &mut Table) {
    let catalog = Catalog::default();
    for name in ["direct", "through", "keyed"] {
        catalog.seed(name, 1);
    }
    let address = catalog.serve().await;
    let program = Program::start(&[("c0", address)]);
    let mut direct = Client::connect(address).await;
    let mut gateway = Client::connect(program.address).await;
    let [mut alone, mut through, mut keyed] = [(); 3].map(|()| Times::default());
    let target = "/v1/table/version/batch-create";
    // Both are measured in each round, so that other load on the machine affects them alike.
    for round in 0..WARM_UP + ROUNDS {
        let version = 2 + round;
        let create = create("direct", version);
        let times = [
            direct
                .post("/v1/table/direct/version/create", None, create)
                .await,
            gateway
                .post(target, None, batch(one("through"), version))
                .await,
            gateway
                .post(
                    target,
                    Some(format!("k{version}")),
                    batch(one("keyed"), version),
                )
                .await,
        ];
        if round >= WARM_UP {
            for (all, time) in [&mut alone, &mut through, &mut keyed]
                .into_iter()
                .zip(times)
            {
                all.add(time);
            }
        }
    }
    let median = |times: &Times| millis(times.median());
    table.note(
        "a create sent to the catalog itself, median",
        format!("{:.3} ms", median(&alone)),
    );
    table.at_most(
        "a batch of one entry over that, difference of medians",
        median(&through) - median(&alone),
        MORE,
        "ms",
    );
    table.note(
        "the same with an Idempotency-Key",
        format!("+ {:.2} ms", median(&keyed) - median(&alone)),
    );
}

/// Measures many clients at a fixed rate. If each sent its next request at once, all would wait for each other, and
/// the times would depend on the number of clients only.
async fn many_clients(table: &mut Table) {
    let catalog = Catalog::default();
    let address = catalog.serve().await;
    let program = Program::start(&[("c0", address)]);
    let begin = Instant::now() + EVERY;
    let mut clients = JoinSet::new();
    for client in 0..CLIENTS {
        let names = ["direct", "through"].map(|name| format!("{name}{client}"));
        names.iter().for_each(|name| catalog.seed(name, 1));
        let mut direct = Client::connect(address).await;
        let mut gateway = Client::connect(program.address).await;
        clients.spawn(async move {
            let [mut alone, mut through] = [(); 2].map(|()| Times::default());
            let first = begin + EVERY * client as u32 / CLIENTS as u32;
            let mut turns = tokio::time::interval_at(first.into(), EVERY);
            for version in 2.. {
                turns.tick().await;
                if first.elapsed() > STEADY {
                    break;
                }
                let path = format!("/v1/table/{}/version/create", names[0]);
                alone.add(direct.post(&path, None, create(&names[0], version)).await);
                turns.tick().await;
                let body = batch(one(&names[1]), version);
                let target = "/v1/table/version/batch-create";
                through.add(gateway.post(target, None, body).await);
            }
            [alone, through]
        });
    }
    let [mut alone, mut through] = [(); 2].map(|()| Times::default());
    for [direct, gateway] in clients.join_all().await {
        alone.extend(direct);
        through.extend(gateway);
    }
    let rate = (alone.len() + through.len()) as f64 / STEADY.as_secs_f64();
    let direct = millis(alone.median());
    table.note(
        &format!("{CLIENTS} clients, {rate:.0} requests a second: a create itself, median"),
        format!("{direct:.3} ms"),
    );
    table.at_most(
        &format!("a batch of one entry over that, {CLIENTS} clients"),
        millis(through.median()) - direct,
        MORE,
        "ms",
    );
    let slowest = [&alone, &through].map(|times| format!("{:.2} ms", millis(times.quantile(0.99))));
    table.note("    of a hundred the slowest", slowest.join(" and "));
}

fn create(table: &str, version: u64) -> String {
    format!(
        "{{\"id\":[\"{table}\"],\"version\":{version},\"manifest_path\":\"staged/{version}\",\"manifest_size\":{}}}",
        1000 + version
    )
}

fn one(table: &str) -> impl Iterator<Item = String> {
    std::iter::once(format!("c0\",\"{table}"))
}
