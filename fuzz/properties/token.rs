//! Two lines: a header and a payload, from which tokens are made, one of them signed by the issuer's own key; the
//! whole is also read as a token, as a key, and as a value of `Authorization`. jsonwebtoken is the judge of what is believed.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use jsonwebtoken::crypto::aws_lc;
use jsonwebtoken::{DecodingKey, Validation};
use nsgate::auth::token::{Headers, Jwk, Key, MAX_BYTES, Policy, Refusal, UnverifiedToken, bearer};
use nsgate::config::{ALGORITHMS, Algorithm, Issuer};
use serde_json::{Map, Value, json};

const NOW: u64 = 1_800_000_000;

/// The only key of the issuer.
static KEY: LazyLock<(Ed25519KeyPair, Arc<Key>)> = LazyLock::new(|| {
    let pair = Ed25519KeyPair::from_seed_unchecked(&[7; 32]).expect("a seed");
    let public = BASE64.encode(pair.public_key().as_ref());
    let published = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k", "x": public});
    let published: Jwk = serde_json::from_value(published).expect("a key");
    let key = published.key(&[Algorithm::EdDSA]).expect("a usable key");
    (pair, Arc::new(key))
});

static POLICY: LazyLock<Policy> = LazyLock::new(|| {
    let mut issuer = Issuer::new("https://idp.test", "catalog");
    issuer.algorithms = vec![Algorithm::EdDSA];
    issuer.leeway = Duration::ZERO;
    Policy::new(&issuer)
});

pub fn check(data: &[u8]) {
    if let Ok(text) = std::str::from_utf8(data) {
        read(text);
        credentials(text);
    }
    key(data);
    let at = data
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(data.len());
    let (header, payload) = (&data[..at], data.get(at + 1..).unwrap_or_default());
    let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(payload));
    let genuine = BASE64.encode(KEY.0.sign(signed.as_bytes()).as_ref());
    let mut forged = genuine.clone().into_bytes();
    forged[0] = if forged[0] == b'A' { b'B' } else { b'A' };
    let forged = String::from_utf8(forged).expect("base64");
    assert!(judge(&format!("{signed}.{forged}")).is_none(), "forged");
    let genuine = format!("{signed}.{genuine}");
    if let Some(claims) = judge(&genuine) {
        believed(header, payload, &claims);
        believed_by_another(&genuine, payload);
    }
}

/// Returns the claims of a token if it is accepted.
fn judge(token: &str) -> Option<Map<String, Value>> {
    let unverified = read(token)?;
    let verdict = POLICY.judge(
        unverified,
        vec![Arc::clone(&KEY.1)],
        Duration::from_secs(NOW),
        None,
    );
    let verified = verdict.ok()?;
    assert!(verified.until > Duration::from_secs(NOW));
    Some(verified.principal.claims().clone())
}

/// Reads a token; the result is what any other reader would see.
fn read(token: &str) -> Option<UnverifiedToken<'_>> {
    let known = Headers::default();
    let read = match UnverifiedToken::read(token, &known) {
        Ok(read) => read,
        Err(refusal) => {
            // The message becomes a part of a quoted string in a header.
            let words = refusal.to_string();
            let plain = |c: char| matches!(c, ' '..='~') && c != '"' && c != '\\';
            assert!(words.chars().all(plain), "{words}");
            assert!(token.len() <= MAX_BYTES || matches!(refusal, Refusal::Malformed(_)));
            return None;
        }
    };
    let (encoded, kept) = read.unknown_header().expect("the first one");
    known.keep(encoded, kept);
    let again = UnverifiedToken::read(token, &known).expect("it was read before");
    assert_eq!(again.header(), read.header(), "a header that is known");
    let parts: Vec<&str> = token.split('.').collect();
    let [header, payload, signature] = parts[..] else {
        panic!("not three parts")
    };
    for part in [header, payload, signature] {
        let decoded = BASE64.decode(part).expect("base64url");
        assert_eq!(BASE64.encode(decoded), part, "another spelling of the same");
    }
    let header = object(header);
    for refused in [
        "jwk", "jku", "x5u", "x5c", "crit", "b64", "cty", "enc", "zip",
    ] {
        assert!(!header.contains_key(refused));
    }
    let alg = ALGORITHMS.iter().find(|(_, a)| *a == read.header().alg);
    assert_eq!(header["alg"], alg.expect("an algorithm").0);
    let kid = header.get("kid").map(|kid| kid.as_str().expect("a string"));
    assert_eq!(kid, read.header().kid.as_deref());
    let issuer = object(payload);
    assert_eq!(issuer.get("iss").and_then(Value::as_str), read.issuer());
    Some(read)
}

