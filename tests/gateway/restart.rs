//! Restarts under load: on sockets that the service manager holds, and of two gateways one after the other. No
//! connection is refused for good, and no request fails.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::json;
use tokio::task::JoinHandle;

use crate::batches::until;
use crate::catalog::faults::PATIENCE;
use crate::client::Client;
use crate::harness::{Setup, World};
use crate::load::Connection;
use crate::running_gateway::program;
use crate::token;

/// The file with the logs of all gateways of a service manager.
const LOG: &str = "managed.log";
const RESTARTS: usize = 3;
const CLIENTS: usize = 8;

/// A stand-in for systemd: it holds a unit's sockets, starts the program, and listens to its notifications.
struct ServiceManager {
    world: World,
    data: TcpListener,
    admin: TcpListener,
    notifications: UnixDatagram,
    path: PathBuf,
    running: Child,
}

impl ServiceManager {
    /// Takes over the configuration and the catalogs of `world`, whose gateway ends.
    async fn of(mut world: World, variables: &[(&str, &str)]) -> Self {
        world.terminate();
        assert_eq!(world.ended().await, Some(0));
        let path = world.folder().join("notify");
        let notifications = UnixDatagram::bind(&path).unwrap();
        notifications.set_read_timeout(Some(PATIENCE)).unwrap();
        let (data, admin) = (socket(), socket());
        let running = start(&world, &data, &admin, &path, variables);
        let manager = Self {
            world,
            data,
            admin,
            notifications,
            path,
            running,
        };
        manager.notified("READY=1");
        manager
    }

    /// Waits for a notification, and returns all that came until then.
    fn notified(&self, awaited: &str) -> String {
        let mut all = String::new();
        let mut message = [0; 4096];
        while !all.lines().any(|line| line == awaited) {
            let size = self.notifications.recv(&mut message).unwrap();
            all.push_str(std::str::from_utf8(&message[..size]).unwrap());
            all.push('\n');
        }
        all
    }

    /// Sends messages to its own socket, which it does not read, until there is no room for another one.
    fn fill(&self) {
        let mut sent = 1;
        while sent > 0 {
            // A new socket each time, because each may have only so many messages under way.
            let sender = UnixDatagram::unbound().unwrap();
            sender.set_nonblocking(true).unwrap();
            sent = 0;
            while sender.send_to(b"FULL=1", &self.path).is_ok() {
                sent += 1;
            }
        }
    }

    /// Reloads the configuration, and then checks that clients and operators are served.
    async fn reload(&self) {
        let admin = Client::new(self.admin.local_addr().unwrap());
        let served = async {
            admin.post_nothing("/reload").await.ok();
            let exists = "/v1/table/west%24t1/exists";
            self.client().post(exists, &json!({})).await.ok();
            admin.get("/ready").await.ok();
        };
        let served = tokio::time::timeout(PATIENCE, served).await;
        served.expect("the gateway serves");
    }

    /// The log of the gateway.
    fn log(&self) -> String {
        std::fs::read_to_string(self.world.folder().join(LOG)).unwrap()
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.running.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
    }

    /// Stops the gateway, waits until it has ended, and starts another one on the same sockets.
    fn restart(&mut self) {
        self.signal("TERM");
        self.notified("STOPPING=1");
        assert!(self.running.wait().unwrap().success());
        self.running = start(&self.world, &self.data, &self.admin, &self.path, &[]);
        self.notified("READY=1");
    }

    fn address(&self) -> SocketAddr {
        self.data.local_addr().unwrap()
    }

    fn client(&self) -> Client {
        let bearer = format!("Bearer {}", token::token(&json!({})));
        Client::new(self.address()).header("authorization", &bearer)
    }
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        let _ = self.running.kill();
        let _ = self.running.wait();
    }
}

fn socket() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").unwrap()
}

