//! The program itself in a process of its own, and what the kernel counts of it.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;

use crate::running_gateway::{self, RunningGateway};
use crate::{proc_status, processor};

/// The file of its batch log.
pub const LOG: &str = "batches.redb";

/// A running gateway; killed when it is dropped.
pub struct Program {
    pub address: SocketAddr,
    pub admin: SocketAddr,
    gateway: RunningGateway,
    folder: TempDir,
}

/// The parts of a configuration that differ between measurements.
#[derive(Default)]
pub struct Setup {
    /// The section `auth`; empty: everyone is let in.
    pub auth: String,
    /// The addresses of the catalogs `c0`, `c1` and so on.
    pub catalogs: Vec<String>,
    /// The lines of `mounts`; empty: each catalog's root is mounted under its name.
    pub mounts: String,
    /// Further sections.
    pub more: String,
}

impl Setup {
    /// Returns a setup over catalogs at these addresses.
    pub fn over(catalogs: impl IntoIterator<Item = SocketAddr>) -> Self {
        let catalogs = catalogs.into_iter().map(|address| address.to_string());
        Self {
            catalogs: catalogs.collect(),
            ..Self::default()
        }
    }

    pub fn yaml(&self) -> String {
        let auth = match &*self.auth {
            "" => "auth: { anonymous: true }",
            auth => auth,
        };
        let mut yaml = format!(
            "listen: {{ address: \"127.0.0.1:0\", workers: 1 }}\nadmin: {{ address: \"127.0.0.1:0\" }}\n\
             batch: {{ log: {LOG} }}\ntelemetry: {{ access_log: false }}\n{auth}\n{}backends:\n",
            self.more
        );
        for (number, address) in self.catalogs.iter().enumerate() {
            let _ = writeln!(
                yaml,
                "  c{number}: {{ implementation: rest, properties: {{ uri: \"http://{address}\" }}, batch: versions, \
                 authorization: none, health: {{ interval: 1h }} }}"
            );
        }
        yaml.push_str("mounts:\n");
        yaml.push_str(&self.mounts);
        if self.mounts.is_empty() {
            for number in 0..self.catalogs.len() {
                let _ = writeln!(
                    yaml,
                    "  - {{ namespace: [c{number}], backend: c{number}, backend_namespace: [] }}"
                );
            }
        }
        yaml
    }

    /// Starts the program in a new folder.
    pub fn start(&self) -> Program {
        Program::start(tempfile::tempdir().unwrap(), &self.yaml(), &[])
    }
}

impl Program {
    /// Starts the program in this folder, with these files in it, and waits until it serves.
    pub fn start(folder: TempDir, yaml: &str, files: &[(&str, &str)]) -> Self {
        for (name, content) in files.iter().chain(&[("gateway.yaml", yaml)]) {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        let program = running_gateway::command(folder.path());
        // Clients and catalogs of the bench share the processors with the gateway, and would keep it waiting. For
        // anyone but root, `nice` warns, and starts it all the same.
        let mut command = Command::new("nice");
        command.args(["-n", "-20"]).arg(program.get_program());
        command.args(program.get_args()).current_dir(folder.path());
        let gateway = RunningGateway::start(&mut command);
        Self {
            address: gateway.address,
            admin: gateway.admin,
            gateway,
            folder,
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the processor time of its threads, to the nanosecond.
    pub fn processor_time(&self) -> Duration {
        processor::of_process(self.gateway.id())
    }

    /// Returns the time for which its worker was ready to run, and had no processor.
    pub fn waited(&self) -> Duration {
        processor::waited_by_main_thread(self.gateway.id())
    }

    /// Returns its processor time in seconds with that of threads that have ended, to ten milliseconds.
    pub fn seconds(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.gateway.id())).unwrap();
        // The fields after the name, which is in parentheses: user and system time are the 12th and 13th.
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2);
        ticks
            .map(|ticks| ticks.parse::<f64>().unwrap() / 100.0)
            .sum()
    }

    /// Returns its resident memory, in MiB.
    pub fn resident(&self) -> f64 {
        proc_status::mebibytes(self.gateway.id(), "VmRSS")
    }

    /// Returns the most that this was since the start or [`Program::forget_peak`].
    pub fn peak(&self) -> f64 {
        proc_status::mebibytes(self.gateway.id(), "VmHWM")
    }

    pub fn forget_peak(&self) {
        proc_status::forget_peak(self.gateway.id());
    }
}
