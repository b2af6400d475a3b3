//! The processor time of a describe over the numbers of mounts, rules, tokens and connections.

use serde_json::json;

use crate::configuration::{with_mounts, with_rules};
use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::forge::{self, P256};
use crate::program::{Program, Setup};
use crate::server::Server;
use crate::sizes;
use crate::stalls::Stalls;

/// The rounds of each size, of which the cheapest counts, and the requests of a round.
const ROUNDS: usize = 9;
const REQUESTS: usize = 2_000;
/// A request costs the same whatever is configured.
const FLAT: Bound = Bound::Exponent(0.05);

/// The section `auth` for callers with tokens of [`bearer`].
pub const AUTH: &str = "auth:\n  issuers:\n    - { issuer: \"https://growth.test\", audiences: [catalog], \
    algorithms: [ES256], keys: { file: keys.json } }";

/// Returns the files beside a configuration with [`AUTH`].
pub fn files() -> [(&'static str, &'static str); 1] {
    static KEYS: std::sync::LazyLock<String> =
        std::sync::LazyLock::new(|| forge::set(&[P256.jwk("key")]));
    [("keys.json", &KEYS)]
}

/// Returns the header of a token with both scopes.
pub fn bearer(subject: &str) -> String {
    let claims = json!({"iss": "https://growth.test", "aud": "catalog", "sub": subject, "exp": 4_102_444_800_u64,
        "scope": "catalog.read catalog.write"});
    let token = forge::token(&forge::header("ES256", "key"), &claims, &P256);
    format!("Bearer {token}")
}

pub async fn mounts() {
    let mut curve = Curve::new("a describe over mounts: processor time", "µs");
    let mut stalls = Stalls::during("describes");
    let catalog = Server::plain().await;
    for size in sizes("over_mounts", &[10, 100, 1_000, 10_000, 100_000]) {
        let program = with_mounts(&catalog, size).start();
        let describe = |number| (format!("m{}%24t", number * 97 % size), String::new());
        curve.add(size, describes(&program, describe).await);
        stalls.add(&program).await;
    }
    curve.end(&FLAT);
    stalls.end();
}

pub async fn rules() {
    let mut curve = Curve::new("a describe over rules: processor time", "µs");
    let mut stalls = Stalls::during("describes");
    let catalog = Server::plain().await;
    let bearer = bearer("client");
    for size in sizes("over_rules", &[10, 100, 1_000, 10_000, 100_000]) {
        let yaml = with_rules(&catalog, size).yaml();
        let program = Program::start(tempfile::tempdir().unwrap(), &yaml, &files());
        let describe = |number| (format!("m0%24r{}%24t", number * 97 % size), bearer.clone());
        curve.add(size, describes(&program, describe).await);
        stalls.add(&program).await;
    }
    curve.end(&FLAT);
    stalls.end();
}

pub async fn tokens() {
    let mut curve = Curve::new("a describe over tokens in turn: processor time", "µs");
    let mut stalls = Stalls::during("describes");
    let catalog = Server::plain().await;
    let mut setup = Setup::over([catalog.address]);
    setup.auth = AUTH.to_owned();
    for size in sizes("over_tokens", &[1, 10, 100, 1_000, 10_000]) {
        let tokens: Vec<_> = (0..size).map(|at| bearer(&format!("client{at}"))).collect();
        let program = Program::start(tempfile::tempdir().unwrap(), &setup.yaml(), &files());
        // A token is known once it was shown for the second time.
        let mut connection = Connection::open(program.address).await.unwrap();
        for token in tokens.iter().chain(&tokens).chain(&tokens) {
            describe(&mut connection, "c0%24t", token).await;
        }
        let describe = |number: usize| ("c0%24t".to_owned(), tokens[number % size].clone());
        curve.add(size, describes(&program, describe).await);
        stalls.add(&program).await;
    }
    curve.end(&FLAT);
    stalls.end();
}

pub async fn connections() {
    let mut curve = Curve::new(
        "a describe over connections that are idle: processor time",
        "µs",
    );
    let mut stalls = Stalls::during("describes");
    let catalog = Server::plain().await;
    for size in sizes("over_connections", &[1, 10, 100, 1_000]) {
        let program = Setup::over([catalog.address]).start();
        let mut others = Vec::new();
        for _ in 1..size {
            let mut other = Connection::open(program.address).await.unwrap();
            describe(&mut other, "c0%24t", "").await;
            others.push(other);
        }
        let describe = |_| ("c0%24t".to_owned(), String::new());
        curve.add(size, describes(&program, describe).await);
        stalls.add(&program).await;
    }
    curve.end(&FLAT);
    stalls.end();
}

/// Returns the processor time of the program for one describe, in microseconds: of the cheapest round, because other work
/// on the machine makes it dearer.
async fn describes(program: &Program, next: impl Fn(usize) -> (String, String)) -> f64 {
    let mut connection = Connection::open(program.address).await.unwrap();
    let mut least = f64::MAX;
    for round in 0..=ROUNDS {
        let before = program.processor_time();
        for number in 0..REQUESTS {
            let (table, bearer) = next(round * REQUESTS + number);
            describe(&mut connection, &table, &bearer).await;
        }
        let used = program.processor_time() - before;
        // The first round fills caches.
        if round > 0 {
            least = least.min(used.as_secs_f64() * 1e6 / REQUESTS as f64);
        }
    }
    least
}

async fn describe(connection: &mut Connection, table: &str, bearer: &str) {
    let target = format!("/v1/table/{table}/describe");
    let (status, body) = connection
        .send(Message::post(target, bearer, "{}"))
        .await
        .unwrap();
    assert!(
        status.is_success(),
        "{status} {}",
        String::from_utf8_lossy(&body)
    );
}
