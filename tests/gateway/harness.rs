//! Runs a gateway over catalogs of this process, configured as by an operator, in a folder of its own.
//!
//! The gateway is the real program, so that a kill is a real one and a restart finds what is on disk.

mod process;
mod setup;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::catalog::Catalog;
use crate::catalog::faults::PATIENCE;
use crate::client::{Client, Reply};
use crate::running_gateway::program;
use crate::{proc_status, token};
use process::Gateway;
pub use setup::Setup;

/// A running gateway and its catalogs.
pub struct World {
    pub catalogs: Vec<(&'static str, Catalog)>,
    gateway: Gateway,
    /// The gateway that owns the log, if the tested one is to pass requests on to it: `NSGATE_FOLLOWER_LOG`.
    _owner: Option<Gateway>,
    /// Further gateways with the same configuration.
    others: Vec<Gateway>,
    folder: TempDir,
}

impl World {
    /// Starts [`Setup::two`], with a table `t1` of one version in each catalog.
    pub async fn two() -> Self {
        Setup::two().start().await.seeded()
    }

    /// Adds a table `t1` of one version below each catalog's own name.
    pub fn seeded(self) -> Self {
        for (name, catalog) in &self.catalogs {
            catalog.store().seed(&[name, "t1"], 1);
        }
        self
    }

    pub fn catalog(&self, name: &str) -> &Catalog {
        let found = self.catalogs.iter().find(|(known, _)| *known == name);
        &found.expect("a catalog of this world").1
    }

    /// The address clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.gateway.address
    }

    /// A client with a valid token.
    pub fn client(&self) -> Client {
        self.client_with(&json!({}))
    }

    /// A client whose token has these claims in addition to the usual ones.
    pub fn client_with(&self, claims: &Value) -> Client {
        let bearer = format!("Bearer {}", token::token(claims));
        self.anonymous().header("authorization", &bearer)
    }

    /// Starts another gateway with the same configuration.
    pub async fn join(&mut self) {
        self.others.push(Gateway::start(&self.folder).await);
    }

    /// Starts another gateway with a configuration of its own.
    pub async fn join_with(&mut self, yaml: &str) {
        std::fs::write(self.folder().join("other.yaml"), yaml).unwrap();
        let other = Gateway::start_with(Command::new(program()), &self.folder, "other.yaml");
        self.others.push(other.await);
    }

    /// A client of another gateway with a valid token; 0 is the first one that has joined.
    pub fn client_at(&self, other: usize) -> Client {
        let bearer = format!("Bearer {}", token::token(&json!({})));
        Client::new(self.others[other].address).header("authorization", &bearer)
    }

    /// The address that clients of another gateway connect to.
    pub fn address_at(&self, other: usize) -> SocketAddr {
        self.others[other].address
    }

    /// A client of the admin address of another gateway.
    pub fn admin_at(&self, other: usize) -> Client {
        Client::new(self.others[other].admin)
    }

    /// The address operators connect to at another gateway.
    pub fn admin_address_at(&self, other: usize) -> SocketAddr {
        self.others[other].admin
    }

    /// The whole log of another gateway so far.
    pub fn log_at(&self, other: usize) -> String {
        self.others[other].log.lock().unwrap().clone()
    }

    /// Sends a signal to another gateway.
    pub fn signal_at(&self, other: usize, name: &str) {
        self.others[other].signal(name);
    }

    /// Stops the process of the gateway, as an overloaded machine may; `CONT` lets it go on.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Lets a process that was stopped go on.
    pub fn resume(&self) {
        self.signal("CONT");
    }

    /// A client without a token.
    pub fn anonymous(&self) -> Client {
        Client::new(self.gateway.address)
    }

    /// The address operators connect to.
    pub fn admin_address(&self) -> SocketAddr {
        self.gateway.admin
    }

    /// A client of the admin address.
    pub fn admin(&self) -> Client {
        Client::new(self.gateway.admin)
    }

