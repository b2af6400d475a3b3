//! One run of the program: its addresses, its log, and its end.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use tempfile::TempDir;

use crate::catalog::faults::PATIENCE;
use crate::client::Client;
use crate::running_gateway::program;

/// One run of the program.
pub(super) struct Gateway {
    pub(super) child: Child,
    pub(super) address: SocketAddr,
    pub(super) admin: SocketAddr,
    pub(super) log: Arc<Mutex<String>>,
    /// Reads the log until every process that writes it has ended.
    reader: JoinHandle<()>,
}

impl Gateway {
    pub(super) fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
    }

    pub(super) fn command(folder: &TempDir) -> Command {
        Self::command_as(Command::new(program()), folder)
    }

    fn command_as(command: Command, folder: &TempDir) -> Command {
        Self::command_with(command, folder, "gateway.yaml")
    }

    fn command_with(mut command: Command, folder: &TempDir, config: &str) -> Command {
        command
            .args(["serve", "--config", config])
            .current_dir(folder.path())
            .env_clear()
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        command
    }

    pub(super) async fn start(folder: &TempDir) -> Self {
        Self::start_as(Command::new(program()), folder).await
    }

    /// Starts `program`, which is the gateway or executes it.
    pub(super) async fn start_as(program: Command, folder: &TempDir) -> Self {
        Self::start_with(program, folder, "gateway.yaml").await
    }

    pub(super) async fn start_with(program: Command, folder: &TempDir, config: &str) -> Self {
        let mut child = Self::command_with(program, folder, config).spawn().unwrap();
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (found, addresses) = mpsc::channel();
        let lines = log.clone();
        let reader = std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                for what in ["nsgate listening on ", "nsgate admin on "] {
                    if let Some((_, rest)) = line.split_once(what) {
                        let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
                        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ':');
                        let _ = found.send((what, rest[..end.unwrap_or(rest.len())].parse()));
                    }
                }
                let mut lines = lines.lock().unwrap();
                lines.push_str(&line);
                lines.push('\n');
            }
        });
        let collected = tokio::task::spawn_blocking(move || {
            let mut both = (None, None);
            while both.0.is_none() || both.1.is_none() {
                match addresses.recv_timeout(PATIENCE).ok()? {
                    (what, Ok(address)) if what.contains("admin") => both.1 = Some(address),
                    (_, address) => both.0 = address.ok(),
                }
            }
            both.0.zip(both.1)
        });
        let Some((address, admin)) = collected.await.unwrap() else {
            let _ = child.kill();
            panic!("the gateway did not start:\n{}", log.lock().unwrap());
        };
        let ready = async {
            // An admin address with TLS answers 400 to plain HTTP, which also shows that it listens.
            while ![200, 400].contains(&Client::new(admin).get("/ready").await.status) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let ready = tokio::time::timeout(PATIENCE, ready).await;
        assert!(ready.is_ok(), "never ready:\n{}", log.lock().unwrap());
        Self {
            child,
            address,
            admin,
            log,
            reader,
        }
    }

    /// Waits until the log of a process that has ended is read; a successor that writes the same one is not waited for.
    pub(super) async fn log_is_read(&self) {
        for _ in 0..200 {
            if self.reader.is_finished() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let log = self
                .log
                .lock()
                .map_or_else(|_| String::new(), |log| log.clone());
            eprintln!("the gateway's log:\n{log}");
        }
    }
}
