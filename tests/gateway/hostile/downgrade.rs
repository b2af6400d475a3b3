//! HTTP/2 requests that try to become two requests in HTTP/1.1, or are malformed.

use serde_json::json;

use super::frame_bytes::{
    CONTINUATION, DATA, END_HEADERS, END_STREAM, HEADERS, Said, block, frame, greeting, say,
};
use super::recorder::Recorder;
use crate::catalog::faults::PATIENCE;
use crate::harness::Setup;

type Header = (&'static str, &'static [u8]);

struct Case {
    name: &'static str,
    frames: Vec<Vec<u8>>,
    said: Said,
    reached: &'static [&'static str],
}

const PATH: Header = (":path", b"/v1/table/west%24ID/exists");
const FINE: [Header; 5] = [
    (":method", b"POST"),
    (":scheme", b"http"),
    (":authority", b"g"),
    PATH,
    ("content-type", b"application/json"),
];
const MALFORMED: Said = Said::Reset(1);
/// The error ends the connection, so nothing else that came over it is read.
const FATAL: Said = Said::Goaway(1);

fn case(
    name: &'static str,
    headers: &[Header],
    body: &[u8],
    said: Said,
    reached: &'static [&'static str],
) -> Case {
    let block = block(0, headers);
    Case {
        name,
        frames: vec![
            frame(HEADERS, END_HEADERS, 1, &block),
            frame(DATA, END_STREAM, 1, body),
        ],
        said,
        reached,
    }
}

/// Makes a case of a well-formed request with one more header.
fn more(name: &'static str, header: Header, said: Said, reached: &'static [&'static str]) -> Case {
    let headers: Vec<Header> = FINE.into_iter().chain([header]).collect();
    case(name, &headers, b"{}", said, reached)
}

/// Makes a case of a well-formed request with one header replaced.
fn instead(
    name: &'static str,
    header: Header,
    said: Said,
    reached: &'static [&'static str],
) -> Case {
    let other = |own: Header| if own.0 == header.0 { header } else { own };
    let headers: Vec<Header> = FINE.into_iter().map(other).collect();
    case(name, &headers, b"{}", said, reached)
}

