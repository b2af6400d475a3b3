//! TLS between gateways: each shows a certificate to the other, and both are verified.

use http::Method;

use super::*;
use crate::client::{Reply, full};
use crate::test_ca::{Authority, Identity};

/// The keys of `batch.gateways` with TLS. The names of the files are those of [`secured`].
const TLS: &str = "address: 127.0.0.1:0, tls: { certificate: gateway.crt, private_key: gateway.key, ca: gateways.pem, server_name: localhost }";
const LIST: &str = "/v1/table/west%24t1/version/list";

/// Makes a setup of gateways that show `own` to each other and trust `ca`, besides the files of another gateway.
fn secured(server: &Postgres, keys: &str, own: &Identity, ca: &Authority) -> Setup {
    setup_with(server, &server.socket(), LEASE, "", keys)
        .file("gateway.crt", own.certificate())
        .file("gateway.key", own.private_key())
        .file("gateways.pem", ca.pem())
}

/// Starts an owner with `TLS`, and another gateway with a certificate and an authority of its own. Returns the answer to
/// a batch there.
async fn stranger(
    owner: &Identity,
    ca: &Authority,
    own: &Identity,
    trusts: &Authority,
) -> Option<(World, Reply, Postgres)> {
    let server = Postgres::start()?;
    let setup = secured(&server, TLS, owner, ca)
        .file("other.crt", own.certificate())
        .file("other.key", own.private_key())
        .file("others.pem", trusts.pem());
    let mut world = joined(setup, 0).await;
    let yaml = world.configuration();
    let yaml = yaml.replace("gateway.crt", "other.crt");
    let yaml = yaml.replace("gateway.key", "other.key");
    world
        .join_with(&yaml.replace("gateways.pem", "others.pem"))
        .await;
    let answer = world.client_at(0).post(BATCH, &pair(&world, 2)).await;
    assert_eq!(stored(&world, "west"), [1], "the owner has done nothing");
    Some((world, answer, server))
}

/// Checks what the client of a batch is told that was not passed on: it may repeat it.
fn assert_not_carried_out(answer: &Reply) {
    assert_eq!(answer.status, 503, "{answer:?}");
    let said = answer.json()["error"].as_str().unwrap().to_owned();
    assert!(
        said.contains("do not trust each other's certificates"),
        "{said}"
    );
    assert!(said.ends_with("retry later"), "{said}");
}

/// Waits for a line of the log with these words.
async fn logged(what: &str, log: impl Fn() -> String, words: &[&str]) {
    let has = |line: &str| words.iter().all(|word| line.contains(word));
    until(what, || log().lines().any(has)).await;
}

/// The port at which the first gateway is reached by others.
fn port(world: &World) -> u16 {
    let said = world.log();
    let (_, address) = said.split_once("nsgate for other gateways on ").unwrap();
    let address = address.split(['"', '\n']).next().unwrap();
    let address: std::net::SocketAddr = address.parse().unwrap();
    address.port()
}

#[tokio::test]
async fn requests_are_passed_on_over_tls_between_gateways_that_trust_each_other() {
    let authority = Authority::new();
    let named = TLS.replace(", server_name: localhost", "");
    for (keys, host) in [(TLS, "localhost"), (&*named, "127.0.0.1")] {
        let Some(server) = Postgres::start() else {
            return;
        };
        let own = authority.host(host);
        let world = joined(secured(&server, keys, &own, &authority), 1).await;
        world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
        assert_everywhere(&world, 1, &[1, 2], host).await;
        let ends = "nsgate_certificate_expiry_timestamp_seconds{certificate=\"batch.gateways\"}";
        assert!(world.metric(ends).await > 0.0, "its end is shown");
        let plain = Client::new(([127, 0, 0, 1], port(&world)).into());
        assert_eq!(
            plain.post_nothing(LIST).await.status,
            400,
            "it speaks TLS only"
        );
    }
}

