//! Decides which headers cross the gateway, in both directions, and removes those that imitate context or other headers of
//! the gateway.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body::Body as _;

use crate::body::Body;

/// The headers that a sender cannot have removed by naming them in `connection`, because the gateway relies on them.
const KEPT: [HeaderName; 6] = [
    AUTHORIZATION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-request-id"),
];

/// Removes the headers of a request or a response that end at this hop: hop-by-hop headers (RFC 9110, section 7.6.1)
/// and those that `connection` names, the statements and overrides of other proxies, and the gateway's own internals.
/// Also removes those of which `stops` is true: for a request the ones that [`OwnHeaders`] replace, for an answer of a
/// catalog all that clients do not need. `connection` cannot take away `selecting` headers.
pub(in crate::backend) fn strip(
    headers: &mut HeaderMap,
    selecting: &[HeaderName],
    stops: impl Fn(&str) -> bool,
) {
    let mut ended = Vec::new();
    for (name, value) in &*headers {
        let text = name.as_str();
        if !ends_here(text) {
            if stops(text) {
                ended.push(name.clone());
            }
            continue;
        }
        if *name == CONNECTION && !is_plain(value) {
            let names = value.to_str().unwrap_or_default().split(',');
            let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
            let is_kept = |name: &HeaderName| KEPT.contains(name) || selecting.contains(name);
            ended.extend(names.filter(|name| !is_kept(name)));
        }
        if *name == TRANSFER_ENCODING {
            // The length did not delimit the body (RFC 9112, section 6.3), and may contradict it.
            ended.push(CONTENT_LENGTH);
        }
        ended.push(name.clone());
    }
    for name in ended {
        headers.remove(name);
    }
}

/// The headers that the gateway itself sends to a catalog.
pub(in crate::backend) struct OwnHeaders<'a> {
    /// The prefix of the headers that carry context.
    pub(in crate::backend) context_prefix: &'a str,
    /// The headers that are sent with every request.
    pub(in crate::backend) fixed: &'a [(HeaderName, HeaderValue)],
    /// `forward_headers`: the only client headers that are forwarded, besides those that every request may need; `None`
    /// if it is not configured.
    pub(in crate::backend) forwarded: Option<&'a [HeaderName]>,
    /// The headers of clients that select data: another spelling of one must not.
    pub(in crate::backend) selecting: &'a [HeaderName],
}

impl OwnHeaders<'_> {
    /// True if a client's header of this name is not forwarded beside the gateway's own: context headers, and headers
    /// that look like one of the gateway's.
    pub(in crate::backend) fn replaces(&self, name: &str) -> bool {
        // Most headers are common ones, and no configuration may give them another meaning.
        if is_common(name) {
            return false;
        }
        if name.starts_with(self.context_prefix) {
            return true;
        }
        if let Some(forwarded) = self.forwarded {
            return !forwarded.iter().any(|one| one.as_str() == name)
                || is_folded(name) && self.passes_for_one(name);
        }
        is_asserted(name)
            || self.begins_like_one(name) && is_folded(name) && self.passes_for_one(name)
    }

    /// True if the name may look like one of the gateway's headers. Checked by the first letter, because most names
    /// share theirs with none.
    fn begins_like_one(&self, name: &str) -> bool {
        let first = name.as_bytes().first();
        let begins = |own: &str| own.as_bytes().first() == first;
        matches!(
            first,
            Some(b'a' | b'c' | b'f' | b'h' | b'k' | b'p' | b'r' | b's' | b't' | b'x')
        ) || begins(self.context_prefix)
            || self.fixed.iter().any(|(name, _)| begins(name.as_str()))
            || self.selecting.iter().any(|name| begins(name.as_str()))
    }

    /// Catalogs behind CGI or WSGI cannot tell `x_ns_ctx_team` from `x-ns-ctx-team` (RFC 3875, section 4.1.18), and some
    /// not `x.ns.ctx.team` either.
    fn passes_for_one(&self, name: &str) -> bool {
        let dashed = |name: &str| name.replace(|letter: char| !letter.is_ascii_alphanumeric(), "-");
        let name = dashed(name);
        let mut fixed = self.fixed.iter();
        ends_here(&name)
            || is_asserted(&name)
            || KEPT.iter().any(|kept| kept.as_str() == name)
            || name.starts_with(&dashed(self.context_prefix))
            || name == "x-request-id"
            || fixed.any(|(fixed, _)| dashed(fixed.as_str()) == name)
            || self
                .selecting
                .iter()
                .any(|selecting| selecting.as_str() == name)
    }
}

