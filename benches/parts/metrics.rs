//! The counting of one request.

use std::time::Duration;

use divan::{Bencher, black_box};
use http::StatusCode;
use nsgate::metrics::{CompletedRequest, Metrics};
use nsgate::protocol::operation::Operation;

#[divan::bench(threads = [1, 2])]
fn one_request(bencher: Bencher<'_, '_>) {
    let metrics = Metrics::new();
    let backend = metrics.backend(&"warehouse".into());
    let counted = CompletedRequest {
        operation: Some(Operation::DescribeTable),
        backend: Some(&backend),
        status: Some(StatusCode::OK),
        took: Duration::from_micros(250),
        added: Some(Duration::from_micros(40)),
        limit: None,
        trace: None,
        request_bytes: 45,
        response_bytes: 200,
    };
    bencher.bench(|| {
        metrics.requests().began();
        metrics.requests().ended(black_box(counted));
    });
}
