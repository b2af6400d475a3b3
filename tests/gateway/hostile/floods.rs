//! HTTP/2 clients that cause endless work: they are stopped, or slowed to their own pace, and memory stays flat.

use std::io;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::frame_bytes::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, PING, PRIORITY, RST_STREAM, SETTINGS,
    Said, WINDOW_UPDATE, block, frame, greeting, outcome, say,
};
use super::recorder::Recorder;
use crate::catalog::faults::PATIENCE;
use crate::harness::{Setup, World};

/// The most memory that one flood may cost the gateway, in KiB: less than a thousandth of what is sent in all.
const GROWTH: usize = 24 << 10;

struct Flood {
    name: &'static str,
    start: Vec<u8>,
    /// The bytes that are sent again and again; the argument is the stream's number, which counts up by two.
    wave: fn(u32) -> Vec<u8>,
    waves: u32,
    /// True if the client reads what the gateway sends.
    reads: bool,
    /// True if the gateway must end the connection.
    ends: bool,
}

fn request(path: &'static [u8]) -> Vec<u8> {
    block(
        0,
        &[
            (":method", b"POST"),
            (":scheme", b"http"),
            (":authority", b"g"),
            (":path", path),
            ("content-type", b"application/json"),
        ],
    )
}

fn exists() -> Vec<u8> {
    request(b"/v1/table/west%24flood/exists")
}

fn reset(stream: u32) -> Vec<u8> {
    let open = frame(HEADERS, END_HEADERS | END_STREAM, stream, &exists());
    [open, frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes())].concat()
}

/// Makes the gateway reset the stream, with a window update of zero.
fn made_to_reset(stream: u32) -> Vec<u8> {
    let open = frame(HEADERS, END_HEADERS, stream, &exists());
    [open, frame(WINDOW_UPDATE, 0, stream, &[0; 4])].concat()
}

fn floods() -> Vec<Flood> {
    let flood = |name, wave, waves, reads, ends| Flood {
        name,
        start: Vec::new(),
        wave,
        waves,
        reads,
        ends,
    };
    let open = |flags| frame(HEADERS, flags, 1, &exists());
    // This request waits for its body, so that the connection is not idle.
    let beside = |name, wave, waves, reads, ends| Flood {
        start: open(END_HEADERS),
        ..flood(name, wave, waves, reads, ends)
    };
    vec![
        flood("streams that are reset at once", reset, 20_000, true, true),
        flood(
            "streams that the gateway must reset",
            made_to_reset,
            20_000,
            true,
            true,
        ),
        Flood {
            start: open(0),
            ..flood(
                "headers that go on in pieces",
                |_| frame(CONTINUATION, 0, 1, &block(0, &[("x-a", &[b'b'; 1000])])),
                20_000,
                true,
                true,
            )
        },
        Flood {
            start: open(0),
            ..flood(
                "headers that go on in empty pieces",
                |_| frame(CONTINUATION, 0, 1, &[]),
                100_000,
                true,
                true,
            )
        },
        beside(
            "empty pieces of a body",
            |_| frame(DATA, 0, 1, &[]),
            100_000,
            true,
            true,
        ),
        beside(
            "settings",
            |_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]),
            20_000,
            true,
            true,
        ),
        flood(
            "settings whose answers nobody reads",
            |_| frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 255, 255]),
            400_000,
            false,
            false,
        ),
        beside("pings", |_| frame(PING, 0, 0, &[7; 8]), 20_000, true, true),
        flood(
            "pings whose answers nobody reads",
            |_| frame(PING, 0, 0, &[7; 8]),
            400_000,
            false,
            false,
        ),
        beside(
            "priorities",
            |_| frame(PRIORITY, 0, 3, &[0, 0, 0, 0, 1]),
            20_000,
            true,
            true,
        ),
        beside(
            "windows that grow by little",
            |_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
            20_000,
            true,
            true,
        ),
    ]
}

/// Sends until all is sent, the gateway closes the connection, or the gateway reads nothing for a while. Returns how
/// the gateway ended the connection, if it did.
async fn send(world: &World, flood: &Flood) -> Option<Said> {
    let (mut reader, mut writer) = TcpStream::connect(world.address())
        .await
        .unwrap()
        .into_split();
    let write = async {
        writer.write_all(&greeting(&[])).await?;
        writer.write_all(&flood.start).await?;
        let mut stream = 3;
        let mut left = flood.waves;
        while left > 0 {
            let now = left.min(100);
            let waves: Vec<u8> = (0..now)
                .flat_map(|n| (flood.wave)(stream + 2 * n))
                .collect();
            (left, stream) = (left - now, stream + 2 * now);
            let Ok(written) =
                tokio::time::timeout(Duration::from_millis(500), writer.write_all(&waves)).await
            else {
                // The gateway stopped reading, so the client only slows itself down.
                return io::Result::Ok(());
            };
            written?;
        }
        Ok(())
    };
    if !flood.reads {
        return match write.await {
            Ok(()) => None,
            Err(_) => Some(Said::Closed),
        };
    }
    let ended = outcome(&mut reader, 0);
    tokio::pin!(ended);
    tokio::select! {
        said = &mut ended => return Some(said),
        written = write => if written.is_ok() && !flood.ends { return None },
    }
    Some(ended.await)
}

async fn start(recorder: &Recorder, limits: &str) -> World {
    Setup::new()
        .mount("[west]", "west")
        .section("auth: { anonymous: true }")
        .section("telemetry: { level: error, access_log: false }")
        .section(limits)
        .at("west", format!("http://{}", recorder.address))
        .start()
        .await
}