    /// Returns the value of one sample of `/metrics`, by its name and labels as written there; 0 if it is absent.
    pub async fn metric(&self, sample: &str) -> f64 {
        let page = self.admin().get("/metrics").await.ok();
        let page = String::from_utf8(page.body.to_vec()).unwrap();
        let line = page.lines().find_map(|line| line.strip_prefix(sample));
        line.map_or(0.0, |value| value.trim().parse().unwrap())
    }

    /// The whole log of the gateway so far.
    pub fn log(&self) -> String {
        self.gateway.log.lock().unwrap().clone()
    }

    /// The gateway's resident memory in KiB.
    pub fn resident(&self) -> usize {
        proc_status::read(self.gateway.child.id(), "VmRSS") as usize
    }

    /// The number of open files that the kernel's table has room for, and the limit of open files.
    pub fn open_files(&self) -> [u64; 2] {
        let id = self.gateway.child.id();
        let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
        let limit = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max open files"));
        let limit = limit.unwrap().split_whitespace().next().unwrap();
        [proc_status::read(id, "FDSize"), limit.parse().unwrap()]
    }

    /// Kills the gateway, as `kill -9` does.
    pub fn kill(&mut self) {
        self.gateway.child.kill().unwrap();
        self.gateway.child.wait().unwrap();
    }

    /// Sends SIGTERM to the gateway, as a supervisor does to stop it.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    /// Sends SIGHUP to the gateway, as an operator does to reload its configuration.
    pub fn hang_up(&self) {
        self.signal("HUP");
    }

    /// The text of the configuration file.
    pub fn configuration(&self) -> String {
        std::fs::read_to_string(self.folder().join("gateway.yaml")).unwrap()
    }

    /// Replaces the configuration file without a signal to the gateway.
    pub fn configure(&self, yaml: &str) {
        std::fs::write(self.folder().join("gateway.yaml"), yaml).unwrap();
    }

    /// Replaces the configuration file and requests a reload.
    pub async fn reload(&self, yaml: &str) -> Reply {
        self.configure(yaml);
        self.admin().post_nothing("/reload").await
    }

    fn signal(&self, name: &str) {
        self.gateway.signal(name);
    }

    /// Waits for the end of the gateway and returns its exit code.
    pub async fn ended(&mut self) -> Option<i32> {
        let wait = async {
            loop {
                if let Some(status) = self.gateway.child.try_wait().unwrap() {
                    return status.code();
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        let ended = tokio::time::timeout(PATIENCE, wait).await.unwrap();
        self.gateway.log_is_read().await;
        ended
    }

    /// Starts the gateway again over the same catalogs and folder; its addresses are new.
    pub async fn restart(&mut self) {
        let _ = self.gateway.child.kill();
        let _ = self.gateway.child.wait();
        self.gateway = Gateway::start(&self.folder).await;
    }

    /// Restarts the gateway with a limit on the size of its files, in KiB: a write beyond it fails, as on a full
    /// disk.
    pub async fn restart_with_small_files(&mut self, kib: u64) {
        let _ = self.gateway.child.kill();
        let _ = self.gateway.child.wait();
        let limit = format!("ulimit -f {}; exec \"$0\" \"$@\"", kib * 2);
        let mut limited = Command::new("sh");
        limited.args(["-c", &limit, &program()]);
        self.gateway = Gateway::start_as(limited, &self.folder).await;
    }

    /// The folder of the configuration and the batch log.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts the program in a case in which it must refuse to start, and returns its exit code.
    pub async fn try_start(&self) -> Option<i32> {
        let mut child = Gateway::command(&self.folder).spawn().unwrap();
        let ended = tokio::task::spawn_blocking(move || {
            for _ in 0..PATIENCE.as_millis() / 5 {
                if let Some(status) = child.try_wait().unwrap() {
                    return status.code();
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
            None
        });
        ended.await.unwrap()
    }
}
