//! A token server as one client of it sees it: client credentials (RFC 6749, section 4.4) and token exchange
//! (RFC 8693), few requests at a time, left alone for a while after failures.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderValue;
use oauth2::basic::{BasicClient, BasicTokenResponse, BasicTokenType};
use oauth2::{
    AsyncHttpClient, ClientId, ClientSecret, EndpointNotSet, EndpointSet, HttpRequest,
    HttpResponse, RequestTokenError, Scope, TokenResponse as _, TokenUrl,
};
use serde::Deserialize;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use super::channel::{Channel, NoAnswer};
use super::refusal::{Fault, Refusal};
use super::slot::Token;
use super::timing::{Backoff, FETCH_TIMEOUT, TokenLifetime};
use crate::config::{ClientTls, OAuth};
use crate::error::BoxError;

/// Requests, and so connections, at a time.
const AT_A_TIME: usize = 32;
/// The longest token, in bytes: catalogs take headers of about this size.
const MAX_TOKEN: usize = 8 << 10;

const ACCESS_TOKEN: &str = "urn:ietf:params:oauth:token-type:access_token";
const CLIENT_CREDENTIALS: &[u8] = b"grant_type=client_credentials";
const TOKEN_EXCHANGE: &[u8] =
    b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange";

type Client =
    BasicClient<EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointNotSet, EndpointSet>;
type Failed = RequestTokenError<NoAnswer, oauth2::basic::BasicErrorResponse>;

/// A token server.
pub(super) struct Server {
    client: Client,
    channel: Arc<Channel>,
    scope: Option<Scope>,
    audience: Option<String>,
    places: Semaphore,
    backoff: Mutex<Backoff>,
}

/// What a token is asked for with.
pub(super) enum Grant {
    /// The gateway's own credentials.
    Own,
    /// The token of a caller, without its scheme; sensitive.
    Trade(HeaderValue),
}

impl Server {
    /// Reads `tls.ca`, contacts nobody.
    pub(super) fn new(config: &OAuth, tls: Option<&ClientTls>) -> Result<Self, BoxError> {
        let client = BasicClient::new(ClientId::new(config.client_id.clone()))
            .set_client_secret(ClientSecret::new(config.client_secret.expose().to_owned()))
            .set_token_uri(TokenUrl::new(config.token_url.to_string())?);
        let ca = tls.and_then(|tls| tls.ca.as_deref());
        let channel = Channel::new(&config.token_url, ca)?;
        Ok(Self {
            client,
            channel: Arc::new(channel),
            scope: config.scope.clone().map(Scope::new),
            audience: config.audience.clone(),
            places: Semaphore::new(AT_A_TIME),
            backoff: Mutex::default(),
        })
    }

    /// Asks for a token, for five seconds at most, and not at all for a while after failures.
    pub(super) async fn ask(&self, grant: &Grant) -> Result<Token, Refusal> {
        // Nobody is asked for it, and so it says nothing of how the server is.
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
        // What it refuses to one, it may give to another.
        match &answer {
            Err(refusal) if refusal.fault == Fault::Server => {
                self.backoff().failed_since(began, Instant::now());
            }
            _ => self.backoff().succeeded(),
        }
        answer
    }

    async fn fetch(&self, grant: &Grant) -> Result<Token, Refusal> {
        // Never closed.
        let _place = self.places.acquire().await;
        let asked = Instant::now();
        let mut request = self.client.exchange_client_credentials();
        if let Some(scope) = &self.scope {
            request = request.add_scope(scope.clone());
        }
        if let Some(audience) = &self.audience {
            request = request.add_extra_param("audience", audience);
        }
        if let Grant::Trade(token) = grant {
            let token = token.to_str().unwrap_or_default();
            request = request
                .add_extra_param("subject_token", token)
                .add_extra_param("subject_token_type", ACCESS_TOKEN)
                .add_extra_param("requested_token_type", ACCESS_TOKEN);
        }
        let trading = matches!(grant, Grant::Trade(_));
        let post = Post {
            channel: Arc::clone(&self.channel),
            trading,
        };
        let answer = request.request_async(&post).await;
        let answer = answer.map_err(|failed| refusal(&failed, trading))?;
        token(&answer, asked, grant)
    }

    fn backoff(&self) -> MutexGuard<'_, Backoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The way out for oauth2.
struct Post {
    channel: Arc<Channel>,
    trading: bool,
}

impl AsyncHttpClient<'_> for Post {
    type Error = NoAnswer;
    type Future = Pin<Box<dyn Future<Output = Result<HttpResponse, NoAnswer>> + Send>>;

    fn call(&self, mut request: HttpRequest) -> Self::Future {
        if self.trading {
            name_exchange(&mut request);
        }
        let channel = Arc::clone(&self.channel);
        Box::pin(async move { channel.post(request).await })
    }
}

/// oauth2 has no grants beyond those of RFC 6749 (its section 4.5), and an exchange is a client's own request with
/// another grant type: the name is changed on the way out.
fn name_exchange(request: &mut HttpRequest) {
    let body = request.body_mut();
    if body.starts_with(CLIENT_CREDENTIALS) {
        body.splice(..CLIENT_CREDENTIALS.len(), TOKEN_EXCHANGE.iter().copied());
    }
}

fn token(answer: &BasicTokenResponse, asked: Instant, grant: &Grant) -> Result<Token, Refusal> {
    if *answer.token_type() != BasicTokenType::Bearer {
        return Err(Refusal::gateway(
            "the token server returned a token that is not a bearer token",
        ));
    }
    let secret = answer.access_token().secret();
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
    let life = TokenLifetime::new(asked, answer.expires_in(), most);
    if life.until <= Instant::now() {
        return Err(Refusal::gateway(
            "the token server returned an expired token",
        ));
    }
    Ok(Token { value, life })
}

/// How long a caller's token still lives, as far as it says so. It was verified at the door; what is read here can
/// only shorten the life of what it is traded for.
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

fn refusal(failed: &Failed, trading: bool) -> Refusal {
    match failed {
        RequestTokenError::ServerResponse(said) => {
            Refusal::answered(said.error().as_ref(), trading)
        }
        RequestTokenError::Request(cause) => {
            Refusal::server(format!("the request to the token server failed: {cause}"))
        }
        // Where it went wrong, not what was there: that may be a token.
        RequestTokenError::Parse(wrong, _) => Refusal::server(format!(
            "the token server's answer cannot be parsed at `{}`",
            wrong.path()
        )),
        RequestTokenError::Other(_) => {
            Refusal::server("the token server's answer is empty or not JSON")
        }
    }
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
        // Not for a place in the line, either.
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
