//! The set-up that the tests of TLS share; they are in the files of its folder.

mod catalogs;
mod clients;
mod rotation;

use std::time::{Duration, SystemTime};

use http::Method;

use crate::client::{Client, full};
use crate::harness::{Setup, World};
use crate::test_ca::{Authority, Identity};

const EXISTS: &str = "/v1/table/west%24t1/exists";
const GUARDED: &str =
    "tls: { certificate: server.crt, private_key: server.key, client_ca: clients.pem }";

/// The options of a command that trusts the admin address of [`guarded_admin`].
pub const TRUST: [&str; 2] = ["--ca", "ca.pem"];
/// The options of a command that shows it a certificate.
pub const SHOW: [&str; 4] = ["--certificate", "person.crt", "--private-key", "person.key"];

/// Makes a setup whose gateway listens with TLS.
fn secured(authority: &Authority) -> Setup {
    secured_by(&authority.host("localhost"))
}

/// Makes a setup whose gateway listens with this certificate.
pub fn secured_by(identity: &Identity) -> Setup {
    shown(identity, Setup::two())
        .listen("tls: { certificate: server.crt, private_key: server.key }")
}

/// Makes a setup whose gateway listens with a certificate that expires after so many hours.
pub fn expiring(hours: u64) -> Setup {
    let end = SystemTime::now() + Duration::from_secs(hours * 3600);
    secured_by(&Authority::new().until("localhost", end))
}

/// Starts a gateway whose admin address has TLS and demands client certificates; returns it with the URL of that
/// address. In its folder are the files of [`TRUST`] and [`SHOW`].
pub async fn guarded_admin() -> (World, String) {
    let (authority, people) = (Authority::new(), Authority::new());
    let person = people.person("operator");
    let section = "admin: { address: 127.0.0.1:0, tls: { certificate: server.crt, private_key: server.key, client_ca: people.pem } }";
    let setup = shown(&authority.host("localhost"), Setup::two().section(section));
    let world = setup
        .file("people.pem", people.pem())
        .file("ca.pem", authority.pem())
        .file("person.crt", person.certificate())
        .file("person.key", person.private_key())
        .start()
        .await;
    let url = format!("https://localhost:{}", world.admin_address().port());
    (world, url)
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
