//! Other ways to a catalog and to the gateway: HTTP/2, TLS under a private authority.

use serde_json::json;
use tempfile::TempDir;

use crate::client::Client;
use crate::harness::{Behind, Catalog, Gateway, Process, Python, block_on};

const LIST: &str = "/v1/namespace/%24/list";

#[test]
fn http2_by_prior_knowledge_reaches_a_real_catalog() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let gateway = Gateway::before(&[Behind::kept("warehouse", catalog.uri(), &[])]);
    let bearer = format!("Bearer {}", gateway.token());
    let client = Client::h2(gateway.address().parse().unwrap()).header("authorization", &bearer);
    let listed = block_on(client.get(LIST)).ok();
    assert_eq!(listed.json(), json!({ "namespaces": [] }));
}

#[test]
fn a_catalog_behind_tls_is_reached_when_its_authority_is_known() {
    let Some(python) = Python::ready() else {
        return;
    };
    let (catalog, folder) = (Catalog::start(python), TempDir::new().unwrap());
    let authority = folder.path().join("authority.pem");
    let mut command = python.script("tls.py");
    command.arg(catalog.port().to_string()).arg(&authority);
    let tls = Process::start(&mut command);
    let uri = format!("https://127.0.0.1:{}", tls.word_after("port "));

    let known = Gateway::before(&[Behind {
        more: json!({ "tls": { "ca": authority } }),
        ..Behind::kept("warehouse", uri.clone(), &[])
    }]);
    let listed = block_on(known.client().get(LIST)).ok();
    assert_eq!(listed.json(), json!({ "namespaces": [] }));

    let unknown = Gateway::before(&[Behind::kept("warehouse", uri, &[])]);
    let refused = block_on(unknown.client().get(LIST));
    assert_eq!(refused.outcome(), (503, Some(17)), "{refused:?}");
}
