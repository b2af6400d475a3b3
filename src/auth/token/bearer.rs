//! Finds the one bearer token in a request's headers (RFC 6750, section 2.1; RFC 9110, section 11.4).

use http::HeaderMap;
use http::header::AUTHORIZATION;

use super::Refusal;

const SCHEME: &str = "bearer";

/// Returns the token of `Authorization: Bearer …`; the scheme may have any case, and spaces after it.
///
/// # Errors
/// There is no header or more than one, or it has another scheme, no token, or anything besides the
/// token.
pub fn bearer(headers: &HeaderMap) -> Result<&str, Refusal> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next().ok_or(Refusal::Missing)?;
    if values.next().is_some() {
        return Err(Refusal::Credentials(
            "there is more than one Authorization header",
        ));
    }
    let value = value
        .to_str()
        .map_err(|_| Refusal::Credentials("the Authorization header is not ASCII"))?;
    let (scheme, token) = value.split_once(' ').unwrap_or((value, ""));
    if !scheme.eq_ignore_ascii_case(SCHEME) {
        return Err(Refusal::Credentials(
            "the Authorization header is not a bearer token",
        ));
    }
    match token.trim_start_matches(' ') {
        "" => Err(Refusal::Credentials(
            "the Authorization header has no token",
        )),
        token => Ok(token),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use http::HeaderValue;

    use super::*;

    fn read(values: &[&[u8]]) -> Result<String, Refusal> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        }
        bearer(&headers).map(str::to_owned)
    }

    #[test]
    fn one_bearer_token_is_found_whatever_the_case_of_its_scheme() {
        for value in [
            "Bearer t.o.k",
            "bearer t.o.k",
            "BEARER t.o.k",
            "Bearer   t.o.k",
        ] {
            assert_eq!(read(&[value.as_bytes()]).unwrap(), "t.o.k", "{value}");
        }
    }

    #[test]
    fn anything_else_is_no_bearer_token() {
        assert_eq!(read(&[]), Err(Refusal::Missing));
        let cases: [&[&[u8]]; 8] = [
            &[b"Bearer a", b"Bearer a"],
            &[b"Basic dXNlcjpwYXNz"],
            &[b"Bearer"],
            &[b"Bearer  "],
            &[b""],
            &[b"Bearer\ta"],
            &[b"Bearera b"],
            &[b"Bearer \xff"],
        ];
        for values in cases {
            assert!(
                matches!(read(values), Err(Refusal::Credentials(_))),
                "{values:?}"
            );
        }
    }
}
