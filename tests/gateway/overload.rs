//! A crowd sends more requests than the catalog can serve.
//!
//! The gateway serves as many as the catalog can, tells the others to retry, and its memory stays flat. No load remains
//! when the crowd is gone.
//!
//! The catalog is the limit: it serves a fixed number of requests at a time and takes a fixed time for each.
//! `limits.in_flight` is set to match. Some callers send far more often than a caller may, and meet `limits.rate`.
//! The short run of `cargo test` checks the answers. `NSGATE_OVERLOAD_SECONDS=60` measures for that long and checks
//! the figures against their limits.

mod crowd;
mod shares;
mod slow_catalog;

use std::time::{Duration, Instant};

use serde_json::json;

use crate::harness::{Setup, World};
use crate::token;
use crowd::{Caller, Crowd, Tally};
use slow_catalog::Desk;

/// The number of requests that the catalog serves at a time, and the time for each: 500 requests in a second.
const CLERKS: usize = 10;
const SERVICE: Duration = Duration::from_millis(20);
/// The limit for requests in flight: for each clerk one that is served and one that is next.
const IN_FLIGHT: usize = 2 * CLERKS;
/// The requests that one caller may send in a second, a small part of the catalog's capacity, and those at once.
const RATE: usize = 20;
const BURST: usize = 50;

fn seconds() -> Option<u64> {
    std::env::var("NSGATE_OVERLOAD_SECONDS").ok()?.parse().ok()
}

async fn start(desk: &Desk) -> World {
    Setup::new()
        .mount("[west]", "west")
        .section(&format!(
            "limits: {{ in_flight: {IN_FLIGHT}, rate: {{ per_subject: {RATE}/s, burst: {BURST} }} }}"
        ))
        .section("telemetry: { level: error, access_log: false }")
        .at("west", format!("http://{}", desk.address))
        .start()
        .await
}

/// Makes the callers of a crowd: half of its requests are those of one caller; a hundred callers share the others.
fn callers() -> Vec<Caller> {
    let greedy = std::iter::repeat_n(Caller::named("greedy"), 100);
    let modest = (0..100).map(|number| Caller::named(&format!("modest-{number}")));
    greedy
        .zip(modest)
        .flat_map(|(one, other)| [one, other])
        .collect()
}

/// Measures the time until twenty requests in a row, at a quarter of the catalog's capacity, are served.
async fn recovery(world: &World, capacity: f64) -> Duration {
    let began = Instant::now();
    let client = world.anonymous();
    let bearer = |number: usize| token::token(&json!({ "sub": format!("late-{number}") }));
    let bearers: Vec<_> = (0..100)
        .map(|number| format!("Bearer {}", bearer(number)))
        .collect();
    let mut bearers = bearers.iter().cycle();
    let mut pace = tokio::time::interval(Duration::from_secs_f64(4.0 / capacity));
    let mut since = None;
    let mut in_a_row = 0;
    while in_a_row < 20 {
        pace.tick().await;
        assert!(
            began.elapsed() < Duration::from_secs(20),
            "it does not recover"
        );
        let target = "/v1/table/west%24t/exists";
        let client = client.header("authorization", bearers.next().unwrap());
        match client.post(target, &json!({})).await.status {
            200 => {
                since.get_or_insert_with(|| began.elapsed());
                in_a_row += 1;
            }
            _ => (since, in_a_row) = (None, 0),
        }
    }
    since.unwrap_or_default()
}

struct Figures {
    capacity: f64,
    offered: f64,
    goodput: f64,
    tally: Tally,
    resident: [usize; 3],
    recovery: Duration,
}

async fn measure(world: &World, desk: &Desk, time: Duration) -> Figures {
    let address = world.address();
    // This crowd just fills the catalog: each connection sends its next request as soon as the last is answered.
    let few = (0..100).map(|number| Caller::named(&format!("steady-{number}")));
    let steady = Crowd::new(address, few.collect(), IN_FLIGHT)
        .closed(time / 4)
        .await;
    assert_eq!(steady.odd, Vec::<String>::new());
    let capacity = steady.served as f64 / (time / 4).as_secs_f64();
    let before = world.resident();
    let crowd = Crowd::new(address, callers(), 200);
    let offered = capacity * 10.0;
    let (tally, most) = tokio::join!(crowd.open(offered, time), largest(world, time));
    let served_at_desk = desk.served();
    let recovery = recovery(world, capacity).await;
    assert!(
        served_at_desk >= tally.served,
        "every answer is the catalog's"
    );
    Figures {
        capacity,
        offered: tally.asked as f64 / time.as_secs_f64(),
        goodput: tally.served as f64 / time.as_secs_f64(),
        tally,
        resident: [before, most, world.resident()],
        recovery,
    }
}

async fn largest(world: &World, time: Duration) -> usize {
    let began = Instant::now();
    let mut most = 0;
    while began.elapsed() < time {
        most = most.max(world.resident());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_times_what_the_catalog_can_do_is_served_as_far_as_it_can_and_shed_in_good_form() {
    let measured = seconds();
    let time = Duration::from_secs(measured.unwrap_or(3));
    let desk = Desk::open(CLERKS, SERVICE).await;
    let world = start(&desk).await;
    let figures = measure(&world, &desk, time).await;
    let Figures {
        tally, resident, ..
    } = &figures;
    let [before, most, after] = *resident;
    println!(
        "overload for {} s; the catalog serves {CLERKS} at a time, {SERVICE:?} each",
        time.as_secs()
    );
    println!(
        "  capacity   {:>8.0} /s, measured with {IN_FLIGHT} callers",
        figures.capacity
    );
    println!(
        "  offered    {:>8.0} /s, {:.1} times of it",
        figures.offered,
        figures.offered / figures.capacity
    );
    println!(
        "  goodput    {:>8.0} /s, {:.0} % of capacity",
        figures.goodput,
        100.0 * figures.goodput / figures.capacity
    );
    println!("  shed 503   {:>8}", tally.shed);
    println!("  shed 429   {:>8}", tally.throttled);
    println!(
        "  not sent   {:>8}, for want of a free connection",
        tally.late
    );
    println!("  other      {:>8}", tally.odd.len());
    println!(
        "  resident   {before} KiB before, {most} during ({:.2} times), {after} after",
        most as f64 / before as f64
    );
    println!("  recovery   {} ms", figures.recovery.as_millis());
    assert_eq!(
        tally.odd,
        Vec::<String>::new(),
        "answers that are neither served nor shed in good form"
    );
    assert!(tally.served > 0 && tally.shed > 0 && tally.throttled > 0);
    assert_eq!(
        tally.asked,
        tally.served + tally.shed + tally.throttled,
        "everyone was answered"
    );
    if measured.is_some() {
        assert!(figures.goodput >= 0.8 * figures.capacity, "goodput");
        assert!(2 * most <= 3 * before, "memory");
        assert!(figures.recovery < Duration::from_secs(2), "recovery");
    }
}
