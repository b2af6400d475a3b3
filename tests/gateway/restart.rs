//! Restarts under load: on sockets that the service manager holds, and of two gateways one after the other. No
//! connection is refused for good, and no request fails.

mod service_manager;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use crate::batches::until;
use crate::harness::{Setup, World};
use crate::load::Connection;
use service_manager::ServiceManager;

const RESTARTS: usize = 3;
const CLIENTS: usize = 8;

/// The outcome of the requests of one client, or of all.
#[derive(Debug, Default)]
struct Sum {
    served: usize,
    connections: usize,
    /// The number of connections that were refused.
    refused: usize,
    /// The number of requests that came while their connection closed, and were sent again.
    told_off: usize,
    failed: Vec<String>,
}

/// Sends requests over one connection after the other to any of `addresses`, until `stop` is set. If a connection is
/// refused, the next address is tried.
fn client(
    number: usize,
    addresses: &Arc<Mutex<Vec<SocketAddr>>>,
    stop: &Arc<AtomicBool>,
) -> JoinHandle<Sum> {
    let (addresses, stop) = (Arc::clone(addresses), Arc::clone(stop));
    tokio::spawn(async move {
        let mut sum = Sum::default();
        let table = ["west%24t1", "east%24t1"][number % 2];
        for turn in number.. {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            let address = {
                let addresses = addresses.lock().unwrap();
                addresses[turn % addresses.len()]
            };
            let Ok(connection) = Connection::at(address, number.is_multiple_of(3), table).await
            else {
                sum.refused += 1;
                continue;
            };
            let asked = connection.go_on(&stop).await.unwrap();
            sum.add(Sum {
                served: asked.served,
                connections: 1,
                refused: 0,
                told_off: asked.told_off.into(),
                failed: asked.failed.into_iter().collect(),
            });
        }
        sum
    })
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.served += other.served;
        self.connections += other.connections;
        self.refused += other.refused;
        self.told_off += other.told_off;
        self.failed.extend(other.failed);
    }

    /// Prints the figures, and checks that no request failed, and that the catalogs have carried out each one that was
    /// answered, once, and no other.
    fn check(&self, restarts: usize, world: &World) {
        let carried_out = seen(world);
        println!(
            "{restarts} restarts: {} requests on {} connections, {} connections refused, {} requests failed; \
             {} were told to come again; the catalogs carried out {carried_out}",
            self.served,
            self.connections,
            self.refused,
            self.failed.len(),
            self.told_off,
        );
        assert_eq!(self.failed, Vec::<String>::new());
        assert_eq!(self.served, carried_out, "answered, and carried out");
    }
}

fn seen(world: &World) -> usize {
    let catalogs = ["west", "east"].map(|name| world.catalog(name));
    let seen = catalogs.map(|catalog| catalog.seen_of("count_table_rows").len());
    seen.iter().sum()
}

async fn loaded(world: &World) {
    let before = seen(world);
    until("requests are served", || seen(world) >= before + 200).await;
}

