//! `nsgate check --online`: whether each catalog answers, whether batches can work with it and with their log, and whether
//! the keys of each issuer can be had.

use std::sync::Arc;

use futures_util::future::{OptionFuture, join_all};

use super::Failure;
use super::workers;
use crate::auth::keys::{Clock, Issuer, Keys, SystemClock};
use crate::backend::{Backend, Versioning};
use crate::batch::log::postgres;
use crate::config::load::Loaded;
use crate::config::{BackendConfig, Limits};
use crate::metrics::Metrics;

/// The answer of a backend, an issuer, or a batch log in PostgreSQL.
pub struct OnlineAnswer {
    /// The name of the backend or the issuer; `batch.log` for the log.
    pub name: String,
    /// The key in the configuration.
    pub key: String,
    /// The answer, and what to do if it is bad.
    pub words: String,
    /// True if it answers, and is not known to be unable to take part in batches.
    pub is_sound: bool,
}

/// Asks each configured catalog, with the gateway's own credentials or without any, for a table and its description, each issuer
/// for its keys, and the batch log. Returns the answers in the order of the backends' names, then the issuers', the log's last.
///
/// # Errors
/// A runtime cannot be started.
pub fn check_online(loaded: &Loaded) -> Result<Vec<OnlineAnswer>, Failure> {
    // An error only means that the process has a provider already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let runtime = workers::runtime().map_err(|error| Failure::Configuration(error.to_string()))?;
    let config = &loaded.config;
    let backends = config.backends.values();
    let metrics = Metrics::new();
    let asked = backends.map(|backend| ask(backend, &config.limits, &metrics));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let keys = Keys::new(&config.auth, &clock, metrics.auth());
    let keys = keys.map_err(|error| Failure::Configuration(error.to_string()))?;
    let issuers = keys.issuers().iter().map(ask_issuer);
    let (answers, issuers, log) = runtime.block_on(async {
        let log = config.batch.postgres();
        let log = log.as_ref().map(postgres::examine);
        let log: OptionFuture<_> = log.into();
        tokio::join!(join_all(asked), join_all(issuers), log)
    });
    let names = config.backends.keys();
    let names = names.map(|name| (name.clone(), format!("backends.{name}")));
    let log = log.map(|answer| (("batch.log".to_owned(), "batch.log".to_owned()), answer));
    let of = |(index, issuer): (usize, &Arc<Issuer>)| {
        let name = issuer.policy().issuer().to_owned();
        (name, format!("auth.issuers[{index}]"))
    };
    let issuers = keys.issuers().iter().enumerate().map(of).zip(issuers);
    let answers = names.zip(answers).chain(issuers).chain(log);
    let answers = answers.map(|((name, key), (words, is_sound))| OnlineAnswer {
        name,
        key,
        words,
        is_sound,
    });
    Ok(answers.collect())
}

/// Returns what is to be said about the keys of an issuer, and whether there are any.
async fn ask_issuer(issuer: &Arc<Issuer>) -> (String, bool) {
    issuer.refresh().await;
    if issuer.has_keys() {
        return ("works: its keys can be had".to_owned(), true);
    }
    let error = issuer.trouble().error;
    let cause = error.as_deref().unwrap_or("no answer");
    (
        format!("its tokens would be refused: its keys cannot be had: {cause}"),
        false,
    )
}

/// Returns what is to be said about one catalog, and whether it can do its part.
async fn ask(config: &BackendConfig, limits: &Limits, metrics: &Metrics) -> (String, bool) {
    let backend = match Backend::open(config, limits, metrics).await {
        Ok(backend) => backend,
        Err(error) => return (format!("cannot be opened: {error}"), false),
    };
    match backend.ask_versioning().await {
        Err(error) => (error, false),
        Ok(Versioning::Managed) => ("works: it says managed_versioning".to_owned(), true),
        Ok(_) if backend.sets_managed_versioning() => (
            "works: the gateway says managed_versioning for it; the catalog must be able to create versions"
                .to_owned(),
            true,
        ),
        Ok(Versioning::Unmanaged) => (
            "does not say managed_versioning, so clients write past the gateway: set `managed_versioning: set` if the catalog can create versions, else nothing is atomic"
                .to_owned(),
            false,
        ),
        Ok(Versioning::NotSeen) => ("answers, but has no table to look at".to_owned(), true),
    }
}
