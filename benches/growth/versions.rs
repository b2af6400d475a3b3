//! The memory of a list of versions over its length.

use std::fmt::Write as _;

use bytes::Bytes;

use crate::connection::{Connection, Message};
use crate::curve::{Bound, Curve};
use crate::program::Setup;
use crate::server::Server;
use crate::sizes;
use crate::stalls::Stalls;

/// The lists after the one whose memory is measured, in which stalls are looked for.
const MORE: usize = 10;

pub async fn measure() {
    let mut curve = Curve::new("version/list over versions: memory more than before", "MiB");
    let mut stalls = Stalls::during("version/list over versions");
    for size in sizes("versions", &[4_000, 16_000, 64_000, 250_000]) {
        let list = list(size);
        let server = Server::start(move |target| {
            if target.contains("/version/list") {
                list.clone()
            } else {
                Bytes::from_static(crate::server::DESCRIBED.as_bytes())
            }
        })
        .await;
        let program = Setup::over([server.address]).start();
        let mut connection = Connection::open(program.address).await.unwrap();
        let ask = |what: &str| Message::post(format!("/v1/table/c0%24t/{what}"), "", "");
        connection.send(ask("describe")).await.unwrap();
        program.forget_peak();
        let before = program.resident();
        let (status, body) = connection.send(ask("version/list")).await.unwrap();
        assert!(
            status.is_success(),
            "{status} {}",
            String::from_utf8_lossy(&body)
        );
        // Less than that is chance.
        curve.add(size, (program.peak() - before).max(1.0));
        for _ in 0..MORE {
            connection.send(ask("version/list")).await.unwrap();
        }
        stalls.add(&program).await;
    }
    curve.end(&Bound::Exponent(0.1));
    stalls.end();
}

/// Returns the list of a catalog, as real ones write it.
fn list(versions: usize) -> Bytes {
    let mut text = "{\"versions\":[".to_owned();
    for number in (1..=versions).rev() {
        let comma = if number > 1 { "," } else { "" };
        let _ = write!(
            text,
            "{{\"version\":{number},\"manifest_path\":\"warehouse/t.lance/_versions/{:020}.manifest\",\
             \"manifest_size\":{},\"e_tag\":\"\\\"5d41402abc4b2a76b9719d911017c592\\\"\",\
             \"timestamp_millis\":1763700000000,\"metadata\":{{}}}}{comma}",
            u64::MAX - number as u64,
            1000 + number,
        );
    }
    text.push_str("]}");
    text.into()
}
