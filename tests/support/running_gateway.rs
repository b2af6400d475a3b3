//! Starts the program in a process of its own, and reads its addresses from its log.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};

/// A running gateway; killed when it is dropped.
pub struct RunningGateway {
    /// The address for clients.
    pub address: SocketAddr,
    /// The address for operators.
    pub admin: SocketAddr,
    child: Child,
}

/// Returns the path of the program; `NSGATE_BIN` names another build.
pub fn program() -> String {
    std::env::var("NSGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_nsgate").to_owned())
}

/// Returns the command that starts the program with the file `gateway.yaml` of a folder.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(program());
    command
        .args(["serve", "--config", "gateway.yaml"])
        .current_dir(folder);
    command
}

impl RunningGateway {
    /// Starts a gateway, and waits until it serves. Its log is read to the end, because a full pipe would stop it.
    pub fn start(command: &mut Command) -> Self {
        let (gateway, mut log) = Self::start_unread(command);
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        gateway
    }

    /// Starts a gateway, and waits until it serves. The caller gets the rest of its log, and has to read it.
    pub fn start_unread(command: &mut Command) -> (Self, BufReader<ChildStderr>) {
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap());
        let (mut said, mut admin) = (String::new(), None);
        let address = loop {
            let from = said.len();
            let read = log.read_line(&mut said).unwrap();
            assert!(read > 0, "the gateway did not start:\n{said}");
            let find = |mark: &str| -> Option<SocketAddr> {
                let (_, address) = said[from..].trim().split_once(mark)?;
                address.split('"').next()?.parse().ok()
            };
            admin = admin.or_else(|| find("nsgate admin on http://"));
            if let Some(address) = find("nsgate listening on http://") {
                break address;
            }
        };
        let gateway = Self {
            address,
            admin: admin.expect("it says first where operators reach it"),
            child,
        };
        (gateway, log)
    }

    /// Returns the id of its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended; `None` if it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }
}

impl Drop for RunningGateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