/// Checks that another client's request is served, and that nothing of the flood is still in flight.
async fn served_after(world: &World, name: &str) {
    let after = world
        .anonymous()
        .post("/v1/table/west%24after/exists", &json!({}))
        .await;
    assert_eq!(after.status, 200, "{name}");
    let none = async {
        while world.metric("nsgate_requests_in_flight").await > 0.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let none = tokio::time::timeout(PATIENCE, none).await;
    assert!(none.is_ok(), "{name}: requests are left over");
}

#[tokio::test]
async fn floods_of_frames_are_stopped_or_slowed_and_memory_stays_flat() {
    let recorder = Recorder::start().await;
    let world = start(&recorder, "limits: { header_timeout: 2s }").await;
    served_after(&world, "warm").await;
    let floods = floods();
    for flood in &floods {
        let before = world.resident();
        let said = tokio::time::timeout(PATIENCE, send(&world, flood)).await;
        let said = said.unwrap_or_else(|_| panic!("{}: neither ends nor is slowed", flood.name));
        let grown = world.resident().saturating_sub(before);
        println!("{}: {said:?}, {grown} KiB more", flood.name);
        assert!(grown < GROWTH, "{}: {grown} KiB more", flood.name);
        assert!(said.is_some() || !flood.ends, "{}: it went on", flood.name);
        served_after(&world, flood.name).await;
    }
    let reached = recorder.reached("flood").len();
    assert!(
        reached < 5000,
        "{reached} of 40,000 reset requests reached the catalog"
    );
    println!(
        "{} floods; {reached} of 40,000 reset requests reached the catalog",
        floods.len()
    );
}

#[tokio::test]
async fn header_lists_that_are_too_large_are_refused_before_they_are_unpacked() {
    let recorder = Recorder::start().await;
    let world = start(&recorder, "limits: { header_timeout: 2s }").await;
    served_after(&world, "warm").await;
    let before = world.resident();
    // The 4000 bytes go into the table once and are referenced 12,000 times: 48 MB of headers in 16 KiB.
    let mut bomb = exists();
    bomb.extend(block(0x40, &[("x-a", &[b'b'; 4000])]));
    bomb.extend([0x80 | 62; 12_000]);
    let bomb = frame(HEADERS, END_HEADERS | END_STREAM, 1, &bomb);
    let mut large = exists();
    large.extend(block(0, &[("x-a", &vec![b'b'; 70_000])]));
    let pieces: Vec<&[u8]> = large.chunks(16_000).collect();
    let mut in_pieces = frame(HEADERS, END_STREAM, 1, pieces[0]);
    for (at, piece) in pieces.iter().enumerate().skip(1) {
        let last = at + 1 == pieces.len();
        in_pieces.extend(frame(
            CONTINUATION,
            if last { END_HEADERS } else { 0 },
            1,
            piece,
        ));
    }
    for (name, bytes) in [("bomb", bomb), ("large", in_pieces)] {
        let sent = [greeting(&[]), bytes].concat();
        let said = tokio::time::timeout(PATIENCE, say(world.address(), &sent, 1))
            .await
            .unwrap();
        // The status 431 is not in the static table, so it is sent as a literal.
        assert!(
            !matches!(said, Said::Answer(Some(_)) | Said::Closed),
            "{name}: {said:?}"
        );
        println!("{name}: {said:?}");
        served_after(&world, name).await;
    }
    let grown = world.resident().saturating_sub(before);
    assert!(grown < GROWTH, "{grown} KiB more");
    assert!(recorder.reached("flood").is_empty());
}

#[tokio::test]
async fn one_connection_has_no_more_streams_than_it_may() {
    let recorder = Recorder::start().await;
    let world = start(&recorder, "limits: { header_timeout: 2s }").await;
    // The bodies of these requests never come.
    let mut sent = greeting(&[]);
    for number in 0..300 {
        sent.extend(frame(HEADERS, END_HEADERS, 1 + 2 * number, &exists()));
    }
    let (mut reader, mut writer) = TcpStream::connect(world.address())
        .await
        .unwrap()
        .into_split();
    writer.write_all(&sent).await.unwrap();
    let refused = tokio::time::timeout(PATIENCE, outcome(&mut reader, 1 + 2 * 299)).await;
    assert_eq!(
        refused.unwrap(),
        Said::Reset(7),
        "refused: it may be sent again"
    );
    let most = async {
        while world.metric("nsgate_requests_in_flight").await < 256.0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, most)
        .await
        .expect("as many as it may");
    assert_eq!(world.metric("nsgate_requests_in_flight").await, 256.0);
    drop((reader, writer));
    served_after(&world, "streams").await;
}

#[tokio::test]
async fn answers_that_a_client_does_not_let_through_end_with_its_connection() {
    let recorder = Recorder::start().await;
    let world = start(
        &recorder,
        "limits: { response_timeout: 300ms, data_timeout: 300ms }",
    )
    .await;
    // The client's window for every answer is zero.
    let mut sent = greeting(&[(4, 0)]);
    for number in 0..100 {
        sent.extend(frame(HEADERS, END_HEADERS, 1 + 2 * number, &exists()));
        sent.extend(frame(DATA, END_STREAM, 1 + 2 * number, b"{}"));
    }
    let mut stream = TcpStream::connect(world.address()).await.unwrap();
    stream.write_all(&sent).await.unwrap();
    let mut all = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut all)).await;
    assert!(ended.is_ok(), "the gateway waits for ever");
    served_after(&world, "no window").await;
}
