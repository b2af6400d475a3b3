//! Which headers cross the gateway.

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderName, TRANSFER_ENCODING,
};
use http::{HeaderMap, HeaderValue, Method, Request};
use http_body::Body as _;

use crate::body::Body;

/// What a sender may not have removed by naming it in `connection`: the gateway relies on these.
const KEPT: [HeaderName; 6] = [
    AUTHORIZATION,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    HOST,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("x-request-id"),
];

/// Takes out of a request or a response what ends at this hop: hop-by-hop headers (RFC 9110, section 7.6.1) and
/// those that `connection` names, what other proxies said about themselves, and the gateway's own internals.
/// Headers whose name starts with `context_prefix` go too, when it is not empty: context is written anew.
pub(super) fn strip(headers: &mut HeaderMap, context_prefix: &str) {
    let mut ended = Vec::new();
    for (name, value) in &*headers {
        let text = name.as_str();
        if !ends_here(text) {
            if !context_prefix.is_empty() && text.starts_with(context_prefix) {
                ended.push(name.clone());
            }
            continue;
        }
        if *name == CONNECTION && !is_plain(value) {
            let names = value.to_str().unwrap_or_default().split(',');
            let names = names.filter_map(|name| HeaderName::try_from(name.trim()).ok());
            ended.extend(names.filter(|name| !KEPT.contains(name)));
        }
        if *name == TRANSFER_ENCODING {
            // It was not what the body went by (RFC 9112, section 6.3), and may say otherwise.
            ended.push(CONTENT_LENGTH);
        }
        ended.push(name.clone());
    }
    for name in ended {
        headers.remove(name);
    }
}

/// What `connection` nearly always says. It names no other header that would be kept.
fn is_plain(value: &HeaderValue) -> bool {
    let value = value.as_bytes();
    value.eq_ignore_ascii_case(b"keep-alive") || value.eq_ignore_ascii_case(b"close")
}

/// Whether a header of this name ends at this hop. By its first letter first: most names share theirs with none of
/// these.
pub(super) fn ends_here(name: &str) -> bool {
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
        [b'x', b'-', b'r', ..] => name == "x-real-ip",
        [b'x', b'-', b'f', ..] => name.starts_with("x-forwarded-"),
        [b'x', b'-', b'n', ..] => name.starts_with("x-nsgate-"),
        _ => false,
    }
}

/// Makes `content-length` agree with the body, which may be of unknown length.
pub(super) fn set_length(request: &mut Request<Body>) {
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
