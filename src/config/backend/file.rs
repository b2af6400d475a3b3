//! A backend in the form of the file: one flat table, whatever the implementation.

use std::collections::BTreeMap;

use http::header::AUTHORIZATION;
use http::{HeaderName, HeaderValue, Uri};

use super::directory::{directory, shown_properties};
use super::properties::{Properties, rest_properties, static_header, unknown_property};
use super::{
    Authorization, BackendConfig, BatchMode, Breaker, ClientTls, DirConfig, Health, Implementation,
    ManagedVersioning, OAuth, Pool, RestConfig, Retry, Selects,
};
use crate::config::keys::{Keys, Section};
use crate::config::kind::{
    Shaped, base_uri, choice, flag, forwardable_header, header_prefix, header_value, list, maybe,
    parse_base_uri, shaped, table,
};
use crate::config::load::reader::{Reader, Text};
use crate::protocol::identifier::PathReading;

#[derive(Debug, Clone, Copy, PartialEq)]
enum ImplementationName {
    Rest,
    Dir,
}

const IMPLEMENTATIONS: [(&str, ImplementationName); 2] = [
    ("rest", ImplementationName::Rest),
    ("dir", ImplementationName::Dir),
];
const AUTHORIZATIONS: [(&str, Authorization); 2] = [
    ("forward", Authorization::Forward),
    ("none", Authorization::None),
];
const VERSIONINGS: [(&str, ManagedVersioning); 2] = [
    ("keep", ManagedVersioning::Keep),
    ("set", ManagedVersioning::Set),
];
const BATCHES: [(&str, BatchMode); 3] = [
    ("auto", BatchMode::Auto),
    ("atomic", BatchMode::Atomic),
    ("versions", BatchMode::Versions),
];

const DELIMITERS: [(&str, bool); 2] = [("default", false), ("any", true)];

/// Keys that only a catalog behind HTTP can have.
const REST_ONLY: [&str; 15] = [
    "selects",
    "endpoints",
    "forward_headers",
    "raw_path",
    "delimiters",
    "authorization",
    "service_authorization",
    "oauth",
    "tls",
    "http2",
    "context_prefix",
    "pool",
    "health",
    "breaker",
    "retry",
];

/// An entry of `backends` in the form of the file.
pub(in crate::config) struct BackendFile {
    implementation: Option<ImplementationName>,
    properties: BTreeMap<String, Text>,
    endpoints: Vec<Uri>,
    authorization: Authorization,
    service_authorization: Option<HeaderValue>,
    oauth: Option<OAuth>,
    managed_versioning: ManagedVersioning,
    tls: Option<ClientTls>,
    http2: bool,
    context_prefix: String,
    batch: BatchMode,
    pool: Pool,
    health: Health,
    breaker: Breaker,
    retry: Retry,
    forward_headers: Option<Vec<HeaderName>>,
    raw_path: bool,
    delimiters: bool,
    selects: Option<Selects>,
}

impl Section for BackendFile {
    fn blank() -> Self {
        let mut blank = BackendConfig::rest("", Uri::default()).to_file();
        blank.properties.clear();
        blank
    }

    fn keys(&mut self, keys: &mut Keys<'_, '_>) {
        keys.required(
            "implementation",
            &mut self.implementation,
            maybe(choice(&IMPLEMENTATIONS)),
            "write `rest` for a running service, or `dir` for a directory",
            "How the catalog is reached: a running service, or a directory (cargo feature `dir`).",
        );
        keys.required(
            "properties",
            &mut self.properties,
            Properties,
            "write `properties: { uri: http://… }` for rest, or `properties: { root: ./data }` for dir",
            "rest: uri, and headers.NAME for each header to send. dir: root, and what else the directory implementation knows.",
        );
        keys.key(
            "endpoints",
            &mut self.endpoints,
            list(0, "addresses, such as [http://127.0.0.1:2334]", base_uri()),
            "Further base addresses of the same catalog.",
        );
        keys.key(
            "authorization",
            &mut self.authorization,
            choice(&AUTHORIZATIONS),
            "Forward the caller's token, or none.",
        );
        keys.key(
            "service_authorization",
            &mut self.service_authorization,
            maybe(header_value()),
            "Authorization of the gateway's own requests: health checks, rollback, recovery.",
        );
        keys.key(
            "oauth",
            &mut self.oauth,
            maybe(table()),
            "Client credentials or token exchange, instead of service_authorization.",
        );
        keys.key("managed_versioning", &mut self.managed_versioning, choice(&VERSIONINGS), "`set` answers true in describe and declare, so that clients commit through the catalog.");
        self.connection(keys);
    }
}

