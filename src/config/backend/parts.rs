//! The keys inside `pool`, `health`, `breaker`, `retry`, `tls` and `oauth` of a backend, and their allowed ranges; their
//! defaults are in `config/backend.rs`.

use std::path::PathBuf;
use std::time::Duration;

use http::Uri;

use super::{Breaker, ClientIdentity, ClientTls, Health, OAuth, Pool, Retry, Selects};
use crate::config::Secret;
use crate::config::keys::{Keys, Section};
use crate::config::kind::{
    Scalar, Shaped, context_key_name, duration, file, flag, guarded_uri, list, maybe, percent,
    secret, selecting_header, text, url_path, whole,
};
use crate::config::load::reader::Reader;

fn wait() -> Scalar<Duration> {
    duration(Duration::from_millis(10), Duration::from_secs(3600))
}

/// The table `tls` in the form of the file.
pub(in crate::config) struct ClientTlsFile {
    ca: Option<PathBuf>,
    certificate: Option<PathBuf>,
    private_key: Option<PathBuf>,
}

impl Section for ClientTlsFile {
    fn blank() -> Self {
        ClientTls::default().to_file()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "ca",
            &mut self.ca,
            maybe(file()),
            "Authorities trusted instead of the system's (PEM).",
        );
        keys.key(
            "certificate",
            &mut self.certificate,
            maybe(file()),
            "The certificate shown to the server, leaf first (PEM).",
        );
        keys.key(
            "private_key",
            &mut self.private_key,
            maybe(file()),
            "Its private key (PEM).",
        );
    }
}

impl Shaped for ClientTls {
    type File = ClientTlsFile;

    fn from_file(file: ClientTlsFile, reader: &mut Reader<'_>) -> Option<Self> {
        match (reader.has("certificate"), reader.has("private_key")) {
            (true, false) => {
                reader.problem_at("certificate", "has no key; write private_key beside it")
            }
            (false, true) => reader.problem_at(
                "private_key",
                "has no certificate; write certificate beside it",
            ),
            _ => {}
        }
        let identity = match (file.certificate, file.private_key) {
            (Some(certificate), Some(private_key)) => Some(ClientIdentity {
                certificate,
                private_key,
            }),
            _ => None,
        };
        Some(Self {
            ca: file.ca,
            identity,
        })
    }

    fn to_file(&self) -> ClientTlsFile {
        let identity = self.identity.clone();
        let (certificate, private_key) = identity
            .map(|identity| (identity.certificate, identity.private_key))
            .unzip();
        ClientTlsFile {
            ca: self.ca.clone(),
            certificate,
            private_key,
        }
    }
}

impl Section for Selects {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "context",
            &mut self.context,
            list(0, "keys of context, such as [tenant]", context_key_name()),
            "Keys of context by which the catalog chooses the data.",
        );
        keys.key(
            "headers",
            &mut self.headers,
            list(
                0,
                "names of headers, such as [x-lancedb-database]",
                selecting_header(),
            ),
            "Headers of clients by which it does.",
        );
    }
}

impl Section for OAuth {
    fn blank() -> Self {
        Self {
            token_url: Uri::default(),
            client_id: String::new(),
            client_secret: Secret::new(""),
            scope: None,
            audience: None,
            exchange: false,
        }
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.required(
            "token_url",
            &mut self.token_url,
            guarded_uri(),
            "write the issuer's token endpoint, such as https://idp.example/token",
            "The token endpoint.",
        );
        keys.required(
            "client_id",
            &mut self.client_id,
            text("the gateway's client id"),
            "write the gateway's client id at the issuer",
            "The gateway's client id.",
        );
        keys.required(
            "client_secret",
            &mut self.client_secret,
            secret("the client's secret, such as ${CLIENT_SECRET}"),
            "write the client's secret, such as ${CLIENT_SECRET}",
            "Its secret.",
        );
        keys.key(
            "scope",
            &mut self.scope,
            maybe(text("scopes, separated by spaces")),
            "`scope` to ask for.",
        );
        keys.key(
            "audience",
            &mut self.audience,
            maybe(text("an audience")),
            "`audience` to ask for.",
        );
        keys.key(
            "exchange",
            &mut self.exchange,
            flag(),
            "Exchange the caller's token (RFC 8693) instead of using the gateway's own.",
        );
    }
}

impl Section for Pool {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "max_idle",
            &mut self.max_idle,
            whole(0, 100_000),
            "Idle connections kept for each endpoint.",
        );
        keys.key(
            "idle_timeout",
            &mut self.idle_timeout,
            wait(),
            "How long one is kept.",
        );
        keys.key(
            "connect_timeout",
            &mut self.connect_timeout,
            wait(),
            "How long opening one may take.",
        );
    }
}

impl Section for Health {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "path",
            &mut self.path,
            url_path(),
            "Path (and query) below the base address.",
        );
        keys.key(
            "interval",
            &mut self.interval,
            wait(),
            "Time between two health checks.",
        );
        keys.key(
            "timeout",
            &mut self.timeout,
            wait(),
            "How long an answer may take.",
        );
    }
}

impl Section for Breaker {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "failures",
            &mut self.failures,
            whole(1, 1_000_000),
            "Failures in a row that open it.",
        );
        keys.key(
            "open_for",
            &mut self.open_for,
            wait(),
            "How long it stays open.",
        );
    }
}

impl Section for Retry {
    fn blank() -> Self {
        Self::default()
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "attempts",
            &mut self.attempts,
            whole(1, 10),
            "Attempts in all, the first one included; 1: no retry.",
        );
        keys.key(
            "budget",
            &mut self.budget_percent,
            percent(),
            "Retries, at most this share of requests.",
        );
    }
}