#[tokio::test]
async fn a_gateway_with_a_certificate_of_another_authority_is_refused_by_the_owner() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (owner, own) = (ours.host("localhost"), theirs.host("localhost"));
    let Some((world, answer, _server)) = stranger(&owner, &ours, &own, &ours).await else {
        return;
    };
    assert_not_carried_out(&answer);
    let words = [
        "a connection to `batch.gateways.address` was refused",
        "gateways.pem",
        "give it a valid certificate",
    ];
    logged("the owner names its file", || world.log(), &words).await;
    let words = [
        "TLS to it failed",
        "it does not accept the client certificate it is shown",
        "batch.gateways.tls",
        "127.0.0.1:",
    ];
    logged("the other one names the owner", || world.log_at(0), &words).await;
}

#[tokio::test]
async fn an_owner_with_a_certificate_of_another_authority_is_refused_by_the_others() {
    let (ours, theirs) = (Authority::new(), Authority::new());
    let (owner, own) = (ours.host("localhost"), ours.host("localhost"));
    let Some((world, answer, _server)) = stranger(&owner, &ours, &own, &theirs).await else {
        return;
    };
    assert_not_carried_out(&answer);
    let words = [
        "TLS to it failed",
        "its certificate is signed by no authority that is trusted",
        "batch.gateways.tls",
        "127.0.0.1:",
    ];
    logged("it names the owner", || world.log_at(0), &words).await;
    let words = [
        "a connection to `batch.gateways.address` was refused",
        "gateways.pem",
    ];
    logged("the owner sees it, too", || world.log(), &words).await;
}

#[tokio::test]
async fn an_owner_whose_certificate_is_for_another_name_is_refused() {
    let ours = Authority::new();
    let (owner, own) = (ours.host("elsewhere.test"), ours.host("localhost"));
    let Some((world, answer, _server)) = stranger(&owner, &ours, &own, &ours).await else {
        return;
    };
    assert_not_carried_out(&answer);
    let words = [
        "TLS to it failed",
        "its certificate is for other names",
        "`server_name`",
    ];
    logged("it says which key is about it", || world.log_at(0), &words).await;
}

#[tokio::test]
async fn certificates_of_gateways_that_are_renewed_are_used_after_a_reload() {
    let (before, after) = (Authority::new(), Authority::new());
    let Some(server) = Postgres::start() else {
        return;
    };
    let own = before.host("localhost");
    let world = joined(secured(&server, TLS, &own, &before), 1).await;
    world.client_at(0).post(BATCH, &pair(&world, 2)).await.ok();
    let renewed = after.host("localhost");
    for (name, text) in [
        ("gateway.crt", renewed.certificate()),
        ("gateway.key", renewed.private_key()),
        ("gateways.pem", after.pem()),
    ] {
        std::fs::write(world.folder().join(name), text).unwrap();
    }
    for admin in [world.admin(), world.admin_at(0)] {
        admin.post_nothing("/reload").await.ok();
    }
    // Nobody but gateways has the token, so this is the answer to whoever gets through.
    let asks = async |authority: &Authority| {
        let trust = authority.client(Some(&authority.host("localhost")));
        let client = Client::tls(port(&world), trust, false);
        let answer = client.send(Method::POST, LIST, full("{}")).await;
        answer.map(|answer| answer.status)
    };
    assert!(asks(&before).await.is_err(), "the old authority is gone");
    assert_eq!(asks(&after).await, Ok(403));
    world.client_at(0).post(BATCH, &pair(&world, 3)).await.ok();
    assert_everywhere(&world, 1, &[1, 2, 3], "with new certificates").await;
    // Files that do not belong together change nothing.
    std::fs::write(world.folder().join("gateway.key"), own.private_key()).unwrap();
    let refused = world.admin().post_nothing("/reload").await;
    assert_eq!(refused.status, 422);
    let problem = refused.json()["problems"][0].as_str().unwrap().to_owned();
    assert!(problem.contains("batch.gateways.tls"), "{problem}");
    assert_eq!(asks(&after).await, Ok(403));
}
