//! The headers that the gateway adds to a request on its way to a catalog. Each replaces the request's own.
//!
//! The headers go straight to the wire, past the request's map, if the gateway itself writes the request. Otherwise
//! they are inserted into the map.

use std::borrow::Cow;

use http::header::{FORWARDED, HOST, HeaderName};
use http::{HeaderMap, HeaderValue};

use crate::http1::request::ExtraHeaders;
use crate::http1::write_header;
use crate::protocol::context::Context;
use crate::request::context::RequestContext;
use crate::request::peer::Peer;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The headers that a catalog gets besides the client's. The default adds none.
#[derive(Clone, Copy, Default)]
pub(in crate::backend) struct InjectedHeaders<'a> {
    host: Option<&'a HeaderValue>,
    peer: Option<&'a Peer>,
    /// The context, and the prefix of its headers' names.
    context: Option<(&'a Context, &'a str)>,
}

impl<'a> InjectedHeaders<'a> {
    /// Returns the headers about the peer and the context. Each entry of the context is one header, whose name begins
    /// with `prefix`.
    pub(in crate::backend) fn of(learned: &'a RequestContext, prefix: &'a str) -> Self {
        let context = learned.context.as_ref();
        Self {
            host: None,
            peer: learned.peer.as_ref(),
            context: context.map(|context| (context, prefix)),
        }
    }

    /// Returns the same headers and this `host`.
    pub(in crate::backend) fn at(self, host: &'a HeaderValue) -> Self {
        Self {
            host: Some(host),
            ..self
        }
    }

    /// Inserts the headers into `headers`.
    pub(in crate::backend) fn insert_into(&self, headers: &mut HeaderMap) {
        self.each(|name, value| {
            headers.insert(name.into_owned(), value.clone());
        });
    }

    fn each(&self, mut see: impl FnMut(Cow<'_, HeaderName>, &HeaderValue)) {
        if let Some(host) = self.host {
            see(Cow::Owned(HOST), host);
        }
        if let Some(peer) = self.peer {
            see(Cow::Owned(X_FORWARDED_FOR), peer.forwarded_for());
            see(Cow::Owned(FORWARDED), peer.forwarded());
        }
        let Some((context, prefix)) = self.context else {
            return;
        };
        for entry in context.iter() {
            if let Ok(name) = entry.header_name(prefix) {
                see(name, entry.header_value());
            } else {
                debug_assert!(false, "a configured prefix can begin a header name");
            }
        }
    }
}

impl ExtraHeaders for InjectedHeaders<'_> {
    // Checked by its length first, because few names are as long as one of these.
    fn has(&self, name: &str) -> bool {
        match name.len() {
            4 if name == "host" => self.host.is_some(),
            9 if name == "forwarded" => self.peer.is_some(),
            15 if name == "x-forwarded-for" => self.peer.is_some(),
            _ => self.context.is_some_and(|(context, prefix)| {
                let key = name.strip_prefix(prefix);
                key.is_some_and(|key| context.get(key).is_some())
            }),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.each(|name, value| write_header(out, name.as_str(), value));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::protocol::context::{ClaimEntries, ContextRules};

    fn learned() -> RequestContext {
        let mut headers = HeaderMap::new();
        headers.insert("x-c-team", HeaderValue::from_static("ml"));
        let rules = ContextRules::new(vec!["x-c-".to_owned()], 9, 999);
        let peer = Peer::new("192.0.2.7:1".parse().unwrap(), false);
        let context = Context::take(&mut headers, &rules, ClaimEntries::default());
        RequestContext {
            peer: Some(peer),
            context: Some(context.unwrap()),
            ..RequestContext::default()
        }
    }

    #[test]
    fn they_are_the_same_on_the_wire_and_in_a_map() {
        let (learned, host) = (learned(), HeaderValue::from_static("h:1"));
        for (prefix, team) in [("x-c-", "x-c-team"), ("y-", "y-team"), ("", "team")] {
            let added = InjectedHeaders::of(&learned, prefix).at(&host);
            let mut out = Vec::new();
            added.write(&mut out);
            let mut expected = "host: h:1\r\nx-forwarded-for: 192.0.2.7\r\n\
                                forwarded: for=192.0.2.7;proto=http\r\n"
                .to_owned();
            expected += &format!("{team}: ml\r\n");
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            let mut headers = HeaderMap::new();
            for name in ["host", "forwarded", "x-forwarded-for", "other"] {
                headers.append(name, HeaderValue::from_static("of the client"));
            }
            added.insert_into(&mut headers);
            assert_eq!(headers.len(), 5);
            for (name, value) in &headers {
                let replaced = value != "of the client";
                assert_eq!(added.has(name.as_str()), replaced, "{name}");
            }
            assert_eq!(headers[team], "ml");
        }
    }

    #[test]
    fn what_is_not_known_is_not_added() {
        let mut headers = HeaderMap::new();
        InjectedHeaders::default().insert_into(&mut headers);
        InjectedHeaders::of(&RequestContext::default(), "x-c-").insert_into(&mut headers);
        assert!(headers.is_empty());
        for name in ["host", "forwarded", "x-forwarded-for", "x-c-team"] {
            assert!(
                !InjectedHeaders::of(&RequestContext::default(), "x-c-").has(name),
                "{name}"
            );
        }
        assert!(!InjectedHeaders::of(&learned(), "x-c-").has("x-c-other"));
    }

    #[test]
    fn what_was_added_for_another_connection_is_said_once() {
        let learned = RequestContext {
            peer: Some(Peer::new("192.0.2.7:1".parse().unwrap(), false)),
            ..RequestContext::default()
        };
        let host = HeaderValue::from_static("h:1");
        let added = InjectedHeaders::of(&learned, "x-c-").at(&host);
        let mut request = http::Request::new(crate::body::Body::empty());
        let before = HeaderValue::from_static("h:2");
        InjectedHeaders::of(&learned, "x-c-")
            .at(&before)
            .insert_into(request.headers_mut());
        let mut out = Vec::new();
        assert!(crate::http1::request::write_head(
            &mut out, &request, &added
        ));
        let expected = "GET / HTTP/1.1\r\nhost: h:1\r\nx-forwarded-for: 192.0.2.7\r\n\
                        forwarded: for=192.0.2.7;proto=http\r\n\r\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
