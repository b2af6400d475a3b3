//! `nsgate health`: asks a running gateway whether it serves, for images and load balancers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use http::{Method, StatusCode, Uri};
use nsgate::config::Secret;
use nsgate::config::load;
use serde::Deserialize;
use tokio::runtime::Builder;

use crate::batches::client::{Client, Problem};
use crate::batches::plain;
use crate::cli::Health;

/// The page `/ready`, as far as it matters here.
#[derive(Deserialize)]
struct Ready {
    ready: bool,
    #[serde(default)]
    missing: Vec<String>,
    last_reload: Option<LastReload>,
}

/// The last reload on the page `/ready`.
#[derive(Deserialize)]
struct LastReload {
    at: String,
    result: String,
}

/// Returns one line about a gateway that serves.
///
/// # Errors
/// One line about what is wrong.
pub(crate) fn run(asked: &Health) -> Result<String, String> {
    let (address, page) = target(asked)?;
    let mut runtime = Builder::new_current_thread();
    let runtime = runtime.enable_all().build();
    let runtime = runtime.map_err(|error| Problem::Runtime(error).to_string())?;
    // It goes to a page that needs no token.
    let client = Client::new(&address, None::<&Secret>, &asked.tls);
    let client = client.map_err(|problem| problem.to_string())?;
    let client = client.with_patience(asked.timeout);
    match runtime.block_on(client.exchange(Method::GET, &page, None)) {
        Ok((status, body)) => judge(client.admin(), &page, status, &body),
        Err(Problem::Unreachable { admin, cause }) => {
            Err(format!("not healthy: {admin} does not answer: {cause}"))
        }
        Err(problem) => Err(format!("not healthy: {problem}")),
    }
}

/// Returns the address to ask, without a path, and the page.
fn target(asked: &Health) -> Result<(Uri, String), String> {
    let url = match &asked.config {
        Some(file) => configured(file)?,
        None => asked.url.clone(),
    };
    let page = match url.path() {
        "" | "/" if asked.live => "/live",
        "" | "/" => "/ready",
        path => path,
    };
    let page = page.to_owned();
    let mut parts = url.into_parts();
    parts.path_and_query = Some(http::uri::PathAndQuery::from_static("/"));
    let address = Uri::from_parts(parts).map_err(|error| error.to_string())?;
    Ok((address, page))
}

/// Returns the admin address of a configuration as this machine reaches it.
fn configured(file: &Path) -> Result<Uri, String> {
    let loaded = load::from_path(file).map_err(|problems| {
        let first = problems.errors.first().map(ToString::to_string);
        let first = first.unwrap_or_default();
        format!("cannot tell the admin address, give it with --url: {first}")
    })?;
    let admin = &loaded.config.admin;
    if admin.address.port() == 0 {
        return Err(format!(
            "{}: admin.address leaves the port to the system; give the address with --url",
            file.display()
        ));
    }
    let scheme = if admin.tls.is_some() { "https" } else { "http" };
    let address = format!("{scheme}://{}", from_here(admin.address));
    address
        .parse()
        .map_err(|_| format!("{address} is no address"))
}

/// Returns the address by which this machine reaches a listener.
fn from_here(listener: SocketAddr) -> SocketAddr {
    let ip = match listener.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, listener.port())
}

/// Judges the answer to a request for `page`.
fn judge(address: &str, page: &str, status: StatusCode, body: &[u8]) -> Result<String, String> {
    if !["/ready", "/live"].contains(&page) {
        let said = format!("{address}{page} answers {status}");
        return if status.is_success() {
            Ok(format!("healthy: {said}"))
        } else {
            Err(format!("not healthy: {said}"))
        };
    }
    let stranger = || {
        format!(
            "not healthy: {address} answers {status}, but not as the admin address of nsgate does"
        )
    };
    if page == "/live" {
        let said: Option<serde_json::Value> = serde_json::from_slice(body).ok();
        let is_live = said.is_some_and(|said| said["live"] == true);
        return if is_live && status.is_success() {
            Ok("live".to_owned())
        } else {
            Err(refused(body).unwrap_or_else(stranger))
        };
    }
    let Ok(said) = serde_json::from_slice::<Ready>(body) else {
        return Err(refused(body).unwrap_or_else(stranger));
    };
    if !said.ready || !status.is_success() {
        return Err(format!("not ready: {}", plain(&said.missing.join("; "))));
    }
    Ok(match said.last_reload {
        Some(last) if last.result == "failure" => format!(
            "ready, with the configuration from before: the reload at {} was refused; run `nsgate reload` to see why",
            plain(&last.at)
        ),
        _ => "ready".to_owned(),
    })
}

/// Returns the gateway's own words for its refusal.
fn refused(body: &[u8]) -> Option<String> {
    let said: serde_json::Value = serde_json::from_slice(body).ok()?;
    let error = said["error"].as_str()?;
    Some(format!("not healthy: {}", plain(error)))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn a_listener_on_every_address_is_asked_on_this_machine() {
        let cases = [
            ("0.0.0.0:9090", "127.0.0.1:9090"),
            ("[::]:9090", "[::1]:9090"),
            ("10.0.0.7:9090", "10.0.0.7:9090"),
        ];
        for (listener, expected) in cases {
            let found = from_here(listener.parse().unwrap()).to_string();
            assert_eq!(found, expected, "{listener}");
        }
    }

    #[test]
    fn only_the_answer_of_a_gateway_that_serves_is_healthy() {
        let judge = |page, status: u16, body: &str| {
            let status = StatusCode::from_u16(status).unwrap();
            super::judge("http://gw:9090", page, status, body.as_bytes())
        };
        let strange = "not healthy: http://gw:9090 answers 200 OK, but not as the admin address of nsgate does";
        let cases = [
            (
                "/ready",
                200,
                r#"{"ready": true, "missing": []}"#,
                Ok("ready"),
            ),
            (
                "/ready",
                503,
                r#"{"ready": false, "missing": ["a", "b"]}"#,
                Err("not ready: a; b"),
            ),
            ("/ready", 200, "<h1>It works!</h1>", Err(strange)),
            ("/live", 200, r#"{"live": true}"#, Ok("live")),
            ("/live", 200, r#"{"ready": true}"#, Err(strange)),
            (
                "/ready",
                403,
                r#"{"error": "no", "code": 15}"#,
                Err("not healthy: no"),
            ),
            (
                "/healthz",
                200,
                "",
                Ok("healthy: http://gw:9090/healthz answers 200 OK"),
            ),
            (
                "/healthz",
                503,
                "",
                Err("not healthy: http://gw:9090/healthz answers 503 Service Unavailable"),
            ),
        ];
        for (page, status, body, expected) in cases {
            let found = judge(page, status, body);
            let found = found.as_deref().map_err(|words| &**words);
            assert_eq!(found, expected, "{page} {status} {body}");
        }
        let refused = r#"{"ready": true, "missing": [], "last_reload": {"at": "2026-11-25T02:14:00Z", "result": "failure"}}"#;
        let said = judge("/ready", 200, refused).unwrap();
        assert!(
            said.starts_with("ready, ") && said.contains("02:14"),
            "{said}"
        );
    }
}