/// Starts the program with the sockets as its descriptors 3 and 4.
fn start(
    world: &World,
    data: &TcpListener,
    admin: &TcpListener,
    notifications: &Path,
    variables: &[(&str, &str)],
) -> Child {
    let passed = |socket: &TcpListener| Stdio::from(OwnedFd::from(socket.try_clone().unwrap()));
    let script = "export LISTEN_PID=$$ LISTEN_FDS=2 LISTEN_FDNAMES=data:admin; \
                  exec \"$0\" serve --config gateway.yaml 3<&0 4<&1 </dev/null >/dev/null";
    let log = world.folder().join(LOG);
    let log = File::options().create(true).append(true).open(log).unwrap();
    Command::new("sh")
        .args(["-c", script, &program()])
        .current_dir(world.folder())
        .env_clear()
        .env("NOTIFY_SOCKET", notifications)
        .envs(variables.iter().copied())
        .stdin(passed(data))
        .stdout(passed(admin))
        .stderr(log)
        .spawn()
        .unwrap()
}

/// The outcome of one client's requests.
#[derive(Debug, Default)]
struct Sum {
    served: usize,
    connections: usize,
    failed: Vec<String>,
}

/// Sends requests over one connection after the other to any of `addresses`, until `stop` is set. `refused` counts
/// the connections that were refused; the next address is tried then.
fn client(
    number: usize,
    addresses: &Arc<Mutex<Vec<SocketAddr>>>,
    stop: &Arc<AtomicBool>,
    refused: &Arc<AtomicUsize>,
) -> JoinHandle<Sum> {
    let (addresses, stop, refused) = (Arc::clone(addresses), Arc::clone(stop), Arc::clone(refused));
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
                refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            let asked = connection.go_on(&stop).await.unwrap();
            sum.connections += 1;
            sum.served += asked.served;
            sum.failed.extend(asked.failed);
        }
        sum
    })
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
        let sum = client.await.unwrap();
        all.served += sum.served;
        all.connections += sum.connections;
        all.failed.extend(sum.failed);
    }
    all
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn restarts_on_a_held_socket_refuse_no_connection_and_fail_no_request() {
    let mut manager = ServiceManager::of(World::two().await, &[]).await;
    let addresses = Arc::new(Mutex::new(vec![manager.address()]));
    let (stop, refused) = (Arc::default(), Arc::default());
    let clients = (0..CLIENTS).map(|number| client(number, &addresses, &stop, &refused));
    let clients: Vec<_> = clients.collect();
    for _ in 0..RESTARTS {
        loaded(&manager.world).await;
        tokio::task::block_in_place(|| manager.restart());
    }
    loaded(&manager.world).await;
    let sum = finish(clients, &stop).await;
    println!(
        "{RESTARTS} restarts: {} requests on {} connections, {} refused, {} failed",
        sum.served,
        sum.connections,
        refused.load(Ordering::Relaxed),
        sum.failed.len()
    );
    assert_eq!(sum.failed, Vec::<String>::new());
    assert_eq!(refused.load(Ordering::Relaxed), 0);
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
    let (stop, refused) = (Arc::default(), Arc::default());
    let clients = (0..CLIENTS).map(|number| client(number, &addresses, &stop, &refused));
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
    let sum = finish(clients, &stop).await;
    println!(
        "2 restarts: {} requests on {} connections, {} failed",
        sum.served,
        sum.connections,
        sum.failed.len()
    );
    assert_eq!(sum.failed, Vec::<String>::new());
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
    let exists = "/v1/table/west%24t1/exists";
    manager.client().post(exists, &json!({})).await.ok();
    let admin = Client::new(manager.admin.local_addr().unwrap());
    admin.get("/ready").await.ok();
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
    let ended = async {
        loop {
            if let Some(status) = manager.running.try_wait().unwrap() {
                return status.success();
            }
            tokio::task::yield_now().await;
        }
    };
    let ended = tokio::time::timeout(PATIENCE, ended).await;
    assert!(ended.expect("the gateway stops"));
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
