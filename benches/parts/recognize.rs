//! The recognition of a request line as an operation and an identifier, through the layer.

use divan::{Bencher, black_box};
use nsgate::body::Body;
use nsgate::layer::recognize::RecognizeLayer;

use crate::inside::{ask, only, request};

const DESCRIBE: &str = "/v1/table/prod%24t1/describe?delimiter=%24";

#[divan::bench(args = [DESCRIBE, "/v1/table/prod%24t1/version/list", "/v1/table?limit=10"])]
fn found(bencher: Bencher<'_, '_>, target: &str) {
    let method = if target.ends_with("limit=10") {
        "GET"
    } else {
        "POST"
    };
    let mut layer = only(RecognizeLayer::default());
    bencher
        .with_inputs(|| request(target).method(method).body(Body::empty()).unwrap())
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap());
}

#[divan::bench(args = ["/v1/nothing/there", "/wp-login.php"])]
fn refused(bencher: Bencher<'_, '_>, target: &str) {
    let mut layer = only(RecognizeLayer::default());
    bencher
        .with_inputs(|| request(target).body(Body::empty()).unwrap())
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap_err());
}