/// True if servers that fold names take this name for another one.
fn is_folded(name: &str) -> bool {
    let keeps = |byte: u8| byte == b'-' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
    !name.bytes().all(keeps)
}

/// True if a header of this name is forwarded whatever `forward_headers` says, because every request may need it.
fn is_common(name: &str) -> bool {
    matches!(
        name,
        "accept"
            | "accept-encoding"
            | "accept-language"
            | "authorization"
            | "content-encoding"
            | "content-length"
            | "content-type"
            | "host"
            | "idempotency-key"
            | "traceparent"
            | "tracestate"
            | "user-agent"
            | "x-request-id"
    )
}

/// True if front proxies use a header of this name to assert who is calling, from where, or for what: a catalog that
/// trusts its proxy would believe it from any client. `deploy/security.md` has the list. Checked by the first letter,
/// because most names share theirs with none.
fn is_asserted(name: &str) -> bool {
    let begins = |all: &[&str]| all.iter().any(|prefix| name.starts_with(prefix));
    match name.as_bytes() {
        [b'c', b'f' | b'l', ..] => begins(&["cf-", "client-cert", "client-ip"]),
        [b'f', b'a' | b'r', ..] => begins(&["fastly-", "front-end-https"]),
        [b'p', b'r', b'o', b'x', b'y', ..] => true,
        [b'r', b'e', ..] => begins(&["remote-"]),
        [b's', b'm' | b's', ..] => begins(&["sm-", "ssl-"]),
        [b't', b'a' | b'r', ..] => begins(&["tailscale-", "true-client-ip"]),
        [b'x', b'-', first, ..] => {
            let behind = asserted_behind_x(*first).iter();
            behind
                .into_iter()
                .any(|prefix| name[2..].starts_with(prefix))
        }
        _ => false,
    }
}

/// Returns how such names continue behind `x-`, by their first letter there: names of cloud proxies, of authenticating
/// proxies, of TLS proxies; and context in the contract's own spellings, if this catalog's is another.
fn asserted_behind_x(first: u8) -> &'static [&'static str] {
    match first {
        b'a' => &[
            "amzn-mtls-",
            "amzn-oidc-",
            "amzn-tls-",
            "appengine-",
            "arr-",
            "auth-request-",
            "authenticated-",
            "authentik-",
            "azure-",
        ],
        b'c' => &[
            "client-cert",
            "client-dn",
            "client-ip",
            "client-verify",
            "cluster-client-ip",
        ],
        b'e' => &["envoy-"],
        b'f' => &["forwarded"],
        b'g' => &["goog-authenticated-user-", "goog-iap-"],
        b'h' => &["host", "http-host-override"],
        b'l' => &["lance-ctx-"],
        b'm' => &["ms-client-principal", "ms-token-"],
        b'n' => &["ns-ctx-"],
        b'o' => &["original-", "originating-ip"],
        b'p' => &["pomerium-", "proxy"],
        b'r' => &["real-", "remote-", "rewrite-"],
        b's' => &["ssl-"],
        b't' => &["tls-"],
        b'v' => &["vouch-"],
        b'w' => &["webauth-"],
        _ => &[],
    }
}