fn cases() -> Vec<Case> {
    const ONE: &[&str] = &["exists {}"];
    let ok = || Said::Answer(Some(200));
    let without = |name: &str| {
        FINE.into_iter()
            .filter(|own| own.0 != name)
            .collect::<Vec<_>>()
    };
    let mut late = FINE.to_vec();
    late.insert(0, ("x-a", b"b"));
    let split = block(0, &FINE);
    vec![
        case("h2 fine", &FINE, b"{}", ok(), ONE),
        more(
            "h2 CR and LF in a value",
            ("x-a", b"b\r\nhost: evil"),
            FATAL,
            &[],
        ),
        more("h2 LF in a value", ("x-a", b"b\nc"), FATAL, &[]),
        more("h2 zero in a value", ("x-a", b"b\0c"), FATAL, &[]),
        more(
            "h2 request in a value",
            (
                "x-a",
                b"b\r\n\r\nPOST /v1/table/west%24ID/drop HTTP/1.1\r\n\r\n",
            ),
            FATAL,
            &[],
        ),
        more("h2 colon in a name", ("x: a", b"b"), FATAL, &[]),
        more("h2 CR and LF in a name", ("x\r\nhost", b"b"), FATAL, &[]),
        more("h2 capitals in a name", ("X-A", b"b"), FATAL, &[]),
        more("h2 empty name", ("", b"b"), FATAL, &[]),
        more(
            "h2 with a coding",
            ("transfer-encoding", b"chunked"),
            MALFORMED,
            &[],
        ),
        more(
            "h2 with connection",
            ("connection", b"close"),
            MALFORMED,
            &[],
        ),
        more("h2 with an upgrade", ("upgrade", b"h2c"), MALFORMED, &[]),
        more("h2 with te", ("te", b"gzip"), MALFORMED, &[]),
        more(
            "h2 length too small",
            ("content-length", b"1"),
            MALFORMED,
            &[],
        ),
        more(
            "h2 length too large",
            ("content-length", b"50"),
            MALFORMED,
            &[],
        ),
        more(
            "h2 length that is no number",
            ("content-length", b"2, 2"),
            MALFORMED,
            &[],
        ),
        more(
            "h2 length that is right",
            ("content-length", b"2"),
            ok(),
            ONE,
        ),
        more("h2 another host", ("host", b"evil"), ok(), ONE),
        more("h2 a second path", PATH, MALFORMED, &[]),
        more("h2 an unknown pseudo-header", (":evil", b"x"), FATAL, &[]),
        case(
            "h2 a pseudo-header that comes late",
            &late,
            b"{}",
            MALFORMED,
            &[],
        ),
        case("h2 no path", &without(":path"), b"{}", MALFORMED, &[]),
        case("h2 no method", &without(":method"), b"{}", MALFORMED, &[]),
        instead(
            "h2 request in the path",
            (":path", b"/v1/table/west%24ID/exists HTTP/1.1\r\nx: y"),
            MALFORMED,
            &[],
        ),
        instead(
            "h2 space in the path",
            (":path", b"/v1/table/west%24ID/exists x"),
            MALFORMED,
            &[],
        ),
        instead(
            "h2 path without a slash",
            (":path", b"v1/table/west%24ID/exists"),
            MALFORMED,
            &[],
        ),
        instead("h2 empty path", (":path", b""), MALFORMED, &[]),
        instead(
            "h2 request in the method",
            (":method", b"POST /v1/table/west%24ID/drop HTTP/1.1"),
            FATAL,
            &[],
        ),
        instead(
            "h2 CR and LF in the authority",
            (":authority", b"g\r\nx: y"),
            MALFORMED,
            &[],
        ),
        instead(
            "h2 odd scheme",
            (":scheme", b"http://evil/?"),
            MALFORMED,
            &[],
        ),
        Case {
            name: "h2 headers in pieces",
            frames: vec![
                frame(HEADERS, 0, 1, &split[..10]),
                frame(CONTINUATION, 0, 1, &split[10..20]),
                frame(CONTINUATION, END_HEADERS, 1, &split[20..]),
                frame(DATA, END_STREAM, 1, b"{}"),
            ],
            said: ok(),
            reached: ONE,
        },
        Case {
            name: "h2 other frames between pieces of headers",
            frames: vec![
                frame(HEADERS, 0, 1, &split[..10]),
                frame(DATA, END_STREAM, 1, b"{}"),
            ],
            said: FATAL,
            reached: &[],
        },
        Case {
            name: "h2 data on a stream that is none",
            frames: vec![frame(DATA, END_STREAM, 1, b"{}")],
            said: FATAL,
            reached: &[],
        },
        Case {
            name: "h2 a stream of the server's numbers",
            frames: vec![frame(HEADERS, END_HEADERS | END_STREAM, 2, &split)],
            said: FATAL,
            reached: &[],
        },
        Case {
            name: "h2 a frame longer than allowed",
            frames: vec![frame(DATA, 0, 1, &[0; 20_000])],
            said: Said::Goaway(6),
            reached: &[],
        },
        Case {
            name: "h2 a block that is none",
            frames: vec![frame(HEADERS, END_HEADERS, 1, &[0xff; 40])],
            said: FATAL,
            reached: &[],
        },
    ]
}

#[tokio::test]
async fn malformed_http2_is_refused_and_never_becomes_two_requests() {
    let recorder = Recorder::start().await;
    let world = Setup::new()
        .mount("[west]", "west")
        .section("auth: { anonymous: true }")
        .section("telemetry: { level: error, access_log: false }")
        .section("limits: { header_timeout: 1s, response_timeout: 1s, data_timeout: 1s }")
        .at("west", format!("http://{}", recorder.address))
        .start()
        .await;
    let (mut wrong, cases) = (Vec::new(), cases());
    for (number, case) in cases.iter().enumerate() {
        // The identifier is as long as `ID`, because the bytes contain lengths.
        let letter = |number: usize| char::from(b'A' + u8::try_from(number).unwrap());
        let id = format!(
            "{}{}",
            letter(number / 26),
            letter(number % 26).to_ascii_lowercase()
        );
        let mut sent = greeting(&[]);
        sent.extend(case.frames.concat());
        let places: Vec<usize> = (0..sent.len() - 4)
            .filter(|&at| sent[at..].starts_with(b"%24ID"))
            .collect();
        for at in places {
            sent[at + 3..at + 5].copy_from_slice(id.as_bytes());
        }
        let said = tokio::time::timeout(PATIENCE, say(world.address(), &sent, 1)).await;
        let said = said.expect("the gateway says something");
        let reached = recorder.reached(&format!("%24{id}/"));
        let after = world
            .anonymous()
            .post("/v1/table/west%24after/exists", &json!({}))
            .await;
        if said != case.said || reached != case.reached || after.status != 200 {
            wrong.push(format!(
                "{}: {said:?}, expected {:?}; reached {reached:?}",
                case.name, case.said
            ));
        }
    }
    assert!(
        wrong.is_empty(),
        "{} cases:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    let (requests, violations) = recorder.totals();
    assert!(violations.is_empty(), "{violations:#?}");
    let expected: usize = cases.iter().map(|case| case.reached.len() + 1).sum();
    assert_eq!(requests, expected, "nothing else reached the catalog");
    println!("{} hostile requests of HTTP/2", cases.len());
}
