//! Checks the sections against each other, for problems that no single key can have.

mod audit;
mod authorization;
mod batches;
mod certificates;
mod meant;
mod prefixes;
mod same_catalog;

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use http::Uri;

use super::kind::is_plain_http_abroad;
use super::load::nearest::nearest;
use super::load::reader::Reader;
use super::{Config, Implementation, KeySource, RestConfig};
use crate::protocol::query::DEFAULT_DELIMITER;

/// Records the problems of `config` as a whole. Parts that could not be read are not reported again.
pub(super) fn whole(config: &Config, reader: &mut Reader<'_>) {
    addresses(config, reader);
    itself(config, reader);
    auth(config, reader);
    issuers(config, reader);
    context_of_some(config, reader);
    prefixes(config, reader);
    fixed_context(config, reader);
    mounts(config, reader);
    joined(config, reader);
    authorization::rules(config, reader);
    unused(config, reader);
    batches::backends(config, reader);
    same_catalog::same_catalog(config, reader);
    certificates::certificates(config, reader);
    certificates::unasked(config, reader);
    batch_log(config, reader);
    audit::audit(config, reader);
    token_bytes(config, reader);
    meant::otherwise(config, reader);
}

/// Warns about a longest token that no request can have.
fn token_bytes(config: &Config, reader: &mut Reader<'_>) {
    let limits = &config.limits;
    if limits.token_bytes >= limits.header_bytes && reader.has("limits.token_bytes") {
        reader.warn_at("limits.token_bytes", "is as much as `limits.header_bytes`, and a token is one of the headers; make limits.header_bytes larger");
    }
}

/// Warns about keys that show that a log in PostgreSQL was meant.
fn batch_log(config: &Config, reader: &mut Reader<'_>) {
    slot_cooldown(config, reader);
    if config.batch.log.file().is_none() || !reader.has_no_problem_below("batch.log") {
        return;
    }
    for key in ["log_password", "log_tls", "gateways"] {
        let key = format!("batch.{key}");
        if reader.has(&key) {
            reader.warn_at(&key, "is for a log in PostgreSQL, and `batch.log` is a file; remove it, or write an address such as postgres://nsgate@db.example/nsgate");
        }
    }
    log_file(config, reader);
}

/// Warns about a batch log that every user of this machine may read. That a group may is of use, as for volumes of
/// Kubernetes.
fn log_file(config: &Config, reader: &mut Reader<'_>) {
    const OTHERS: u32 = 0o007;
    let Some(log) = config.batch.log.file() else {
        return;
    };
    let mode = log.metadata().map_or(0, |log| log.mode());
    if mode & OTHERS != 0 {
        let log = log.display();
        reader.warn_at("batch.log", format!("every user of this machine may open it, and it has the names and places of tables; run `chmod o= {log}`"));
    }
}

/// Refuses settings with which the delete of a gateway that is dead could hit what another gateway has made since, or with
/// which a batch gives up before a gateway that is dead is known to be.
fn slot_cooldown(config: &Config, reader: &mut Reader<'_>) {
    const SHORTEST: Duration = Duration::from_secs(10);
    let batch = &config.batch;
    let Some(gateways) = batch
        .gateways
        .as_ref()
        .filter(|_| batch.log.file().is_none())
    else {
        return;
    };
    if batch.slot_cooldown < SHORTEST && reader.has("batch.slot_cooldown") {
        reader.problem_at("batch.slot_cooldown", "is too short for several gateways: a delete of a gateway that has died may still arrive; write 10s or more");
    }
    // A silent gateway is dead after 1.2 leases, which takes up to half a second to be seen.
    if batch.lease * 6 / 5 + Duration::from_secs(1) > batch.lock_timeout {
        let key = if reader.has("batch.lease") {
            "batch.lease"
        } else {
            "batch.gateways"
        };
        reader.problem_at(key, "is too near `batch.lock_timeout`: batches wait for a silent gateway for 1.2 leases; make `batch.lock_timeout` longer than that by 1 s or more");
    }
    if let Some(advertised) = &gateways.advertise
        && !advertised
            .parse::<http::uri::Authority>()
            .is_ok_and(|authority| authority.port().is_some() && !advertised.contains('@'))
    {
        reader.problem_at(
            "batch.gateways.advertise",
            format!("`{advertised}` is no host with a port; write it like 10.0.0.7:8079"),
        );
    }
    for (key, other) in [
        ("listen.address", config.listen.address),
        ("admin.address", config.admin.address),
    ] {
        let own = gateways.address;
        let same_host =
            own.ip() == other.ip() || own.ip().is_unspecified() || other.ip().is_unspecified();
        if own.port() != 0 && own.port() == other.port() && same_host {
            reader.problem_at(
                "batch.gateways.address",
                format!("is the same as `{key}`; give the gateways a port of their own"),
            );
        }
    }
    let is_known = !gateways.address.ip().is_unspecified() || gateways.advertise.is_some();
    if !is_known {
        reader.problem_at("batch.gateways", "the other gateways cannot be told `address`, which stands for all addresses of this host; write `advertise`, such as ${POD_IP}:8079");
    }
}

