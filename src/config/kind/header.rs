//! Header names and values.

use http::{HeaderName, HeaderValue};
use serde_json::json;

use super::scalar::{Scalar, printable, text_schema};
use crate::config::Secret;
use crate::config::load::reader::Text;
use crate::config::secret::MASK;

/// Headers that have a meaning for the gateway or for HTTP itself: a context prefix must not match
/// them.
const RESERVED: [&str; 22] = [
    "accept",
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "expect",
    "forwarded",
    "host",
    "idempotency-key",
    "keep-alive",
    "proxy-authorization",
    "te",
    "trailer",
    "transfer-encoding",
    "traceparent",
    "tracestate",
    "upgrade",
    "x-forwarded-for",
    "x-request-id",
];

/// The beginning of a header name.
pub(in crate::config) fn header_prefix() -> Scalar<String> {
    Scalar::new(
        "the beginning of a header name that ends with `-`, such as x-ns-ctx-",
        text_schema(),
        |text| {
            let prefix = text.value.to_ascii_lowercase();
            if prefix.len() > 64 || HeaderName::from_bytes(prefix.as_bytes()).is_err() {
                return Err(format!("{} cannot begin a header name", text.shown()));
            }
            if let Some(caught) = RESERVED.iter().find(|name| name.starts_with(&prefix)) {
                return Err(format!(
                    "{} would take `{caught}` for context",
                    text.shown()
                ));
            }
            if !prefix.ends_with('-') {
                return Err(format!("{} does not end with `-`", text.shown()));
            }
            Ok(prefix)
        },
        |prefix| json!(prefix),
    )
}

/// The name of a header that may be forwarded from clients.
pub(in crate::config) fn forwardable_header() -> Scalar<HeaderName> {
    Scalar::new(
        "the name of a header, such as x-acme-trace",
        text_schema(),
        |text| {
            let name = text.value.to_ascii_lowercase();
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
            match HeaderName::from_bytes(name.as_bytes()) {
                Ok(header) if name.bytes().all(is_plain) => Ok(header),
                _ => Err(format!(
                    "{} is no name of letters, digits and `-`; some servers read others as another header",
                    text.shown()
                )),
            }
        },
        |name| json!(name.as_str()),
    )
}

/// The name of a header of clients that selects data. The batch log keeps its value, so it must not be a credential.
pub(in crate::config) fn selecting_header() -> Scalar<HeaderName> {
    const CREDENTIALS: [&str; 3] = ["x-api-key", "x-auth-token", "proxy-authorization"];
    Scalar::new(
        "the name of a header, such as x-lancedb-database",
        text_schema(),
        |text| {
            let name = forwardable_header().parse(text)?;
            if RESERVED.contains(&name.as_str()) || CREDENTIALS.contains(&name.as_str()) {
                return Err(format!(
                    "{} is a credential, or means something to HTTP or the gateway",
                    text.shown()
                ));
            }
            Ok(name)
        },
        |name| json!(name.as_str()),
    )
}

/// A key of the context, in lower case.
pub(in crate::config) fn context_key_name() -> Scalar<String> {
    Scalar::new(
        "a key of the context, such as tenant",
        text_schema(),
        |text| context_key(&text.value),
        |key| json!(key),
    )
}

/// Returns a context key in lower case. It is the rest of a header name.
pub(in crate::config) fn context_key(key: &str) -> Result<String, String> {
    let lower = key.to_ascii_lowercase();
    match HeaderName::from_bytes(lower.as_bytes()) {
        Ok(_) => Ok(lower),
        Err(_) => Err(
            "a context key travels as part of a header name; write letters, digits, `-` and `_`"
                .to_owned(),
        ),
    }
}

/// A [`context_key`] as a value.
pub(in crate::config) fn context_name() -> Scalar<String> {
    Scalar::new(
        "a context key, such as team",
        text_schema(),
        |text| context_key(&text.value),
        |key| json!(key),
    )
}

/// The value of `Authorization`: scheme and credentials.
pub(in crate::config) fn header_value() -> Scalar<HeaderValue> {
    Scalar::new(
        "the whole header value, such as `Bearer ${SERVICE_TOKEN}`",
        text_schema(),
        |text| {
            let value = printable(text)?.trim();
            let credentials = value
                .split_once(' ')
                .is_some_and(|(_, credentials)| !credentials.trim().is_empty());
            if !credentials {
                return Err("does not have a scheme and credentials".to_owned());
            }
            sensitive(value)
        },
        |_| json!(MASK),
    )
}

/// Makes a header value that `Debug` does not show.
pub(in crate::config) fn sensitive(value: &str) -> Result<HeaderValue, String> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| "holds a character that no header value may have; remove line breaks and control characters".to_owned())?;
    value.set_sensitive(true);
    Ok(value)
}

/// The token of `Authorization: Bearer` (RFC 6750 2.1).
pub(in crate::config) fn bearer() -> Scalar<Secret> {
    Scalar::new(
        "a token without spaces, such as ${file:admin.token}",
        text_schema(),
        |text: &Text| {
            let token = printable(text)?;
            let legal = token.bytes().all(|b| b.is_ascii_graphic());
            if legal {
                Ok(Secret::new(token))
            } else {
                Err("holds a space or a character outside ASCII".to_owned())
            }
        },
        |_| json!(MASK),
    )
}