fn object(part: &str) -> Map<String, Value> {
    let bytes = BASE64.decode(part).expect("base64url");
    serde_json::from_slice(&bytes).expect("an object")
}

/// Checks that an accepted token has all required claims.
fn believed(header: &[u8], payload: &[u8], claims: &Map<String, Value>) {
    let header: Value = serde_json::from_slice(header).expect("JSON");
    assert_eq!(header["alg"], "EdDSA");
    let mut said: Map<String, Value> = serde_json::from_slice(payload).expect("JSON");
    // Only a verified client certificate can set this claim.
    said.remove("tls.subject");
    assert_eq!(&said, claims);
    assert_eq!(said["iss"], "https://idp.test");
    assert!(said["exp"].as_f64().expect("a date") > NOW as f64);
    if let Some(nbf) = said.get("nbf") {
        assert!(nbf.as_f64().expect("a date") <= NOW as f64);
    }
    let audience = &said["aud"];
    let ours = |value: &Value| value == "catalog";
    assert!(ours(audience) || audience.as_array().is_some_and(|all| all.iter().any(ours)));
    assert!(said.get("sub").is_none_or(Value::is_string));
}

/// A token that is believed is believed by jsonwebtoken, which reads it in its own way, and by the stock provider of its
/// signatures.
fn believed_by_another(token: &str, payload: &[u8]) {
    let mut validation = Validation::new(Algorithm::EdDSA);
    validation.set_issuer(&["https://idp.test"]);
    validation.set_audience(&["catalog"]);
    validation.set_required_spec_claims(&["exp", "iss", "aud"]);
    // Its clock cannot be set.
    validation.validate_exp = false;
    let key = DecodingKey::from_ed_der(KEY.0.public_key().as_ref());
    let read = jsonwebtoken::decode::<Map<String, Value>>(token, &key, &validation);
    let read = read.unwrap_or_else(|refused| panic!("jsonwebtoken refuses {token}: {refused}"));
    let said: Map<String, Value> = serde_json::from_slice(payload).expect("JSON");
    assert_eq!(read.claims, said);
    let (signed, signature) = token.rsplit_once('.').expect("three parts");
    let signature = BASE64.decode(signature).expect("base64url");
    let stock = (aws_lc::DEFAULT_PROVIDER.verifier_factory)(&Algorithm::EdDSA, &key);
    let verdict = stock.expect("a key").verify(signed.as_bytes(), &signature);
    verdict.expect("a signature that the stock provider accepts, too");
}

fn key(data: &[u8]) {
    let Ok(published) = serde_json::from_slice::<Jwk>(data) else {
        return;
    };
    let all = ALGORITHMS.map(|(_, algorithm)| algorithm);
    let Ok(key) = published.key(&all) else {
        return;
    };
    // Members of no concern are passed over, whatever they are.
    let Ok(said) = serde_json::from_slice::<Map<String, Value>>(data) else {
        return;
    };
    assert!(said.get("d").is_none_or(Value::is_null), "a private key");
    assert!(
        said.get("use")
            .is_none_or(|usage| usage == "sig" || usage.is_null())
    );
    for algorithm in all.into_iter().filter(|algorithm| key.fits(*algorithm)) {
        let name = ALGORITHMS
            .iter()
            .find(|(_, a)| *a == algorithm)
            .expect("known")
            .0;
        let family = match &name[..2] {
            "RS" | "PS" => "RSA",
            "ES" => "EC",
            _ => "OKP",
        };
        assert_eq!(said["kty"], family);
        assert!(
            said.get("alg")
                .is_none_or(|alg| alg == name || alg.is_null())
        );
    }
}

fn credentials(text: &str) {
    let Ok(value) = HeaderValue::from_str(text) else {
        return;
    };
    let mut headers = HeaderMap::new();
    headers.insert(AUTHORIZATION, value);
    if let Ok(token) = bearer(&headers) {
        assert!(!token.is_empty() && !token.starts_with(' '));
        let (scheme, rest) = text.split_once(' ').expect("a scheme");
        assert!(scheme.eq_ignore_ascii_case("bearer"));
        assert_eq!(rest.trim_start_matches(' '), token);
    }
    headers.append(AUTHORIZATION, HeaderValue::from_static("Bearer x"));
    assert!(bearer(&headers).is_err(), "two of them");
}