fn addresses(config: &Config, reader: &mut Reader<'_>) {
    let (listen, admin) = (config.listen.address, config.admin.address);
    let everywhere = |address: SocketAddr| address.ip().is_unspecified();
    let same_host = listen.ip() == admin.ip() || everywhere(listen) || everywhere(admin);
    if listen.port() != 0 && listen.port() == admin.port() && same_host {
        let key = if reader.has("admin.address") {
            "admin.address"
        } else {
            "listen.address"
        };
        reader.problem_at(
            key,
            format!(
                "listen and admin are both on port {}; give one of them another port",
                listen.port()
            ),
        );
    }
    if reader.has("admin.read_token") && !reader.has("admin.token") {
        reader.problem_at("admin.read_token", "stands without admin.token, so that everybody may change what it may only read; write `token: ${file:admin.token}` beside it");
    }
    if !admin.ip().is_loopback() && !reader.has("admin.token") {
        reader.problem_at("admin.address", "can be reached from other machines, and there is no admin.token; write `token: ${file:admin.token}` beside it, or listen on 127.0.0.1");
    }
}

/// Refuses the gateway's own address as a catalog's: a request would come back to it, again and again, until the
/// gateway serves as many as it may.
fn itself(config: &Config, reader: &mut Reader<'_>) {
    for (name, rest) in rest_backends(config) {
        let uri = std::iter::once(("properties.uri".to_owned(), &rest.uri));
        let further = rest.endpoints.iter().enumerate();
        let further = further.map(|(index, uri)| (format!("endpoints[{index}]"), uri));
        for (key, uri) in uri.chain(further) {
            let key = format!("backends.{name}.{key}");
            if leads_to(uri, config.listen.address) && reader.has_no_problem_below(&key) {
                reader.problem_at(&key, "is where the gateway itself listens (listen.address), so every request would come back to it; write the catalog's address");
            }
        }
    }
}

/// True if a request to `uri` from this machine reaches the listener at `listen`.
fn leads_to(uri: &Uri, listen: SocketAddr) -> bool {
    let default = if uri.scheme_str() == Some("https") {
        443
    } else {
        80
    };
    let host = uri.host().unwrap_or_default();
    let ip = match host {
        "localhost" if listen.ip().is_ipv6() => Ok(Ipv6Addr::LOCALHOST.into()),
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        host => host.trim_matches(['[', ']']).parse::<IpAddr>(),
    };
    let same_host = ip.is_ok_and(|ip| {
        ip == listen.ip()
            || listen.ip().is_unspecified() && (ip.is_loopback() || ip.is_unspecified())
    });
    uri.port_u16().unwrap_or(default) == listen.port() && same_host
}

fn auth(config: &Config, reader: &mut Reader<'_>) {
    if config.auth.anonymous && !config.auth.issuers.is_empty() {
        reader.problem_at("auth.anonymous", "is true although there are issuers; remove it so that tokens are checked, or remove the issuers");
    }
    let nobody = !config.auth.anonymous && config.auth.issuers.is_empty();
    if nobody && reader.has("auth") && reader.has_no_problem_below("auth") {
        reader.problem_at("auth", "lets nobody in; write `issuers: [{ issuer: https://idp.example, audiences: [catalog] }]`, or `anonymous: true` to let everyone in");
    }
}

fn issuers(config: &Config, reader: &mut Reader<'_>) {
    let mut first: HashMap<&str, usize> = HashMap::new();
    for (index, issuer) in config.auth.issuers.iter().enumerate() {
        let key = format!("auth.issuers[{index}].issuer");
        if issuer.issuer.is_empty() {
            continue;
        }
        if let Some(first) = first.insert(&issuer.issuer, index) {
            let place = reader.place(&format!("auth.issuers[{first}].issuer"));
            reader.problem_at(
                &key,
                format!("is the issuer at {place} again; merge the two"),
            );
        }
        let read = reader.has_no_problem_below(&key) && reader.has(&key);
        if issuer.keys.source != KeySource::Discovery || !read {
            continue;
        }
        match issuer.issuer.parse::<Uri>() {
            Ok(uri) if uri.scheme_str() == Some("https") && uri.host().is_some() => {}
            Ok(uri) if uri.scheme_str() == Some("http") && uri.host().is_some() => {
                if is_plain_http_abroad(&uri) {
                    reader.problem_at(&key, "its keys would be discovered over plain http, where anyone on the way can put in their own; write an https:// issuer, or `keys: { file: jwks.json }`");
                }
            }
            _ => reader.problem_at(&key, "is not an address, so its keys cannot be discovered; write `keys: { url: https://… }` or `keys: { file: jwks.json }` beside it"),
        }
    }
}

