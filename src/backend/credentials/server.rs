//! Gets tokens from a token server, with client credentials (RFC 6749, section 4.4) or by token exchange (RFC 8693).
//! The number of concurrent requests is limited, and no requests are sent for a while after failures.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::channel::Channel;
use super::message::{self, Form, Granted};
use super::refusal::{Fault, Refusal};
use super::slot::Token;
use super::timing::{Backoff, FETCH_TIMEOUT, TokenLifetime};
use crate::config::{ClientTls, OAuth};
use crate::error::BoxError;

/// The largest number of requests, and so of connections, at a time.
const AT_A_TIME: usize = 32;
/// The longest token, in bytes: catalogs take headers of about this size.
const MAX_TOKEN: usize = 8 << 10;

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const CLIENT_CREDENTIALS: &str = "client_credentials";
const TOKEN_EXCHANGE: &str = "urn:ietf:params:oauth:grant-type:token-exchange";

/// A token server.
pub(super) struct Server {
    channel: Channel,
    scope: Option<String>,
    audience: Option<String>,
    places: Semaphore,
    backoff: Mutex<Backoff>,
}

/// The credentials of a token request.
pub(super) enum Grant {
    /// The gateway's own credentials.
    Own,
    /// The token of a caller, without its scheme; sensitive.
    Trade(HeaderValue),
}

impl Server {
    /// Builds the client. Reads `tls.ca`, and contacts no server.
    pub(super) fn new(config: &OAuth, tls: Option<&ClientTls>) -> Result<Self, BoxError> {
        let client = message::basic(&config.client_id, config.client_secret.expose())?;
        let ca = tls.and_then(|tls| tls.ca.as_deref());
        Ok(Self {
            channel: Channel::new(&config.token_url, client, ca)?,
            scope: config.scope.clone(),
            audience: config.audience.clone(),
            places: Semaphore::new(AT_A_TIME),
            backoff: Mutex::default(),
        })
    }

    /// Requests a token, for five seconds at most. Sends no request for a while after failures.
    pub(super) async fn ask(&self, grant: &Grant) -> Result<Token, Refusal> {
        // The server is not contacted, so this says nothing about its health.
        if let Grant::Trade(token) = grant
            && time_left(token.as_bytes()) == Some(Duration::ZERO)
        {
            return Err(Refusal::new(Fault::Token, "the caller's token has expired"));
        }
        let began = Instant::now();
        if !self.backoff().admit(began) {
            return Err(Refusal::server(
                "the token server failed a moment ago; no request is sent to it yet",
            ));
        }
        let answer = timeout(FETCH_TIMEOUT, self.fetch(grant)).await;
        let answer = answer.unwrap_or_else(|_| Err(Refusal::late()));
        if let Err(refusal) = &answer
            && matches!(refusal.fault, Fault::Gateway | Fault::Server)
        {
            tracing::warn!(token_server = self.channel.host(), cause = %refusal, "cannot get a token for a catalog");
        }
        // A server that refuses one token may still issue others.
        match &answer {
            Err(refusal) if refusal.fault == Fault::Server => {
                self.backoff().failed_since(began, Instant::now());
            }
            _ => self.backoff().succeeded(),
        }
        answer
    }

    async fn fetch(&self, grant: &Grant) -> Result<Token, Refusal> {
        // The semaphore is never closed, so this cannot fail.
        let _place = self.places.acquire().await;
        let asked = Instant::now();
        let answer = self.channel.post(self.form(grant)).await;
        let answer = answer.map_err(|cause| {
            Refusal::server(format!("the request to the token server failed: {cause}"))
        })?;
        let granted = message::read(&answer, matches!(grant, Grant::Trade(_)))?;
        token(&granted, asked, grant)
    }

