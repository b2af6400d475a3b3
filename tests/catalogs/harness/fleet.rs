//! Gateways that share a log in PostgreSQL, with cables between everything that can be cut.

use std::net::TcpListener;
use std::process::Command;
use std::sync::LazyLock;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{Behind, Gateway};
use crate::cable::Cable;
use crate::postgres::{PASSWORD, Postgres};

/// Runs the cables.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
});

/// A log, and the cables of the gateways that share it.
pub struct SharedLog {
    /// The primary, and its standby.
    servers: [Postgres; 2],
    primary: usize,
    /// The cables from each gateway to each server.
    cables: Vec<[Cable; 2]>,
    /// The cables from the other gateways to each.
    entrances: Vec<Cable>,
}

impl SharedLog {
    /// Starts a primary with a standby that confirms every commit. Returns `None` without PostgreSQL, if that is allowed.
    pub fn start(gateways: usize) -> Option<Self> {
        let primary = Postgres::start()?;
        let mut prepare = Command::new(env!("CARGO_BIN_EXE_nsgate"));
        prepare.args(["log", "prepare", &primary.socket()]);
        let prepared = prepare.output().unwrap();
        assert!(prepared.status.success(), "{prepared:?}");
        let servers = [primary.standby(), primary];
        let cable = |port| RUNTIME.block_on(Cable::to(port));
        let cables = (0..gateways).map(|_| [0, 1].map(|server: usize| cable(servers[server].port)));
        let entrances = (0..gateways).map(|_| cable(free_port()));
        Some(Self {
            cables: cables.collect(),
            entrances: entrances.collect(),
            servers,
            primary: 1,
        })
    }

    /// Starts the gateways with more keys in each section.
    pub fn gateways(&self, catalogs: &[Behind<'_>], more: &Value) -> Vec<Gateway> {
        let mut first = more.clone();
        for (key, value) in self.keys(0).as_object().unwrap() {
            first["batch"][key] = value.clone();
        }
        let first = Gateway::configured(catalogs, &first);
        let others = (1..self.cables.len()).map(|gateway| first.beside(&self.keys(gateway)));
        let others: Vec<Gateway> = others.collect();
        std::iter::once(first).chain(others).collect()
    }

    /// Returns the keys of `batch` for one gateway.
    fn keys(&self, gateway: usize) -> Value {
        let [one, two] = &self.cables[gateway];
        let entrance = &self.entrances[gateway];
        json!({
            "log": format!("postgres://nsgate@127.0.0.1:{},127.0.0.1:{}/postgres", one.port, two.port),
            "log_password": PASSWORD,
            "gateways": {
                "address": format!("127.0.0.1:{}", entrance.server()),
                "advertise": format!("127.0.0.1:{}", entrance.port),
                "name": format!("gateway-{gateway}"),
            },
        })
    }

    /// The number of the gateway that owns the log; `None` if none does.
    pub fn owner(&self) -> Option<usize> {
        let name =
            self.sql("SELECT i.name FROM nsgate.log l JOIN nsgate.instance i ON i.id = l.owner");
        name.strip_prefix("gateway-")?.parse().ok()
    }

    /// Runs SQL on the primary.
    pub fn sql(&self, sql: &str) -> String {
        self.servers[self.primary].sql(sql)
    }

    /// Swallows what passes between a gateway and the servers.
    pub fn cut(&self, gateway: usize) {
        self.cables[gateway].iter().for_each(Cable::shut);
    }

    pub fn mend(&self, gateway: usize) {
        self.cables[gateway].iter().for_each(Cable::open);
    }

    /// Swallows what other gateways send to this one.
    pub fn isolate(&self, gateway: usize) {
        self.entrances[gateway].shut();
    }

    pub fn join(&self, gateway: usize) {
        self.entrances[gateway].open();
    }

    /// Ends the primary as a loss of power does, and starts it again.
    pub fn restart(&self) {
        self.servers[self.primary].crash();
        self.servers[self.primary].up();
    }

    /// Ends the primary as a loss of power does, and promotes the standby.
    pub fn fail_over(&mut self) {
        self.servers[self.primary].crash();
        self.promote();
    }

    /// Lets the primary fall silent, as a machine that hangs does, and promotes the standby.
    pub fn fall_silent(&mut self) {
        for cables in &self.cables {
            cables[self.primary].shut();
        }
        self.promote();
        self.servers[1 - self.primary].crash();
    }

    /// Makes the former primary the standby.
    pub fn rejoin(&self) {
        let former = 1 - self.primary;
        self.servers[former].follow(&self.servers[self.primary]);
        for cables in &self.cables {
            cables[former].open();
        }
    }

    fn promote(&mut self) {
        self.primary = 1 - self.primary;
        self.servers[self.primary].promote();
    }
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
