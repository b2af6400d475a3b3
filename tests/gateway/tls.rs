//! The set-up that the tests of TLS share; they are in the files of its folder.

mod catalogs;
mod clients;
mod rotation;

use http::Method;

use crate::client::{Client, full};
use crate::harness::Setup;
use crate::test_ca::{Authority, Identity};

const EXISTS: &str = "/v1/table/west%24t1/exists";
const GUARDED: &str =
    "tls: { certificate: server.crt, private_key: server.key, client_ca: clients.pem }";

/// Makes a setup whose gateway listens with TLS.
fn secured(authority: &Authority) -> Setup {
    shown(&authority.host("localhost"), Setup::two())
        .listen("tls: { certificate: server.crt, private_key: server.key }")
}

/// Makes a setup whose gateway listens with TLS and demands client certificates of the authority.
fn guarded(authority: &Authority, setup: Setup) -> Setup {
    shown(&authority.host("localhost"), setup)
        .listen(GUARDED)
        .file("clients.pem", authority.pem())
}

fn shown(identity: &Identity, setup: Setup) -> Setup {
    setup
        .file("server.crt", identity.certificate())
        .file("server.key", identity.private_key())
}

async fn exists(client: &Client) -> Result<u16, String> {
    let reply = client.send(Method::POST, EXISTS, full("{}")).await;
    reply.map(|reply| reply.status)
}
