//! Which name the admin address was asked by.
//!
//! Without a token, being on this machine is what lets one in. A web site that somebody on this machine looks at is not
//! let in by that: it could have its own name resolve to this machine, and read the pages as if they were its own. The
//! browser then names that site as the host.

use std::net::IpAddr;

use http::header::HOST;
use http::uri::Authority;
use http::{HeaderMap, Uri};

/// Whether the host is a number or `localhost`; true where none is named, which no browser does.
pub(super) fn is_this_machine(uri: &Uri, headers: &HeaderMap) -> bool {
    if let Some(host) = uri.host() {
        return is_own(host);
    }
    let mut hosts = headers.get_all(HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => true,
        (Some(host), None) => {
            let host = Authority::try_from(host.as_bytes());
            host.is_ok_and(|host| is_own(host.host()))
        }
        _ => false,
    }
}

fn is_own(host: &str) -> bool {
    let number = host.trim_start_matches('[').trim_end_matches(']');
    number.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;

    use super::*;

    #[test]
    fn only_numbers_and_localhost_are_this_machine() {
        for (host, expected) in [
            ("127.0.0.1:9090", true),
            ("[::1]:9090", true),
            ("localhost", true),
            ("LocalHost:9090", true),
            ("evil.example:9090", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example:9090", false),
            ("", false),
            ("a b", false),
        ] {
            let mut headers = HeaderMap::new();
            let path = Uri::from_static("/config");
            assert!(is_this_machine(&path, &headers), "none is named");
            headers.insert(HOST, HeaderValue::from_static(host));
            assert_eq!(is_this_machine(&path, &headers), expected, "{host}");
            headers.append(HOST, HeaderValue::from_static("localhost"));
            assert!(!is_this_machine(&path, &headers), "two are named");
        }
        let whole = Uri::from_static("http://evil.example/config");
        assert!(!is_this_machine(&whole, &HeaderMap::new()));
    }
}
