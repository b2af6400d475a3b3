//! The processor time of the program, with one worker, for plain requests, for batches, and for both together.
//!
//! The cost of batches alone is subtracted from the cost of both. Batches alone cost a little more than beside
//! other requests, because the worker sleeps and wakes for each: so this figure is too good, and the one without
//! that part is printed as well.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

use super::crowd::Crowd;
use super::plain::CLIENTS;
use super::steady::{Ask, Steady, Work};
use super::thread::catalogs;
use super::{MORE, median, more};
use crate::processor;
use crate::program::{Client, Program};
use crate::table::Table;

const ROUNDS: usize = 9;
const RUN: Duration = Duration::from_millis(800);
/// The batches: on other tables of the plain requests' catalog, and of another one.
const WORK: Work = Work::Versions([0, 1]);

/// The processor time of the program in seconds, and the numbers of plain requests and batches that it answered.
#[derive(Clone, Copy)]
struct Used {
    seconds: f64,
    plain: f64,
    batches: f64,
}

pub async fn measure(table: &mut Table) {
    let catalogs = catalogs();
    let (mut addresses, names) = (Vec::new(), ["c0", "c1", "c2"]);
    for (catalog, name) in catalogs.iter().zip(names) {
        addresses.push((name, catalog.serve().await));
    }
    let program = Program::with(&addresses, ", workers: 1");
    let mut clients = Vec::new();
    for _ in 0..CLIENTS {
        clients.push(Arc::new(Mutex::new(Client::connect(program.address).await)));
    }
    let ask: Ask = Arc::new(move |client, target, body| {
        let client = Arc::clone(&clients[client]);
        Box::pin(async move {
            client.lock().await.post(target, None, body).await;
        })
    });
    let measured = async |plain: bool, batches: bool| {
        let batches = batches.then(|| Steady::begin(&catalogs, WORK, &ask));
        let plain = if plain {
            Some(Crowd::begin(&program).await)
        } else {
            None
        };
        tokio::time::sleep(RUN / 4).await;
        let before = processor::of_process(program.id());
        let count = || {
            (
                plain.as_ref().map_or(0, Crowd::done),
                batches.as_ref().map_or(0, Steady::done),
            )
        };
        let (plain_before, batches_before) = count();
        tokio::time::sleep(RUN).await;
        let used = processor::of_process(program.id()) - before;
        let (plain_after, batches_after) = count();
        if let Some(plain) = plain {
            plain.end().await;
        }
        if let Some(batches) = batches {
            batches.end().await;
        }
        Used {
            seconds: used.as_secs_f64(),
            plain: (plain_after - plain_before) as f64,
            batches: (batches_after - batches_before) as f64,
        }
    };
    let (mut alone, mut beside, mut apiece, mut all) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let plain = measured(true, false).await;
        let batches = measured(false, true).await;
        let both = measured(true, true).await;
        let each = batches.seconds / batches.batches;
        alone.push(plain.seconds / plain.plain * 1e6);
        beside.push((both.seconds - both.batches * each) / both.plain * 1e6);
        all.push(both.seconds / both.plain * 1e6);
        apiece.push(each * 1e6);
    }
    let times = |of: &Vec<f64>| format!("{:.2} µs", median(of.clone()));
    table.note(
        "a plain request through the program, nothing beside it",
        times(&alone),
    );
    table.note(
        "a batch through the program, nothing beside it",
        times(&apiece),
    );
    let figure =
        |with: Vec<f64>| median(alone.iter().zip(&with).map(|(a, b)| more(*a, *b)).collect());
    let whole = figure(all);
    table.at_most(
        "    with batches beside it, without what they cost alone: more",
        figure(beside),
        MORE,
        "%",
    );
    table.note("    with what they cost", format!("{whole:.2} %"));
}
