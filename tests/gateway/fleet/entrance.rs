//! The address at which gateways pass requests on to each other.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::*;

#[tokio::test]
async fn nobody_but_a_gateway_enters_at_their_address() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let said = world.log();
    let (_, address) = said.split_once("nsgate for other gateways on ").unwrap();
    let address = address.lines().next().unwrap();
    let address = address.split('"').next().unwrap().parse().unwrap();
    let asks = |headers: &[(&'static str, &str)]| {
        let mut client = Client::new(address);
        for (name, value) in headers {
            client = client.header(name, value);
        }
        client
    };
    let client = r#"{"address":"127.0.0.1:1","secure":false,"subject":"CN=admin"}"#;
    let token =
        server.sql("SELECT token FROM nsgate.instance i JOIN nsgate.log l ON l.owner = i.id");
    let list = "/v1/table/west%24t1/version/list";
    for (headers, status) in [
        (vec![], 403),
        (
            vec![("nsgate-gateway", "x"), ("nsgate-client", client)],
            403,
        ),
        (vec![("nsgate-gateway", &*token)], 400),
        (
            vec![("nsgate-gateway", &*token), ("nsgate-client", client)],
            401,
        ),
    ] {
        assert_eq!(
            asks(&headers).post_nothing(list).await.status,
            status,
            "{headers:?}"
        );
    }
    // At the address for clients these headers mean nothing.
    let forged = world
        .anonymous()
        .header("nsgate-gateway", &token)
        .header("nsgate-client", client);
    assert_eq!(forged.post_nothing(list).await.status, 401);
}

/// A batch that is passed on is held in memory, to be passed on again.
#[tokio::test]
async fn no_gateway_reads_a_body_before_it_knows_the_caller() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    for token in ["", "authorization: Bearer forged\r\n"] {
        let head =
            format!("POST {BATCH} HTTP/1.1\r\nhost: g\r\n{token}content-length: 8000000\r\n\r\n{{");
        let mut stream = TcpStream::connect(world.address_at(0)).await.unwrap();
        stream.write_all(head.as_bytes()).await.unwrap();
        let mut status = [0; 12];
        let read = stream.read_exact(&mut status);
        let read = tokio::time::timeout(PATIENCE, read).await;
        read.expect("it does not wait for the body").unwrap();
        assert_eq!(&status, b"HTTP/1.1 401", "{token}");
    }
}

#[tokio::test]
async fn a_catalog_cannot_answer_for_a_gateway() {
    let Some(server) = Postgres::start() else {
        return;
    };
    let world = world(&server, 1).await;
    let west = world.catalog("west");
    // With this header a gateway says that it has done nothing.
    west.add_header("nsgate-not-owner", "true");
    let drop = "/v1/table/west%24t1/drop";
    world.client_at(0).post_nothing(drop).await.ok();
    assert_eq!(west.seen_of("drop_table").len(), 1);
}