/// Warns if one issuer's claims set a context key that another issuer's callers may set themselves.
fn context_of_some(config: &Config, reader: &mut Reader<'_>) {
    let issuers = &config.auth.issuers;
    for (index, issuer) in issuers.iter().enumerate() {
        let unset = |key: &&String| !issuer.context.contains_key(*key);
        let by = issuers.iter().find_map(|other| {
            let key = other.context.keys().find(unset)?;
            Some((key, &other.issuer))
        });
        let place = format!("auth.issuers[{index}]");
        if let Some((key, other)) = by
            && reader.has_no_problem_below("auth.issuers")
        {
            reader.warn_at(&place, format!("its callers may set the context `{key}` themselves, which `{other}` sets from a claim; write `context: {{ {key}: CLAIM }}` here too, if a catalog relies on it"));
        }
    }
}

fn prefixes(config: &Config, reader: &mut Reader<'_>) {
    let prefixes = &config.context.prefixes;
    for (index, prefix) in prefixes.iter().enumerate() {
        if let Some(other) = prefixes[..index]
            .iter()
            .find(|other| prefix.starts_with(*other) || other.starts_with(prefix))
        {
            reader.problem_at(
                &format!("context.prefixes[{index}]"),
                format!("a header could have this prefix and `{other}` too; remove one of them"),
            );
        }
    }
}

/// Refuses a fixed header that is spelled as a context entry: a client's entry of that key would be sent in its
/// place.
fn fixed_context(config: &Config, reader: &mut Reader<'_>) {
    for (name, rest) in rest_backends(config) {
        let prefix = &config.backends[name].context_prefix;
        for (header, _) in &rest.headers {
            if header.as_str().replace('_', "-").starts_with(&**prefix) {
                let key = format!("backends.{name}.properties.headers.{header}");
                reader.problem_at(&key, format!("is spelled as an entry of the context, by `context_prefix: {prefix}`, so that a client's entry of that key would be sent instead; give one of the two another name"));
            }
        }
    }
}

fn mounts(config: &Config, reader: &mut Reader<'_>) {
    let names: Vec<&str> = config.backends.keys().map(String::as_str).collect();
    let mut first: HashMap<&[String], usize> = HashMap::new();
    for (index, mount) in config.mounts.iter().enumerate() {
        let known = mount.backend.is_empty() || reader.has(&format!("backends.{}", mount.backend));
        if !known {
            let cure = match nearest(&mount.backend, &names) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the backends are {}", names.join(", ")),
            };
            reader.problem_at(
                &format!("mounts[{index}].backend"),
                format!("there is no backend of this name; {cure}"),
            );
        }
        let key = format!("mounts[{index}].namespace");
        if !reader.has_no_problem_below(&key) || !reader.has(&key) {
            continue;
        }
        if let Some(first) = first.insert(&mount.namespace, index) {
            let place = reader.place(&format!("mounts[{first}].namespace"));
            reader.problem_at(&key, format!("[{}] is mounted at {place} already; one namespace has one backend, so remove one of the two", mount.namespace.join(", ")));
        }
    }
}

/// Warns about names that hold the delimiter: nearly no request can spell them, and a rule for them would stop no
/// caller.
fn joined(config: &Config, reader: &mut Reader<'_>) {
    let mounts = config.mounts.iter().enumerate();
    let mounts = mounts.flat_map(|(index, mount)| {
        let (ours, theirs) = (&mount.namespace, &mount.backend_namespace);
        let theirs = (theirs != ours).then_some(("mounts", index, "backend_namespace", theirs));
        [Some(("mounts", index, "namespace", ours)), theirs]
    });
    let rules = config.authorization.iter().flatten().enumerate();
    let rules = rules.map(|(index, rule)| ("authorization", index, "namespace", &rule.namespace));
    for (section, index, key, names) in mounts.flatten().chain(rules) {
        let joined = |name: &String| name.contains(DEFAULT_DELIMITER);
        let Some(place) = names.iter().position(joined) else {
            continue;
        };
        let key = format!("{section}[{index}].{key}");
        if reader.has_no_problem_below(&key) {
            let several = names[place].replace(DEFAULT_DELIMITER, ", ");
            reader.warn_at(&format!("{key}[{place}]"), format!("one name that holds `{DEFAULT_DELIMITER}`, which stands between names unless a request says otherwise; write {several} if several names are meant"));
        }
    }
}

fn unused(config: &Config, reader: &mut Reader<'_>) {
    let mounted = mounted(config);
    for name in config.backends.keys() {
        if !mounted.contains(&**name) && reader.has_no_problem_below("mounts") {
            reader.warn_at(
                &format!("backends.{name}"),
                "no mount uses this backend; mount it, or remove it",
            );
        }
    }
}

/// Returns the backends that serve mounts.
fn mounted(config: &Config) -> HashSet<&str> {
    config.mounts.iter().map(|mount| &*mount.backend).collect()
}

fn sound(reader: &Reader<'_>, name: &str) -> bool {
    reader.has_no_problem_below(&format!("backends.{name}"))
}

fn rest_backends(config: &Config) -> impl Iterator<Item = (&str, &RestConfig)> {
    config
        .backends
        .iter()
        .filter_map(|(name, backend)| match &backend.implementation {
            Implementation::Rest(rest) => Some((name.as_str(), &**rest)),
            Implementation::Dir(_) => None,
        })
}
