//! The requests whose cost is counted.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use crate::catalog::TEN;
use crate::forge::{self, P256, RSA};
use crate::message::Connection;
use crate::{ROUNDS, WARM_UP};

pub const ISSUER: &str = "https://issuer.test";
/// The content type of a body that is passed on unchanged.
const ARROW: &str = "application/vnd.apache.arrow.stream";
const JSON: &str = "application/json";
/// The number of new tokens in one round.
const FRESH: u64 = 50;

/// One kind of request.
pub struct Case {
    pub name: &'static str,
    /// The number of requests in a row that are counted.
    pub requests: u64,
    status: &'static str,
    asked: u64,
    /// Returns the request with that number.
    request: Box<dyn Fn(u64) -> Vec<u8>>,
}

/// The keys of the issuer.
pub struct Keys {
    expires: u64,
    /// A token that is used repeatedly.
    warm: String,
}

impl Case {
    /// Sends a request, and waits for the whole answer.
    pub fn ask(&mut self, client: &mut Connection) {
        client.send(&(self.request)(self.asked));
        self.asked += 1;
        let answer = client.receive().expect("an answer");
        assert!(
            answer.first.contains(self.status),
            "{}: {} {}",
            self.name,
            answer.first,
            String::from_utf8_lossy(&answer.body)
        );
    }
}

impl Keys {
    pub fn new() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut keys = Self {
            // The number has always the same count of digits, so that all tokens have one length.
            expires: now.as_secs() + 3600,
            warm: String::new(),
        };
        keys.warm = keys.token("RS256", 0);
        keys
    }

    pub fn warm(&self) -> &str {
        &self.warm
    }

    /// Returns the JSON Web Key Set.
    pub fn set(&self) -> String {
        forge::set(&[RSA.jwk("RS256"), P256.jwk("ES256")])
    }

    /// Returns token `number`; all tokens have one length.
    fn token(&self, algorithm: &str, number: u64) -> String {
        let claims = json!({
            "iss": ISSUER, "aud": "catalog", "sub": format!("caller-{number:08}"), "exp": self.expires,
            "scope": "catalog.read catalog.write", "tenant": "acme",
        });
        let part = |part: &Value| forge::encode(part.to_string());
        let signed = format!(
            "{}.{}",
            part(&forge::header(algorithm, algorithm)),
            part(&claims)
        );
        let pair = if algorithm == "ES256" { &P256 } else { &RSA };
        let signature = pair.sign(algorithm, signed.as_bytes());
        format!("{signed}.{}", forge::encode(signature))
    }
}

/// Returns all cases. The first is the hot path; each of the others differs from it in one thing.
pub fn all(keys: &Keys) -> Vec<Case> {
    let warm = keys.warm.clone();
    let fresh = |algorithm: &'static str| {
        // Minting a token is slow and must not be counted.
        let tokens: Vec<String> = (0..WARM_UP + ROUNDS * FRESH)
            .map(|number| keys.token(algorithm, number + 1))
            .collect();
        move |number: u64| describe("prod", &tokens[usize::try_from(number).unwrap()])
    };
    let own = warm.clone();
    let with =
        move |target: String, kind: &'static str, body: &[u8]| post(&target, &own, kind, body);
    let list = with.clone();
    let (batch, arrow) = (with.clone(), with);
    let (one, two, three) = (warm.clone(), warm.clone(), warm);
    let stream = vec![b'a'; 64 << 10];
    vec![
        case("describe", 100, "200", move |_| describe("prod", &one)),
        case("re-rooted", 100, "200", move |_| describe("moved", &two)),
        case("first RS256", FRESH, "200", fresh("RS256")),
        case("first ES256", FRESH, "200", fresh("ES256")),
        case("unknown mount", 200, "404", move |_| {
            describe("none", &three)
        }),
        case("versions", 100, "200", {
            let list = list.clone();
            move |_| list(format!("/v1/table/prod%24{TEN}/version/list"), JSON, b"")
        }),
        case("versions, one hidden", 100, "200", move |_| {
            list(
                "/v1/table/prod%24batched/version/list".to_owned(),
                JSON,
                b"",
            )
        }),
        case("batch of two", 20, "200", move |number| {
            let body = two_versions(["prod", "far"], "t2", number + 2);
            batch(
                "/v1/table/version/batch-create".to_owned(),
                JSON,
                body.as_bytes(),
            )
        }),
        case("64 KiB of Arrow", 50, "200", move |_| {
            arrow(
                "/v1/table/prod%24t1/insert?mode=append".to_owned(),
                ARROW,
                &stream,
            )
        }),
    ]
}

fn case(
    name: &'static str,
    requests: u64,
    status: &'static str,
    request: impl Fn(u64) -> Vec<u8> + 'static,
) -> Case {
    Case {
        name,
        requests,
        status,
        asked: 0,
        request: Box::new(request),
    }
}

fn describe(mount: &str, token: &str) -> Vec<u8> {
    let target = format!("/v1/table/{mount}%24t1/describe?delimiter=%24");
    let body = format!("{{\"id\":[\"{mount}\",\"t1\"],\"check_declared\":false}}");
    post(&target, token, JSON, body.as_bytes())
}

/// Returns the body of a batch: the same version of the same table in both mounts.
pub fn two_versions(mounts: [&str; 2], table: &str, version: u64) -> String {
    let entries = mounts.map(|mount| {
        json!({
            "id": [mount, table], "version": version, "manifest_path": format!("staged/{version}"),
            "manifest_size": 1000 + version,
        })
    });
    json!({ "entries": entries }).to_string()
}

/// Returns a request as clients send it.
pub fn post(target: &str, token: &str, kind: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {target} HTTP/1.1\r\nhost: gateway.test\r\nuser-agent: counted/1.0\r\naccept: application/json\r\n\
         authorization: Bearer {token}\r\ncontent-type: {kind}\r\nx-ns-ctx-team: ml\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}
