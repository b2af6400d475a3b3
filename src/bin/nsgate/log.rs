//! `nsgate log`: installs a batch log in PostgreSQL, and moves a batch log.

use std::time::Duration;

use nsgate::batch::log::postgres::prepare;
use nsgate::batch::log::transfer::{Place, transfer};
use nsgate::config::{ClientIdentity, ClientTls, LogAddress, PostgresAddress, PostgresLogConfig};
use tokio::runtime::Builder;

use crate::cli::{LogAccess, OfLog};

/// The time after which another gateway would take the log over from a move that has died.
const LEASE: Duration = Duration::from_secs(5);

/// Runs the command, and returns the text to print.
///
/// # Errors
/// A log cannot be used.
pub(crate) fn run(asked: &OfLog) -> Result<String, String> {
    // An error only means that the process has a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    match asked {
        OfLog::Prepare { at, grant, access } => {
            let LogAddress::Postgres(address) = at else {
                return Err(format!(
                    "{at} is a file, which the gateway makes itself; write an address such as postgres://admin@db.example/nsgate"
                ));
            };
            let config = access.config(address);
            let prepared = runtime.block_on(prepare(&config, grant.as_deref()));
            prepared.map_err(|error| error.to_string())?;
            Ok(format!("schema {} is installed at {at}", config.schema))
        }
        OfLog::Move { from, to, access } => {
            if from == to {
                return Err(format!("--from and --to are both {from}; name two logs"));
            }
            let (source, target) = (access.place(from), access.place(to));
            let moved = runtime.block_on(transfer(&source, &target));
            let moved = moved.map_err(|error| error.to_string())?;
            Ok(format!(
                "moved {moved} batches from {from} to {to}; set `batch.log: {to}`, then start the gateway"
            ))
        }
    }
}

impl LogAccess {
    fn config(&self, address: &PostgresAddress) -> PostgresLogConfig {
        let password = self.password.as_ref().map(|secret| secret.expose());
        let identity = self.certificate.clone().zip(self.private_key.clone());
        let identity = identity.map(|(certificate, private_key)| ClientIdentity {
            certificate,
            private_key,
        });
        let tls = ClientTls {
            ca: self.ca.clone(),
            identity,
        };
        let is_named = tls.ca.is_some() || tls.identity.is_some();
        let tls = is_named.then_some(&tls);
        PostgresLogConfig::new(address, password, tls, &self.schema, LEASE)
    }

    fn place(&self, address: &LogAddress) -> Place {
        match address {
            LogAddress::File(path) => Place::File(path.clone()),
            LogAddress::Postgres(address) => Place::Postgres(Box::new(self.config(address))),
        }
    }
}
