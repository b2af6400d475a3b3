//! The instructions of a plain request, counted by callgrind in the thread that sends it: they are the same on a
//! busy machine as on a calm one. Needs valgrind; without it there is no figure.

use std::process::{Command, Stdio};
use std::sync::Arc;

use nsgate::config::BatchConfig;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use super::plain::{CLIENTS, Plain};
use super::steady::Work;
use super::thread::catalogs;
use super::{MORE, more};
use crate::house::House;
use crate::table::Table;

/// The argument that makes this program the one that is counted.
pub const WORD: &str = "counted";
/// The number of requests between two batches: as many as fit in the first milliseconds of a second of 200
/// batches.
const BETWEEN: usize = 10;
const TURNS: usize = 300;
/// The counted function, as callgrind spells it.
const COUNTED: &str = "*asked_for_counting*";

/// The work that runs beside the plain requests.
const BESIDE: [(&str, Option<Work>); 3] = [
    ("nothing", None),
    ("versions", Some(Work::Versions([0, 1]))),
    ("names", Some(Work::Names([0, 1]))),
];

pub fn measure(table: &mut Table) {
    for kind in Plain::ALL {
        let [Some(nothing), Some(versions), Some(names)] =
            BESIDE.map(|(beside, _)| count(kind, beside))
        else {
            table.note("instructions", "no valgrind");
            return;
        };
        let figure = format!("{nothing:.0} instructions");
        table.note(&format!("{} without batches", kind.name()), figure);
        for (with, of) in [(versions, "versions"), (names, "names of tables")] {
            let what = format!("    a batch of {of} beside every {BETWEEN} requests: more");
            table.at_most(&what, more(nothing, with), MORE, "%");
        }
    }
}

/// Returns the number of instructions of one request; `None` without valgrind.
fn count(kind: Plain, beside: &str) -> Option<f64> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("callgrind.out");
    let ran = Command::new("valgrind")
        .args(["--tool=callgrind", "--fair-sched=yes"])
        .arg(format!("--toggle-collect={COUNTED}"))
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(std::env::current_exe().unwrap())
        .args([WORD, kind.name(), beside])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    let Ok(ended) = ran else {
        return None;
    };
    assert!(ended.success(), "what is counted has failed: {ended}");
    let counted = std::fs::read_to_string(file).unwrap();
    let total = counted
        .lines()
        .find_map(|line| line.strip_prefix("summary: "))
        .unwrap();
    let total: f64 = total.trim().parse().unwrap();
    Some(total / (BETWEEN * TURNS) as f64)
}

/// Runs the measurement itself, under valgrind.
pub fn counted(words: &[String]) {
    let kind = Plain::ALL
        .into_iter()
        .find(|kind| kind.name() == words[0])
        .unwrap();
    let (_, work) = BESIDE
        .into_iter()
        .find(|(name, _)| *name == words[1])
        .unwrap();
    let catalogs = catalogs();
    let house = Arc::new(House::new(&catalogs, BatchConfig::default()));
    let others = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let turns = Arc::new(Semaphore::new(0));
    for client in (0..CLIENTS).filter(|_| work.is_some()) {
        let (house, turns) = (Arc::clone(&house), Arc::clone(&turns));
        let catalogs = catalogs.clone();
        others.spawn(async move {
            loop {
                turns.acquire().await.unwrap().forget();
                let (target, body) = work.unwrap().next(&catalogs, client);
                house.post(target, body).await;
            }
        });
    }
    let own = Builder::new_current_thread().enable_all().build().unwrap();
    own.block_on(some(&house, kind));
    for _ in 0..TURNS {
        if work.is_some() {
            turns.add_permits(1);
        }
        asked_for_counting(&own, &house, kind);
    }
    // Waits until batches have run since the last turn, if there are any.
    while work.is_some() && turns.available_permits() > 0 {
        std::thread::yield_now();
    }
    own.block_on(house.close());
}

/// Sends the counted requests. A function of its own, so that callgrind can name it.
#[inline(never)]
fn asked_for_counting(own: &Runtime, house: &House, kind: Plain) {
    own.block_on(some(house, kind));
}

async fn some(house: &House, kind: Plain) {
    for client in 0..BETWEEN {
        house
            .send(&kind.target(client), kind.content_type(), kind.body())
            .await;
    }
}
