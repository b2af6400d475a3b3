//! A stand-in for systemd.

use std::fs::File;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::json;

use crate::catalog::faults::PATIENCE;
use crate::client::Client;
use crate::harness::World;
use crate::running_gateway::program;
use crate::token;

/// The file with the logs of all its gateways.
const LOG: &str = "managed.log";

/// A stand-in for systemd: it holds a unit's sockets, starts the program, and listens to its notifications.
pub(super) struct ServiceManager {
    pub(super) world: World,
    data: TcpListener,
    admin: TcpListener,
    notifications: UnixDatagram,
    path: PathBuf,
    running: Child,
}

impl ServiceManager {
    /// Takes over the configuration and the catalogs of `world`, whose gateway ends.
    pub(super) async fn of(mut world: World, variables: &[(&str, &str)]) -> Self {
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
    pub(super) fn notified(&self, awaited: &str) -> String {
        let mut all = String::new();
        let mut message = [0; 4096];
        // Signs of life alone must not keep it waiting.
        let end = Instant::now() + PATIENCE;
        while !all.lines().any(|line| line == awaited) {
            let received = self.notifications.recv(&mut message);
            let size = received.unwrap_or_else(|error| panic!("never {awaited}: {error}: {all}"));
            assert!(Instant::now() < end, "never {awaited}: {all}");
            all.push_str(std::str::from_utf8(&message[..size]).unwrap());
            all.push('\n');
        }
        all
    }

    /// Sends messages to its own socket, which it does not read, until there is no room for another one.
    pub(super) fn fill(&self) {
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
    pub(super) async fn reload(&self) {
        let served = async {
            self.operator().post_nothing("/reload").await.ok();
            self.serves().await;
        };
        let served = tokio::time::timeout(PATIENCE, served).await;
        served.expect("the gateway serves");
    }

    /// Checks that clients and operators are served.
    pub(super) async fn serves(&self) {
        let exists = "/v1/table/west%24t1/exists";
        let bearer = format!("Bearer {}", token::token(&json!({})));
        let client = Client::new(self.address()).header("authorization", &bearer);
        client.post(exists, &json!({})).await.ok();
        self.operator().get("/ready").await.ok();
    }

    fn operator(&self) -> Client {
        Client::new(self.admin.local_addr().unwrap())
    }

    /// Waits until the gateway has ended. Returns true if it ended well.
    pub(super) async fn ended(&mut self) -> bool {
        let ended = async {
            loop {
                if let Some(status) = self.running.try_wait().unwrap() {
                    return status.success();
                }
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, ended).await;
        ended.expect("the gateway stops")
    }

    /// The log of the gateway.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.world.folder().join(LOG)).unwrap()
    }

    pub(super) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.running.id());
        let sent = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(sent.success());
    }

    /// Stops the gateway, waits until it has ended, and starts another one on the same sockets.
    pub(super) fn restart(&mut self) {
        self.signal("TERM");
        self.notified("STOPPING=1");
        assert!(self.running.wait().unwrap().success());
        self.running = start(&self.world, &self.data, &self.admin, &self.path, &[]);
        self.notified("READY=1");
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.data.local_addr().unwrap()
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