impl BackendFile {
    fn connection(&mut self, keys: &mut Keys<'_, '_>) {
        keys.key(
            "tls",
            &mut self.tls,
            maybe(shaped()),
            "Own authority and client certificate; absent: the system's authorities.",
        );
        keys.key(
            "http2",
            &mut self.http2,
            flag(),
            "Speak HTTP/2: over https where the catalog offers it (ALPN), over http always (prior knowledge).",
        );
        keys.key(
            "context_prefix",
            &mut self.context_prefix,
            header_prefix(),
            "Prefix of the headers that carry context to this catalog.",
        );
        keys.key("batch", &mut self.batch, choice(&BATCHES), "`atomic` has its own atomic batch-create, `versions` creates and deletes single versions, `auto` finds out.");
        keys.key(
            "selects",
            &mut self.selects,
            maybe(table()),
            "What selects the catalog's data besides the path, such as { context: [tenant] }; {} for nothing. Batches with context need it.",
        );
        keys.key("pool", &mut self.pool, table(), "Connections kept open.");
        keys.key(
            "health",
            &mut self.health,
            table(),
            "Health checks of the catalog.",
        );
        keys.key(
            "breaker",
            &mut self.breaker,
            table(),
            "Circuit breaker: when to stop sending to an address that fails.",
        );
        keys.key(
            "retry",
            &mut self.retry,
            table(),
            "How read operations are retried.",
        );
        keys.key(
            "forward_headers",
            &mut self.forward_headers,
            maybe(list(0, "names of headers, such as [x-acme-trace]", forwardable_header())),
            "The only headers of clients that go on, beside accept, authorization, content-type and others that every request may need; absent: all but those by which proxies assert who is calling.",
        );
        keys.key(
            "raw_path",
            &mut self.raw_path,
            flag(),
            "The catalog, and every proxy before it, routes on the path as it was sent: names may hold an encoded `/` and what else reads as another path once decoded.",
        );
        keys.key(
            "delimiters",
            &mut self.delimiters,
            choice(&DELIMITERS),
            "`any` sends the client's own delimiter, to a catalog that honours the parameter `delimiter`; `default` spells identifiers with `$`.",
        );
    }
}

impl Shaped for BackendConfig {
    type File = BackendFile;

    fn from_file(mut file: BackendFile, reader: &mut Reader<'_>) -> Option<Self> {
        let properties = std::mem::take(&mut file.properties);
        let (context_prefix, managed_versioning, batch, selects) = (
            std::mem::take(&mut file.context_prefix),
            file.managed_versioning,
            file.batch,
            file.selects.take(),
        );
        selecting_headers(
            selects.as_ref(),
            &file,
            &properties,
            &context_prefix,
            reader,
        );
        let implementation = match file.implementation? {
            ImplementationName::Rest => {
                Implementation::Rest(Box::new(rest(file, &properties, reader)?))
            }
            ImplementationName::Dir => Implementation::Dir(dir(&properties, reader)?),
        };
        Some(Self {
            name: String::new(),
            implementation,
            context_prefix,
            managed_versioning,
            batch,
            selects,
        })
    }

    fn to_file(&self) -> BackendFile {
        let (implementation, properties, rest) = match &self.implementation {
            Implementation::Rest(rest) => (
                ImplementationName::Rest,
                rest_properties(rest),
                (**rest).clone(),
            ),
            Implementation::Dir(dir) => (
                ImplementationName::Dir,
                shown_properties(dir),
                RestConfig::new(Uri::default()),
            ),
        };
        BackendFile {
            implementation: Some(implementation),
            properties,
            endpoints: rest.endpoints,
            authorization: rest.authorization,
            service_authorization: rest.service_authorization,
            oauth: rest.oauth,
            managed_versioning: self.managed_versioning,
            tls: rest.tls,
            http2: rest.http2,
            context_prefix: self.context_prefix.clone(),
            batch: self.batch,
            pool: rest.pool,
            health: rest.health,
            breaker: rest.breaker,
            retry: rest.retry,
            forward_headers: rest.forward_headers,
            raw_path: rest.reading.raw_path,
            delimiters: rest.reading.any_delimiter,
            selects: self.selects.clone(),
        }
    }
}

