//! Writes the form that asks for a token (RFC 6749, section 4.4; RFC 8693, section 2.1), and reads the answer (RFC
//! 6749, sections 5.1 and 5.2).

use std::borrow::Cow;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Response, StatusCode};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::refusal::Refusal;

/// All that a form escapes; a space becomes a plus.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'*')
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b' ');

/// Media type of the answers that are understood.
const JSON: &[u8] = b"application/json";

/// A form (`application/x-www-form-urlencoded`).
#[derive(Default)]
pub(super) struct Form(String);

/// A token as its server gives it.
#[cfg_attr(test, derive(Debug, PartialEq, Eq))]
pub(super) struct Granted {
    pub(super) token: String,
    /// The type of the token, in any case.
    pub(super) kind: String,
    pub(super) life: Option<Duration>,
}

#[derive(Deserialize)]
struct Success {
    #[serde(default)]
    access_token: Value,
    #[serde(default)]
    token_type: Value,
    #[serde(default)]
    expires_in: Value,
    /// Keeps serde from taking an array for it.
    #[serde(flatten)]
    _others: IgnoredAny,
}

#[derive(Deserialize)]
struct Failure {
    #[serde(default)]
    error: Value,
    #[serde(flatten)]
    _others: IgnoredAny,
}

impl Form {
    pub(super) fn add(&mut self, name: &str, value: &str) {
        let mark = if self.0.is_empty() { "" } else { "&" };
        for part in [mark, name, "=", &encode(value)] {
            self.0.push_str(part);
        }
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }
}

