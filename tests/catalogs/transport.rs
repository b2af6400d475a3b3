//! Other connections to the catalog and to the gateway: HTTP/2, TLS under a private authority, certificates on both
//! sides.

use serde_json::json;
use tempfile::TempDir;

use crate::client::Client;
use crate::harness::{Behind, Catalog, Gateway, Process, Python, block_on};
use crate::test_ca::Authority;

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

/// The gateway and the catalog both require certificates, and all are from one private authority.
#[test]
fn real_clients_show_certificates_to_the_gateway_and_it_to_a_real_catalog() {
    let Some(python) = Python::ready() else {
        return;
    };
    let (authority, folder) = (Authority::new(), TempDir::new().unwrap());
    let write = |name: &str, text: String| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let ca = write("ca.pem", authority.pem());
    let (host, person) = (authority.host("localhost"), authority.person("loader"));
    let (server, server_key) = (
        write("server.crt", host.certificate()),
        write("server.key", host.private_key()),
    );
    let (shown, shown_key) = (
        write("client.crt", person.certificate()),
        write("client.key", person.private_key()),
    );
    let catalog = Catalog::start(python);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let behind = format!("127.0.0.1:{}", catalog.port()).parse().unwrap();
    let guard = Authority::guard(behind, &host, Some(&authority));
    let port = runtime.block_on(guard);

    let tls = json!({ "ca": ca, "certificate": shown, "private_key": shown_key });
    let behind = Behind {
        more: json!({ "tls": tls }),
        ..Behind::kept("warehouse", format!("https://localhost:{port}"), &[])
    };
    let listen =
        json!({ "tls": { "certificate": server, "private_key": server_key, "client_ca": ca } });
    let gateway = Gateway::configured(&[behind], &json!({ "listen": listen }));
    let address: std::net::SocketAddr = gateway.address().parse().unwrap();
    let uri = format!("https://localhost:{}", address.port());
    let told = python.run(
        "secured.py",
        &[&uri, gateway.token(), &ca, &shown, &shown_key],
    );
    let expected = json!({
        "read": 7,
        "versions": 2,
        "without a certificate": "refused",
        "of an unknown authority": "refused",
    });
    assert_eq!(told, expected);
}