/// True for the usual values of `connection`, which name no other header that would be kept.
fn is_plain(value: &HeaderValue) -> bool {
    let value = value.as_bytes();
    value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
}

/// True if a header of this name ends at this hop. Checked by the first letter first, because most names share theirs
/// with none of these.
pub(in crate::backend) fn ends_here(name: &str) -> bool {
    match name.as_bytes() {
        [b'c', ..] => name == "connection",
        [b'e', ..] => name == "expect",
        [b'f', ..] => name == "forwarded",
        [b'h', b't', ..] => name == "http2-settings",
        [b'k', ..] => name == "keep-alive",
        [b'p', b'r', ..] => {
            let rest = name.strip_prefix("proxy-");
            matches!(rest, Some("authenticate" | "authorization" | "connection"))
        }
        [b't', ..] => matches!(name, "te" | "trailer" | "transfer-encoding"),
        [b'u', b'p', ..] => name == "upgrade",
        // A request is checked by its path and method. These headers would make it another request at a catalog that
        // obeys them.
        [b'x', b'-', b'h', ..] => name.starts_with("x-http-method"),
        [b'x', b'-', b'm', ..] => name == "x-method-override",
        [b'x', b'-', b'o', ..] => name == "x-original-url",
        [b'x', b'-', b'r', ..] => matches!(name, "x-real-ip" | "x-rewrite-url"),
        [b'x', b'-', b'f', ..] => name.starts_with("x-forwarded-"),
        [b'x', b'-', b'n', ..] => name.starts_with("x-nsgate-"),
        _ => false,
    }
}

/// True if a header of this name in a catalog's answer is for clients. All others stay inside: some lead a client past
/// the gateway (`location`, `link`, `alt-svc`), and others command the proxies in front of it (`x-accel-redirect`) or
/// browsers (`set-cookie`). Checked by the first letter, because most answers have few headers. `deploy/security.md`
/// has the list.
pub(in crate::backend) fn is_for_clients(name: &str) -> bool {
    match name.as_bytes() {
        [b'a', ..] => matches!(name, "accept-ranges" | "age" | "allow"),
        [b'c', ..] => matches!(
            name,
            "cache-control"
                | "content-encoding"
                | "content-language"
                | "content-length"
                | "content-range"
                | "content-type"
        ),
        [b'd', ..] => matches!(name, "date" | "deprecation"),
        [b'e', ..] => matches!(name, "etag" | "expires"),
        [b'i', ..] => matches!(name, "idempotency-key" | "idempotent-replayed"),
        [b'l', ..] => name == "last-modified",
        // The release of a LanceDB server, by which its clients choose what they send.
        [b'p', ..] => matches!(name, "phalanx-version" | "pragma"),
        [b'r', ..] => name == "retry-after" || name.starts_with("ratelimit"),
        [b's', ..] => matches!(name, "server-timing" | "sunset"),
        [b'v', ..] => name == "vary",
        [b'w', ..] => matches!(name, "warning" | "www-authenticate"),
        [b'x', b'-', b'l', ..] => name.starts_with("x-lance"),
        [b'x', b'-', b'r', ..] => name == "x-request-id" || name.starts_with("x-ratelimit-"),
        _ => false,
    }
}

/// Makes `content-length` agree with the body, which may be of unknown length.
pub(in crate::backend) fn set_length(request: &mut Request<Body>) {
    let length = request.body().size_hint().exact();
    let method = request.method().clone();
    let headers = request.headers_mut();
    match length {
        None => {
            headers.remove(CONTENT_LENGTH);
        }
        Some(0) if method != Method::POST && method != Method::PUT => {
            headers.remove(CONTENT_LENGTH);
        }
        Some(length) => {
            let said = headers.get(CONTENT_LENGTH).map(HeaderValue::as_bytes);
            if said.and_then(number) != Some(length) {
                headers.insert(CONTENT_LENGTH, length.into());
            }
        }
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