    fn form(&self, grant: &Grant) -> Form {
        let mut form = Form::default();
        form.add(
            "grant_type",
            match grant {
                Grant::Own => CLIENT_CREDENTIALS,
                Grant::Trade(_) => TOKEN_EXCHANGE,
            },
        );
        if let Some(scope) = &self.scope {
            form.add("scope", scope);
        }
        if let Some(audience) = &self.audience {
            form.add("audience", audience);
        }
        if let Grant::Trade(token) = grant {
            form.add("subject_token", token.to_str().unwrap_or_default());
            form.add("subject_token_type", ACCESS_TOKEN);
            form.add("requested_token_type", ACCESS_TOKEN);
        }
        form
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn token(granted: &Granted, asked: Instant, grant: &Grant) -> Result<Token, Refusal> {
    if !granted.kind.eq_ignore_ascii_case("bearer") {
        return Err(Refusal::gateway(
            "the token server returned a token that is not a bearer token",
        ));
    }
    let secret = &granted.token;
    if secret.is_empty() || secret.len() > MAX_TOKEN {
        return Err(Refusal::gateway(
            "the token server returned an empty token, or one that is too long",
        ));
    }
    let value = HeaderValue::try_from(format!("Bearer {secret}"));
    let mut value = value.map_err(|_| {
        Refusal::gateway(
            "the token server returned a token with characters that no header may have",
        )
    })?;
    value.set_sensitive(true);
    let most = match grant {
        Grant::Own => None,
        Grant::Trade(token) => time_left(token.as_bytes()),
    };
    let life = TokenLifetime::new(asked, granted.life, most);
    if life.until <= Instant::now() {
        return Err(Refusal::gateway(
            "the token server returned an expired token",
        ));
    }
    Ok(Token { value, life })
}

/// Returns the time that a caller's token still lives; `None` if it does not say. The token was verified when the
/// request arrived. The value can only shorten the life of the token that it is exchanged for.
fn time_left(token: &[u8]) -> Option<Duration> {
    #[derive(Deserialize)]
    struct Claims {
        exp: f64,
    }
    let payload = token.split(|byte| *byte == b'.').nth(1)?;
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    let claims: Claims = serde_json::from_slice(&payload).ok()?;
    let expires = Duration::try_from_secs_f64(claims.exp).ok()?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    Some(expires.saturating_sub(now))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;
    use crate::config::Secret;

    fn server() -> Server {
        server_at("127.0.0.1:1")
    }

    fn server_at(address: &str) -> Server {
        let config = OAuth {
            token_url: format!("http://{address}/token").parse().unwrap(),
            client_id: "gateway".to_owned(),
            client_secret: Secret::new("secret"),
            scope: None,
            audience: None,
            exchange: false,
        };
        Server::new(&config, None).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_that_has_ended_does_not_say_that_the_server_is_well() {
        let server = server();
        server.backoff().failed(Instant::now());
        tokio::time::advance(Duration::from_secs(1)).await;
        let ended = format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(r#"{"exp":1}"#));
        let ended = Grant::Trade(HeaderValue::try_from(ended).unwrap());
        assert_eq!(server.ask(&ended).await.unwrap_err().fault, Fault::Token);
        let mut backoff = server.backoff();
        let now = Instant::now();
        assert!(backoff.admit(now) && !backoff.admit(now), "one at a time");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_longer_than_five_seconds() {
        let server = server();
        // The wait for a free place counts, too.
        let places = u32::try_from(AT_A_TIME).unwrap();
        let _taken = server.places.acquire_many(places).await.unwrap();
        let began = Instant::now();
        let refusal = server.ask(&Grant::Own).await.unwrap_err();
        assert_eq!(refusal.fault, Fault::Server);
        assert_eq!(began.elapsed(), FETCH_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_fail_together_fail_once() {
        let server = server();
        let places = u32::try_from(AT_A_TIME).unwrap();
        let _taken = server.places.acquire_many(places).await.unwrap();
        let own = Grant::Own;
        let all = (0..8).map(|_| server.ask(&own));
        for answer in futures_util::future::join_all(all).await {
            assert_eq!(answer.unwrap_err().fault, Fault::Server);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(server.backoff().admit(Instant::now()), "a second is enough");
    }

    #[tokio::test]
    async fn a_server_that_fails_fails_whatever_it_says() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = server_at(&listener.local_addr().unwrap().to_string());
        for status in ["429 Too Many Requests", "503 Service Unavailable"] {
            let answer = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let body = r#"{"error":"not now"}"#;
                let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json");
                let answer = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                stream
                    .read_buf(&mut Vec::with_capacity(4096))
                    .await
                    .unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
                stream
            };
            let own = Grant::Own;
            let (asked, _stream) = tokio::join!(server.fetch(&own), answer);
            assert_eq!(asked.unwrap_err().fault, Fault::Server, "{status}");
        }
    }

    #[test]
    fn what_a_callers_token_says_of_its_end_is_only_believed_where_it_says_it() {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let made = |claims: String| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        let left = |claims: String| time_left(made(claims).as_bytes());
        let soon = left(format!(r#"{{"exp":{}}}"#, now.as_secs() + 60)).unwrap();
        assert!(soon > Duration::from_secs(50) && soon <= Duration::from_secs(60));
        assert_eq!(left(r#"{"exp":1}"#.to_owned()), Some(Duration::ZERO));
        for unsaid in [
            r#"{}"#,
            r#"{"exp":"1"}"#,
            r#"{"exp":-1}"#,
            r#"{"exp":1e300}"#,
            "no",
        ] {
            assert_eq!(left(unsaid.to_owned()), None, "{unsaid}");
        }
        for opaque in ["", "opaque", "a.b", "..", "a.!.c"] {
            assert_eq!(time_left(opaque.as_bytes()), None, "{opaque}");
        }
    }
}
