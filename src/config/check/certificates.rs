//! Checks whether the PEM files in a configuration can serve their purpose, and for how long.

use std::path::Path;
use std::time::{Duration, SystemTime};

use super::rest_backends;
use crate::config::load::reader::Reader;
use crate::config::{Config, ServerTls};
use crate::pem::{self, Unusable, Validity};
use crate::protocol::claims::TLS_SUBJECT;

/// The time before its expiry by which a certificate should have been renewed.
const SOON: Duration = Duration::from_secs(14 * 24 * 3600);
const DAY: u64 = 24 * 3600;

/// Records the files that cannot be used, and the certificates that have expired or will soon.
pub(super) fn certificates(config: &Config, reader: &mut Reader<'_>) {
    if let Some(tls) = &config.listen.tls {
        identity(reader, "listen.tls", &tls.certificate, &tls.private_key);
        if let Some(file) = &tls.client_ca {
            authorities(reader, "listen.tls.client_ca", file);
        }
    }
    if let Some(tls) = &config.admin.tls {
        identity(reader, "admin.tls", &tls.certificate, &tls.private_key);
        if let Some(file) = &tls.client_ca {
            authorities(reader, "admin.tls.client_ca", file);
        }
    }
    for (index, issuer) in config.auth.issuers.iter().enumerate() {
        if let Some(file) = &issuer.keys.ca {
            authorities(reader, &format!("auth.issuers[{index}].keys.ca"), file);
        }
    }
    let of_backends = rest_backends(config)
        .filter_map(|(name, rest)| Some((format!("backends.{name}.tls"), rest.tls.as_ref()?)));
    let of_log = config.batch.log_tls.iter();
    let of_log = of_log.map(|tls| ("batch.log_tls".to_owned(), tls));
    for (key, tls) in of_backends.chain(of_log) {
        if let Some(shown) = &tls.identity {
            identity(reader, &key, &shown.certificate, &shown.private_key);
        }
        if let Some(file) = &tls.ca {
            authorities(reader, &format!("{key}.ca"), file);
        }
    }
}

/// Warns if issuers use the subject of a client's certificate although clients are asked for none: it is absent then.
pub(super) fn unasked(config: &Config, reader: &mut Reader<'_>) {
    let asked = |tls: &ServerTls| tls.client_ca.is_some() || reader.has("listen.tls.client_ca");
    if config.listen.tls.as_ref().is_some_and(asked) {
        return;
    }
    let mut keys = Vec::new();
    for (index, issuer) in config.auth.issuers.iter().enumerate() {
        let named = issuer
            .context
            .iter()
            .filter(|(_, claim)| *claim == TLS_SUBJECT);
        keys.extend(named.map(|(key, _)| format!("auth.issuers[{index}].context.{key}")));
        if issuer.require.contains_key(TLS_SUBJECT) {
            keys.push(format!("auth.issuers[{index}].require.{TLS_SUBJECT}"));
        }
    }
    for key in keys {
        reader.warn_at(&key, format!("`{TLS_SUBJECT}` is of the client's certificate, and clients are asked for none; name their authorities in listen.tls.client_ca"));
    }
}

fn authorities(reader: &mut Reader<'_>, key: &str, file: &Path) {
    if sound(reader, key) {
        note(reader, key, pem::authorities(file));
    }
}

/// Checks the keys `certificate` and `private_key` of `table`.
fn identity(reader: &mut Reader<'_>, table: &str, certificate: &Path, private_key: &Path) {
    let (shown, secret) = (
        format!("{table}.certificate"),
        format!("{table}.private_key"),
    );
    let (has_shown, has_secret) = (sound(reader, &shown), sound(reader, &secret));
    let chain = has_shown.then(|| note(reader, &shown, pem::certificates(certificate)));
    let key = has_secret.then(|| note(reader, &secret, pem::key(private_key)));
    if let Some(Some(chain)) = &chain
        && let Some(validity) = pem::validity(&chain[0], SystemTime::now())
    {
        let is_own = matches!(table, "listen.tls" | "admin.tls");
        expiry(reader, &shown, is_own, certificate, validity);
    }
    if let (Some(Some(_)), Some(Some(_))) = (chain, key) {
        note(reader, &secret, pem::identity(certificate, private_key));
    }
}

/// Records an expiry. Clients would refuse the gateway's own certificate; an expired one towards a catalog concerns
/// that catalog alone, so it is only a warning.
fn expiry(reader: &mut Reader<'_>, key: &str, ours: bool, file: &Path, validity: Validity) {
    let file = file.display();
    let cure = if ours {
        "renew it, since clients refuse one whose time is over"
    } else {
        "renew it, since a catalog may refuse one whose time is over"
    };
    let (words, warning) = match validity {
        Validity::Good(left, _) if left >= SOON => return,
        Validity::Good(left, until) => {
            let days = left.as_secs() / DAY;
            (format!("expires in {days} days, at {until}; {cure}"), true)
        }
        Validity::Over(since) => (format!("expired at {since}; {cure}"), !ours),
        Validity::Ahead(until) => (
            format!("is not valid before {until}; set this machine's clock, or wait"),
            !ours,
        ),
    };
    let words = format!("the certificate in {file} {words}");
    if warning {
        reader.warn_at(key, words)
    } else {
        reader.problem_at(key, words)
    }
}

fn note<T>(reader: &mut Reader<'_>, key: &str, read: Result<T, Unusable>) -> Option<T> {
    read.map_err(|unusable| reader.problem_at(key, unusable.to_string()))
        .ok()
}

fn sound(reader: &Reader<'_>, key: &str) -> bool {
    reader.has(key) && reader.has_no_problem_below(key)
}
