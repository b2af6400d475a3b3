//! A batch of one entry in one catalog, beside the same create sent to the catalog itself.

use crate::catalog::Catalog;
use crate::house::batch;
use crate::program::{Client, Program};
use crate::table::{Table, Times, millis};

const ROUNDS: u64 = 2000;
/// Not counted: connections are opened, caches filled.
const WARM_UP: u64 = 100;

pub async fn measure(table: &mut Table) {
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
    // One after the other within a round, so that whatever else the machine does meets all alike.
    for round in 0..WARM_UP + ROUNDS {
        let version = 2 + round;
        let create = format!(
            "{{\"id\":[\"direct\"],\"version\":{version},\"manifest_path\":\"staged/{version}\",\"manifest_size\":{}}}",
            1000 + version
        );
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
        1.0,
        "ms",
    );
    table.note(
        "the same with an Idempotency-Key (two waits for the disk)",
        format!("+ {:.2} ms", median(&keyed) - median(&alone)),
    );
}

fn one(table: &str) -> impl Iterator<Item = String> {
    std::iter::once(format!("c0\",\"{table}"))
}
