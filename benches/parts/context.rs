//! The context of a request through its layer: a number of context headers among the usual ones.

use divan::{Bencher, black_box};
use nsgate::body::Body;
use nsgate::layer::context::TakeContextLayer;
use nsgate::protocol::context::ContextRules;

use crate::inside::{ask, only, request};

#[divan::bench(args = [0, 1, 10])]
fn headers(bencher: Bencher<'_, '_>, number: usize) {
    let rules = ContextRules::new(vec!["x-ns-ctx-".to_owned()], 64, 16 << 10);
    let mut layer = only(TakeContextLayer::new(rules));
    bencher
        .with_inputs(|| {
            let mut request = request("/v1/table/prod%24t1/describe");
            for number in 0..number {
                request = request.header(format!("x-ns-ctx-key-{number}"), "value");
            }
            request.body(Body::empty()).unwrap()
        })
        .bench_local_values(|request| ask(&mut layer, black_box(request)).unwrap());
}