fn rest(
    file: BackendFile,
    properties: &BTreeMap<String, Text>,
    reader: &mut Reader<'_>,
) -> Option<RestConfig> {
    let mut uri = None;
    let mut headers: Vec<(HeaderName, HeaderValue)> = Vec::new();
    for (name, text) in properties {
        let read = match name.strip_prefix("headers.") {
            Some(header) => {
                static_header(header, text, &headers).map(|header| headers.push(header))
            }
            None if name == "uri" => parse_base_uri(text).map(|parsed| uri = Some(parsed)),
            None => Err(unknown_property(name)),
        };
        if let Err(message) = read {
            reader.problem_at(&format!("properties.{name}"), message);
        }
    }
    if reader.has("properties") && !reader.has("properties.uri") {
        reader.problem_at(
            "properties",
            "has no `uri`; write the catalog's base address, such as uri: http://127.0.0.1:2333",
        );
    }
    if file.service_authorization.is_some() && file.oauth.is_some() {
        reader.problem_at("oauth", "stands beside service_authorization; keep the one that the gateway's own requests are to use");
    }
    traded(&file, &headers, reader);
    let uri = uri?;
    let encrypted = file
        .endpoints
        .iter()
        .chain([&uri])
        .chain(file.oauth.as_ref().map(|oauth| &oauth.token_url))
        .any(|uri| uri.scheme_str() == Some("https"));
    if file.tls.is_some() && !encrypted {
        reader.warn_at("tls", "has no effect on a catalog at http://; write https:// in properties.uri, or remove tls");
    }
    Some(RestConfig {
        uri,
        endpoints: file.endpoints,
        headers,
        authorization: file.authorization,
        service_authorization: file.service_authorization,
        oauth: file.oauth,
        tls: file.tls,
        http2: file.http2,
        pool: file.pool,
        health: file.health,
        breaker: file.breaker,
        retry: file.retry,
        forward_headers: file.forward_headers,
        reading: PathReading {
            raw_path: file.raw_path,
            any_delimiter: file.delimiters,
        },
    })
}

/// Records a problem for a header that is to select data and that the catalog does not get from clients.
fn selecting_headers(
    selects: Option<&Selects>,
    file: &BackendFile,
    properties: &BTreeMap<String, Text>,
    context_prefix: &str,
    reader: &mut Reader<'_>,
) {
    for name in selects.into_iter().flat_map(|selects| &selects.headers) {
        let is_fixed = |property: &String| {
            let fixed = property.strip_prefix("headers.");
            fixed.is_some_and(|fixed| fixed.eq_ignore_ascii_case(name.as_str()))
        };
        let forwarded = file.forward_headers.as_ref();
        let problem = if properties.keys().any(is_fixed) {
            format!(
                "`{name}` is the same for all requests, by `properties.headers.{name}`; remove one of the two"
            )
        } else if forwarded.is_some_and(|forwarded| !forwarded.contains(name)) {
            format!("`{name}` does not reach the catalog; add it to `forward_headers`")
        } else if name.as_str().starts_with(context_prefix) {
            format!("`{name}` is context; write its key under `selects.context`")
        } else {
            continue;
        };
        reader.problem_at("selects.headers", problem);
    }
}

/// Records a problem if a caller's token is to be exchanged, and also kept from the catalog or
/// replaced.
fn traded(file: &BackendFile, headers: &[(HeaderName, HeaderValue)], reader: &mut Reader<'_>) {
    if !file.oauth.as_ref().is_some_and(|oauth| oauth.exchange) {
        return;
    }
    if file.authorization == Authorization::None {
        reader.problem_at("oauth.exchange", "exchanges the caller's token, and `authorization: none` keeps it from the catalog; remove one of the two");
    }
    if headers.iter().any(|(name, _)| *name == AUTHORIZATION) {
        reader.problem_at("oauth.exchange", "exchanges the caller's token, and `headers.Authorization` replaces it; remove one of the two");
    }
}

fn dir(properties: &BTreeMap<String, Text>, reader: &mut Reader<'_>) -> Option<DirConfig> {
    if !cfg!(feature = "dir") {
        reader.problem_at("implementation", "this nsgate was built without directories; use one built with `--features dir`, or run the catalog as a service and write `rest`");
    }
    for key in REST_ONLY
        .into_iter()
        .filter(|key| reader.has(key))
        .collect::<Vec<_>>()
    {
        reader.problem_at(key, "has no meaning for a directory; remove it");
    }
    directory(properties, reader)
}
