//! Checks the name by which the admin address was called.
//!
//! A gateway without an admin token permits a caller because it is on this machine. A web site that is open in a
//! browser on this machine must not be permitted by that: it could have its own name resolve to this machine, and read
//! the pages as if they were its own. The browser then names that site as the host.

use std::net::IpAddr;

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderValue, Uri};

/// True if the host is a number or `localhost`, or if none is named, which no browser does.
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

/// True unless a browser says that the request comes from a page of another site. A form on any site can make such a
/// request; the browser then names the site in `Origin`, and in `Sec-Fetch-Site` how near it is. Programs name neither.
pub(super) fn is_own_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let mut sites = headers.get_all("sec-fetch-site").iter();
    if !sites.all(|site| matches!(site.as_bytes(), b"same-origin" | b"none")) {
        return false;
    }
    let host = uri
        .authority()
        .map(|authority| authority.as_str().as_bytes());
    let host = host.or_else(|| headers.get(HOST).map(HeaderValue::as_bytes));
    let mut origins = headers.get_all(ORIGIN).iter();
    origins.all(|origin| {
        let origin = origin.as_bytes();
        let at = |scheme: &[u8]| origin.strip_prefix(scheme);
        let named = at(b"http://").or_else(|| at(b"https://"));
        named.is_some_and(|named| host.is_some_and(|host| named.eq_ignore_ascii_case(host)))
    })
}

fn is_own(host: &str) -> bool {
    let number = host.trim_start_matches('[').trim_end_matches(']');
    number.parse::<IpAddr>().is_ok() || host.eq_ignore_ascii_case("localhost")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_site_is_told_apart() {
        for (pairs, expected) in [
            (&[][..], true),
            (&[("origin", "http://127.0.0.1:9090")][..], true),
            (
                &[
                    ("origin", "http://127.0.0.1:9090"),
                    ("sec-fetch-site", "same-origin"),
                ][..],
                true,
            ),
            (&[("sec-fetch-site", "none")][..], true),
            (&[("sec-fetch-site", "cross-site")][..], false),
            (&[("sec-fetch-site", "same-site")][..], false),
            (&[("origin", "http://evil.example")][..], false),
            (&[("origin", "null")][..], false),
            (&[("origin", "http://127.0.0.1:9091")][..], false),
            (
                &[("origin", "http://127.0.0.1:9090.evil.example")][..],
                false,
            ),
            (
                &[
                    ("origin", "http://127.0.0.1:9090"),
                    ("origin", "http://evil.example"),
                ][..],
                false,
            ),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static("127.0.0.1:9090"));
            for (name, value) in pairs {
                headers.append(*name, HeaderValue::from_static(value));
            }
            let uri = Uri::from_static("/reload");
            assert_eq!(is_own_page(&uri, &headers), expected, "{pairs:?}");
        }
    }

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