async fn finish(clients: Vec<JoinHandle<Sum>>, stop: &AtomicBool) -> Sum {
    stop.store(true, Ordering::Relaxed);
    let mut all = Sum::default();
    for client in clients {
        all.add(client.await.unwrap());
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_on_a_held_socket_refuse_no_connection_and_fail_no_request() {
    let mut manager = ServiceManager::of(World::two().await, &[]).await;
    let addresses = Arc::new(Mutex::new(vec![manager.address()]));
    let stop = Arc::default();
    let clients = (0..CLIENTS).map(|number| client(number, &addresses, &stop));
    let clients: Vec<_> = clients.collect();
    for _ in 0..RESTARTS {
        loaded(&manager.world).await;
        tokio::task::block_in_place(|| manager.restart());
    }
    loaded(&manager.world).await;
    let sum = finish(clients, &stop).await;
    sum.check(RESTARTS, &manager.world);
    assert_eq!(sum.refused, 0);
    assert!(sum.connections >= CLIENTS * (RESTARTS + 1), "{sum:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_that_are_restarted_in_turn_fail_no_request_of_clients_that_know_both() {
    let mut world = World::two().await;
    let own_log = |name: &str| {
        let yaml = world.configuration();
        yaml.replace("log: batches.redb", &format!("log: {name}.redb"))
    };
    let (second, third) = (own_log("second"), own_log("third"));
    world.join_with(&second).await;
    let both = vec![world.address(), world.address_at(0)];
    let addresses = Arc::new(Mutex::new(both));
    let stop = Arc::default();
    let clients = (0..CLIENTS).map(|number| client(number, &addresses, &stop));
    let clients: Vec<_> = clients.collect();
    loaded(&world).await;
    world.terminate();
    assert_eq!(world.ended().await, Some(0));
    world.restart().await;
    addresses.lock().unwrap()[0] = world.address();
    loaded(&world).await;
    world.signal_at(0, "TERM");
    world.join_with(&third).await;
    addresses.lock().unwrap()[1] = world.address_at(1);
    loaded(&world).await;
    finish(clients, &stop).await.check(2, &world);
}

#[tokio::test]
async fn the_service_manager_is_told_of_each_change_and_that_the_gateway_lives() {
    let world = Setup::two().start().await.seeded();
    let manager = ServiceManager::of(world, &[("WATCHDOG_USEC", "2000000")]).await;
    manager.notified("WATCHDOG=1");
    manager.signal("HUP");
    let told = manager.notified("RELOADING=1");
    assert!(told.contains("MONOTONIC_USEC="), "{told}");
    manager.notified("READY=1");
    manager.serves().await;
    manager.signal("TERM");
    manager.notified("STOPPING=1");
}

#[tokio::test]
async fn a_service_manager_that_reads_late_is_told_all_and_holds_nothing_up() {
    let world = Setup::two().start().await.seeded();
    let manager = ServiceManager::of(world, &[("WATCHDOG_USEC", "20000")]).await;
    manager.fill();
    for _ in 0..4 {
        manager.reload().await;
    }
    for reload in 0..4 {
        let told = manager.notified("READY=1");
        assert!(told.contains("RELOADING=1"), "reload {reload}: {told}");
    }
    manager.notified("WATCHDOG=1");
}

#[tokio::test]
async fn a_service_manager_that_never_reads_does_not_keep_the_gateway_from_stopping() {
    let world = Setup::two().start().await.seeded();
    let mut manager = ServiceManager::of(world, &[]).await;
    manager.fill();
    for _ in 0..12 {
        manager.reload().await;
    }
    manager.signal("TERM");
    assert!(manager.ended().await);
    let log = manager.log();
    let lost = "the service manager does not read NOTIFY_SOCKET, and was not told the state";
    for state in ["READY=1", "STOPPING=1"] {
        let mut lines = log.lines().filter(|line| line.contains(lost));
        assert!(lines.any(|line| line.contains(state)), "{state}: {log}");
    }
}

#[tokio::test]
async fn the_health_path_says_without_a_token_whether_the_gateway_is_ready() {
    let setup = Setup::two().listen("health_path: /healthz");
    let mut world = setup.start().await.seeded();
    assert_eq!(world.anonymous().get("/healthz").await.status, 200);
    assert_eq!(world.anonymous().get("/v1/table").await.status, 401);
    assert_eq!(world.anonymous().get("/other").await.status, 404);
    let gate = world.catalog("west").hold("count_table_rows");
    let held = Connection::open(&world, false, "west%24t1").await;
    let held = held.go_on(&Arc::default());
    gate.reached(1).await;
    // A connection that is open when the gateway begins to stop may ask once more.
    let kept = tokio::net::TcpStream::connect(world.address())
        .await
        .unwrap();
    let (mut sender, driver) =
        hyper::client::conn::http1::handshake(hyper_util::rt::TokioIo::new(kept))
            .await
            .unwrap();
    tokio::spawn(driver);
    let mut ask = async || {
        let request = http::Request::get("/healthz").header("host", "gateway");
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new());
        sender.ready().await.unwrap();
        let answer = sender.send_request(request.unwrap()).await.unwrap();
        answer.status().as_u16()
    };
    assert_eq!(ask().await, 200);
    world.terminate();
    until("the gateway drains", || {
        world.log().contains("shutting down")
    })
    .await;
    assert_eq!(ask().await, 503);
    gate.open();
    held.await.unwrap();
    assert_eq!(world.ended().await, Some(0));
}
