//! The memory that remains in use after batches are forgotten.

use std::sync::Arc;
use std::time::Duration;

use nsgate::batch::MemoryUse;
use nsgate::config::BatchConfig;

use crate::catalog::Catalog;
use crate::house::House;
use crate::proc_status;
use crate::table::Table;

const CLIENTS: usize = 64;
/// The numbers of batches after which the memory is measured.
const LOOKS: [usize; 4] = [25_000, 50_000, 100_000, 200_000];
/// The highest growth of the memory from the second to the last measurement, in percent.
const GROWTH: f64 = 5.0;

pub async fn measure(table: &mut Table) {
    let catalogs = [Catalog::default(), Catalog::default()];
    for catalog in &catalogs {
        for client in 0..CLIENTS {
            catalog.seed(format!("t{client}"), 1);
        }
    }
    let settings = BatchConfig {
        remember_outcomes: Duration::from_millis(100),
        slot_cooldown: Duration::ZERO,
        ..BatchConfig::default()
    };
    let house = Arc::new(House::new(&catalogs, settings));
    let (mut done, mut sizes) = (0, Vec::new());
    for look in LOOKS {
        // Old batches are forgotten after every 5,000 batches, as happens once a minute in the
        // gateway.
        while done < look {
            let each = 5_000 / CLIENTS;
            let tasks: Vec<_> = (0..CLIENTS)
                .map(|client| {
                    let (house, first) = (Arc::clone(&house), 2 + done / CLIENTS);
                    tokio::spawn(async move {
                        for version in first..first + each {
                            house.batch(2, &format!("t{client}"), version as u64).await;
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            done += each * CLIENTS;
            while !house.batches.open().is_empty() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            tokio::time::sleep(Duration::from_millis(120)).await;
            house.batches.forget().await.unwrap();
        }
        let size = resident();
        sizes.push(size);
        table.note(
            &format!("after {done} batches: {}", counted(house.batches.kept())),
            format!("{size:.1} MiB"),
        );
    }
    house.close().await;
    let grown = (sizes[3] / sizes[1] - 1.0) * 100.0;
    table.at_most(
        "memory of the process, last line over the second",
        grown,
        GROWTH,
        "%",
    );
}

fn counted(kept: MemoryUse) -> String {
    let MemoryUse {
        locks,
        lines,
        open,
        outcomes,
    } = kept;
    format!("{locks} locks, {lines} lines, {open} open, {outcomes} outcomes")
}

/// Returns the resident memory of this process, in MiB.
pub fn resident() -> f64 {
    proc_status::mebibytes(std::process::id(), "VmRSS")
}

/// Returns the peak of the resident memory of this process, in MiB.
pub fn most() -> f64 {
    proc_status::mebibytes(std::process::id(), "VmHWM")
}

/// Resets the peak, so that earlier use does not count for [`most`].
pub fn forget_most() {
    proc_status::forget_peak(std::process::id());
}