/// `Authorization` by which a client proves itself (RFC 6749, section 2.3.1); sensitive.
pub(super) fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, http::Error> {
    let pair = format!("{}:{}", encode(client_id), encode(secret));
    let mut value = HeaderValue::try_from(format!("Basic {}", STANDARD.encode(pair)))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Reads an answer. `trading`: it is to a request that offered a caller's token.
pub(super) fn read(answer: &Response<Bytes>, trading: bool) -> Result<Granted, Refusal> {
    let kind = answer
        .headers()
        .get(CONTENT_TYPE)
        .map(HeaderValue::as_bytes);
    let is_json = kind.is_none_or(|kind| {
        let kind = kind.get(..JSON.len());
        kind.is_some_and(|kind| kind.eq_ignore_ascii_case(JSON))
    });
    let (succeeded, body) = (answer.status() == StatusCode::OK, answer.body());
    // Frameworks answer errors under many types.
    if body.is_empty() || succeeded && !is_json {
        return Err(Refusal::server(
            "the token server's answer is empty or not JSON",
        ));
    }
    if !succeeded {
        let failure: Failure = serde_json::from_slice(body).map_err(|_| misread("."))?;
        let error = text(failure.error).ok_or_else(|| misread("error"))?;
        return Err(Refusal::answered(&error, trading));
    }
    let granted: Success = serde_json::from_slice(body).map_err(|_| misread("."))?;
    let life = match granted.expires_in {
        Value::Null => None,
        seconds => Some(seconds.as_u64().ok_or_else(|| misread("expires_in"))?),
    };
    Ok(Granted {
        token: text(granted.access_token).ok_or_else(|| misread("access_token"))?,
        kind: text(granted.token_type).ok_or_else(|| misread("token_type"))?,
        life: life.map(Duration::from_secs),
    })
}

fn encode(value: &str) -> Cow<'_, str> {
    let escaped: Cow<'_, str> = utf8_percent_encode(value, ESCAPED).into();
    if escaped.contains(' ') {
        escaped.replace(' ', "+").into()
    } else {
        escaped
    }
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// Names the place of the error and not what stands there, which may be a token.
fn misread(place: &str) -> Refusal {
    Refusal::server(format!(
        "the token server's answer cannot be parsed at `{place}`"
    ))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::super::refusal::Fault;
    use super::*;

    fn answer(status: u16, kind: Option<&str>, body: &str) -> Response<Bytes> {
        let answer = Response::builder().status(status);
        let answer = match kind {
            Some(kind) => answer.header(CONTENT_TYPE, kind),
            None => answer,
        };
        answer.body(body.to_owned().into()).unwrap()
    }

    #[test]
    fn a_form_is_encoded_as_browsers_do_it() {
        let all: String = (1..=127_u8).map(char::from).collect();
        let mut form = Form::default();
        form.add("grant_type", "urn:ietf:x");
        form.add("scope", &format!("a b\0é{all}"));
        let controls: String = (1..=31).map(|byte| format!("%{byte:02X}")).collect();
        let printed = "+%21%22%23%24%25%26%27%28%29*%2B%2C-.%2F0123456789%3A%3B%3C%3D%3E%3F%40\
                       ABCDEFGHIJKLMNOPQRSTUVWXYZ%5B%5C%5D%5E_%60abcdefghijklmnopqrstuvwxyz%7B%7C%7D%7E%7F";
        let expected = format!("grant_type=urn%3Aietf%3Ax&scope=a+b%00%C3%A9{controls}{printed}");
        assert_eq!(form.into_bytes(), expected);
    }

    #[test]
    fn a_client_proves_itself_with_form_encoded_names() {
        let value = basic("ns gate:1", "p@ss/w%r+d ö").unwrap();
        let encoded = value.to_str().unwrap().strip_prefix("Basic ").unwrap();
        let pair = STANDARD.decode(encoded).unwrap();
        assert_eq!(pair, b"ns+gate%3A1:p%40ss%2Fw%25r%2Bd+%C3%B6");
        assert!(value.is_sensitive());
    }

    #[test]
    fn a_token_is_read_whatever_else_is_said() {
        let kinds = [
            None,
            Some("application/json"),
            Some("Application/JSON;charset=utf-8"),
        ];
        for kind in kinds {
            let body =
                r#"{"scope":["a"],"access_token":"t","refresh_token":1,"token_type":"BEARER"}"#;
            let granted = read(&answer(200, kind, body), false).unwrap();
            let expected = Granted {
                token: "t".to_owned(),
                kind: "BEARER".to_owned(),
                life: None,
            };
            assert_eq!(granted, expected, "{kind:?}");
        }
        for (life, expected) in [
            ("null", None),
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
        ] {
            let body = format!(r#"{{"access_token":"t","token_type":"","expires_in":{life}}}"#);
            let granted = read(&answer(200, None, &body), false).unwrap();
            assert_eq!(granted.life, expected.map(Duration::from_secs), "{life}");
        }
    }

    #[test]
    fn an_answer_that_is_none_says_where_and_repeats_nothing() {
        const EMPTY: &str = "the token server's answer is empty or not JSON";
        let at = |place| format!("the token server's answer cannot be parsed at `{place}`");
        let json = Some("application/json");
        let cases = [
            (200, json, "", EMPTY.to_owned()),
            (
                200,
                Some("text/html"),
                r#"{"access_token":"secret"}"#,
                EMPTY.to_owned(),
            ),
            (200, Some("application/jso"), "{}", EMPTY.to_owned()),
            (200, Some("x"), "{}", EMPTY.to_owned()),
            (400, json, "", EMPTY.to_owned()),
            (200, json, "secret", at(".")),
            (200, json, r#"["secret","bearer",1]"#, at(".")),
            (
                200,
                json,
                r#"{"access_token":"secret","access_token":"secret"}"#,
                at("."),
            ),
            (
                200,
                json,
                r#"{"access_token":"secret","token_type":"bearer"}}"#,
                at("."),
            ),
            (200, json, r#"{"token_type":"bearer"}"#, at("access_token")),
            (
                200,
                json,
                r#"{"access_token":["secret"],"token_type":"bearer"}"#,
                at("access_token"),
            ),
            (200, json, r#"{"access_token":"secret"}"#, at("token_type")),
            (302, None, "<html>secret", at(".")),
            (400, json, r#"["secret"]"#, at(".")),
            (400, json, r#"{"error":{"secret":1}}"#, at("error")),
            (
                404,
                Some("text/html"),
                r#"{"detail":"secret"}"#,
                at("error"),
            ),
        ];
        for (status, kind, body, expected) in cases {
            for trading in [false, true] {
                let refusal = read(&answer(status, kind, body), trading).unwrap_err();
                assert_eq!(refusal.to_string(), expected, "{status} {body}");
                assert_eq!(refusal.fault, Fault::Server, "{status} {body}");
            }
        }
    }

    #[test]
    fn a_life_that_is_no_number_of_seconds_is_not_guessed() {
        let odd = [
            "-1",
            "1.5",
            "1e3",
            r#""3600""#,
            r#""secret""#,
            "true",
            "[60]",
            "{}",
            "18446744073709551616",
        ];
        for life in odd {
            let body =
                format!(r#"{{"access_token":"a","token_type":"bearer","expires_in":{life}}}"#);
            let refusal = read(&answer(200, None, &body), false).unwrap_err();
            let said = "the token server's answer cannot be parsed at `expires_in`";
            assert_eq!(refusal.to_string(), said, "{life}");
        }
    }

    #[test]
    fn an_error_is_read_whatever_type_it_comes_under() {
        for (status, kind) in [
            (400, None),
            (401, Some("text/html")),
            (201, Some("application/json")),
        ] {
            let body = r#"{"error_description":["secret"],"error":"invalid_grant"}"#;
            let refusal = read(&answer(status, kind, body), true).unwrap_err();
            assert_eq!(refusal.fault, Fault::Token, "{status}");
            let said = r#"the token server answered "invalid_grant""#;
            assert_eq!(refusal.to_string(), said, "{status}");
        }
    }
}
