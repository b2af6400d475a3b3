//! The authentication of a request, through the layer.

use std::sync::Arc;
use std::time::Duration;

use divan::{Bencher, black_box};
use http::Request;
use nsgate::auth::keys::{Clock, Keys};
use nsgate::body::Body;
use nsgate::config::{Algorithm, Auth, Issuer, KeySource};
use nsgate::layer::authenticate::{AuthenticateLayer, Verifier};
use nsgate::metrics::Metrics;

use crate::forge::{self, NOW, ONE, P256, RSA};
use crate::inside::{ask, only, request};

/// The fixed number of samples, because a token is new only once.
const SAMPLES: u32 = 20;
const TIMES: u32 = 25;

#[divan::bench(args = ["RS256", "ES256"])]
fn known(bencher: Bencher<'_, '_>, algorithm: &str) {
    let (token, mut layer) = (token(algorithm, 0), only(layer()));
    ask(&mut layer, bearing(&token)).unwrap();
    bencher
        .with_inputs(|| bearing(&token))
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap());
}

#[divan::bench(args = ["RS256", "ES256"], sample_count = SAMPLES, sample_size = TIMES)]
fn seen_first(bencher: Bencher<'_, '_>, algorithm: &str) {
    let tokens: Vec<_> = (0..=SAMPLES * TIMES)
        .map(|number| token(algorithm, number))
        .collect();
    let (mut tokens, mut layer) = (tokens.iter(), only(layer()));
    bencher
        .with_inputs(|| {
            bearing(
                tokens
                    .next()
                    .expect("none but new ones: as many samples as there are"),
            )
        })
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap());
}

/// The token has the signature of another token.
#[divan::bench(args = ["RS256", "ES256"])]
fn forged(bencher: Bencher<'_, '_>, algorithm: &str) {
    let (one, two) = (token(algorithm, 1), token(algorithm, 2));
    let (signed, _) = one.rsplit_once('.').unwrap();
    let (_, signature) = two.rsplit_once('.').unwrap();
    let (forged, mut layer) = (format!("{signed}.{signature}"), only(layer()));
    bencher
        .with_inputs(|| bearing(&forged))
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap_err());
}

#[divan::bench]
fn missing(bencher: Bencher<'_, '_>) {
    let mut layer = only(layer());
    bencher
        .with_inputs(|| {
            request("/v1/table/prod%24t1/describe")
                .body(Body::empty())
                .unwrap()
        })
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap_err());
}

fn bearing(token: &str) -> Request<Body> {
    let request = request("/v1/table/prod%24t1/describe");
    let request = request.header("authorization", format!("Bearer {token}"));
    request.body(Body::empty()).unwrap()
}

fn token(algorithm: &str, number: u32) -> String {
    let mut claims = forge::claims();
    claims["sub"] = format!("caller-{number:06}").into();
    let header = forge::header(algorithm, algorithm);
    let signed = [header, claims].map(|part| forge::encode(part.to_string()));
    let signed = signed.join(".");
    let pair = if algorithm == "ES256" { &P256 } else { &RSA };
    format!(
        "{signed}.{}",
        forge::encode(pair.sign(algorithm, signed.as_bytes()))
    )
}

/// Returns a layer that has the keys already, and an empty token cache.
fn layer() -> AuthenticateLayer {
    struct Still;

    impl Clock for Still {
        fn wall(&self) -> Duration {
            Duration::from_secs(NOW)
        }

        fn steady(&self) -> Duration {
            Duration::ZERO
        }
    }

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("keys.json");
    std::fs::write(&file, forge::set(&[RSA.jwk("RS256"), P256.jwk("ES256")])).unwrap();
    let mut issuer = Issuer::new(ONE, "catalog");
    issuer.algorithms = vec![Algorithm::RS256, Algorithm::ES256];
    issuer.keys.source = KeySource::File(file);
    let auth = Auth {
        issuers: vec![issuer],
        anonymous: false,
    };
    let (metrics, clock) = (Metrics::new(), Arc::new(Still) as Arc<dyn Clock>);
    let keys = Keys::new(&auth, &clock, metrics.auth()).unwrap();
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().unwrap();
    for issuer in keys.issuers() {
        runtime.block_on(issuer.refresh());
    }
    assert_eq!(keys.missing().count(), 0);
    let verifier = Verifier::new(&keys, clock, metrics.auth().clone());
    AuthenticateLayer::new(Arc::new(verifier))
}
