//! Addresses, URIs and files.

use std::net::SocketAddr;
use std::path::PathBuf;

use http::Uri;
use serde_json::json;

use super::scalar::{Scalar, printable, string_schema};
use crate::config::load::named::unreadable;
use crate::config::load::reader::Text;
use crate::config::secret::MASK;

/// An IP address and a port.
pub(in crate::config) fn address() -> Scalar<SocketAddr> {
    Scalar::new(
        "an IP address and a port, such as 127.0.0.1:8080, 0.0.0.0:8080 or [::]:8080",
        string_schema(),
        |text| match text.value.parse::<SocketAddr>() {
            Ok(address) => Ok(address),
            Err(_) if text.value.parse::<std::net::IpAddr>().is_ok() => {
                Err(format!("{} has no port", text.shown()))
            }
            Err(_) if text.value.starts_with(':') => {
                Err(format!("{} has no IP address", text.shown()))
            }
            Err(_) => Err(format!("{} is not an address to listen on", text.shown())),
        },
        |address| json!(address.to_string()),
    )
}

/// The base address of a catalog.
pub(in crate::config) fn base_uri() -> Scalar<Uri> {
    Scalar::new(BASE_URI, string_schema(), parse_base_uri, |uri| {
        json!(uri.to_string())
    })
}

const BASE_URI: &str = "an address such as http://127.0.0.1:2333 or https://catalog.example/base";

/// Parses a [`base_uri`] from text that was read as part of something else.
pub(in crate::config) fn parse_base_uri(text: &Text) -> Result<Uri, String> {
    let uri = absolute(text).map_err(|wrong| {
        if wrong.contains("; ") {
            wrong
        } else {
            format!("{wrong}; write {BASE_URI}")
        }
    })?;
    if uri.query().is_some() {
        return Err("a base address has no query; remove what follows `?`".to_owned());
    }
    Ok(uri)
}

/// The [`base_uri`] of a collector of traces; a program that cannot send traces refuses it.
pub(in crate::config) fn collector() -> Scalar<Uri> {
    Scalar::new(BASE_URI, string_schema(), parse_collector, |uri| {
        json!(uri.to_string())
    })
}

fn parse_collector(text: &Text) -> Result<Uri, String> {
    let uri = parse_base_uri(text)?;
    if cfg!(feature = "otlp") {
        Ok(uri)
    } else {
        Err("this nsgate was built without traces; use one built with `--features otlp`, or remove the key".to_owned())
    }
}

/// An address that a secret is sent to, or from which something is trusted: `https`, or `http` on
/// this machine.
pub(in crate::config) fn guarded_uri() -> Scalar<Uri> {
    Scalar::new(
        "an address such as https://idp.example/jwks",
        string_schema(),
        |text| {
            let uri = absolute(text)?;
            if is_plain_http_abroad(&uri) {
                return Err("is plain http, which anyone on the way can read and change; write https:// (http:// is for loopback only)".to_owned());
            }
            Ok(uri)
        },
        |uri| json!(without_query(&uri.to_string())),
    )
}

/// Masks the query of an address, which may be a key.
pub(crate) fn without_query(address: &str) -> String {
    match address.split_once('?') {
        Some((address, _)) => format!("{address}?{MASK}"),
        None => address.to_owned(),
    }
}

/// Path and query of a request.
pub(in crate::config) fn url_path() -> Scalar<String> {
    Scalar::new(
        "a path that begins with `/`, such as /health",
        string_schema(),
        |text| {
            let path = printable(text)?;
            let legal = path.starts_with('/')
                && path.parse::<http::uri::PathAndQuery>().is_ok()
                && !path.contains('#');
            if legal {
                Ok(path.to_owned())
            } else {
                Err(format!("{} is not a path", text.shown()))
            }
        },
        |path| json!(without_query(path)),
    )
}

/// A path of the data port that is no route of the contract.
pub(in crate::config) fn health_path() -> Scalar<String> {
    Scalar::new(
        "a path that begins with `/`, without a query and not below /v1/, such as /healthz",
        string_schema(),
        |text| {
            let path = printable(text)?;
            let parsed = path.parse::<http::uri::PathAndQuery>();
            let is_path = path.starts_with('/') && parsed.is_ok_and(|parsed| parsed.path() == path);
            if !is_path {
                Err(format!("{} is not a path", text.shown()))
            } else if path == "/v1" || path.starts_with("/v1/") {
                Err(format!(
                    "{} would hide a route of the contract",
                    text.shown()
                ))
            } else {
                Ok(path.to_owned())
            }
        },
        |path| json!(path),
    )
}

/// True if a request to `uri` leaves this machine unencrypted.
pub(crate) fn is_plain_http_abroad(uri: &Uri) -> bool {
    let host = uri.host().unwrap_or_default();
    let ip = host
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse::<std::net::IpAddr>();
    let loopback = host.eq_ignore_ascii_case("localhost") || ip.is_ok_and(|ip| ip.is_loopback());
    uri.scheme_str() == Some("http") && !loopback
}

/// The path of a file that must exist.
pub(in crate::config) fn file() -> Scalar<PathBuf> {
    Scalar::new(
        "the path of a file",
        string_schema(),
        |text| {
            let path = text.resolve_named(printable(text)?);
            match std::fs::File::open(&path).and_then(|file| file.metadata()) {
                Ok(found) if found.is_file() => Ok(path),
                Ok(_) => Err(format!("{} is not a file", path.display())),
                Err(error) => Err(unreadable(&path, &error)),
            }
        },
        |path| json!(path),
    )
}

/// Words that are written where something is to be switched off, or to go elsewhere than into a file.
const WORDS: [&str; 10] = [
    "none", "None", "off", "no", "false", "disabled", "memory", "stdout", "stderr", "syslog",
];

/// The path of a file that is created when it is needed.
pub(in crate::config) fn file_to_write() -> Scalar<PathBuf> {
    Scalar::new(
        "the path of a file",
        string_schema(),
        |text| {
            let written = printable(text)?;
            if WORDS.contains(&written) {
                return Err(format!(
                    "`{written}` would be a file of this name; write the path of a file (./{written} if that is meant), or remove the key"
                ));
            }
            let path = text.resolve(written);
            match std::fs::metadata(&path) {
                Ok(found) if found.is_dir() => Err(format!(
                    "{} is a folder; write the path of a file in it",
                    path.display()
                )),
                Ok(found) if !found.is_file() => Err(format!(
                    "{} is a device, a pipe or a socket; write the path of a file",
                    path.display()
                )),
                _ => Ok(path),
            }
        },
        |path| json!(path),
    )
}

fn absolute(text: &Text) -> Result<Uri, String> {
    let value = printable(text)?;
    if value.contains('#') {
        return Err("an address here has no fragment; remove what follows `#`".to_owned());
    }
    if !value.contains("://") {
        return Err(format!(
            "{} has no scheme; write http:// or https:// before the host",
            text.shown()
        ));
    }
    let wrong = || format!("{} is not an address", text.shown());
    let uri: Uri = value.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err(format!(
            "{} has a scheme other than http and https",
            text.shown()
        ));
    }
    if authority.as_str().contains('@') {
        return Err(
            "an address here holds no user or password; send them with `headers.Authorization`"
                .to_owned(),
        );
    }
    if authority.host().is_empty() || authority.as_str().ends_with(':') {
        return Err(wrong());
    }
    Ok(uri)
}
