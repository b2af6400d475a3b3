#![allow(clippy::unwrap_used, reason = "a test that panics fails")]

use bytes::Bytes;
use http::HeaderMap;

use super::*;

fn answer(status: u16, body: &str) -> InternalAnswer {
    InternalAnswer {
        status: StatusCode::from_u16(status).unwrap(),
        headers: HeaderMap::new(),
        body: Bytes::copy_from_slice(body.as_bytes()),
    }
}

/// Returns the outcome of a create of version 2, as one word.
fn word(status: u16, body: &str) -> &'static str {
    let answer = answer(status, body);
    match created("lake", described(2, &answer), &answer) {
        CreateOutcome::Yes(_) => "yes",
        CreateOutcome::Refused(_) => "refused",
        CreateOutcome::Conflicted(_) => "conflicted",
        CreateOutcome::Lost(_) => "lost",
        CreateOutcome::Unsent(_) | CreateOutcome::Spoiled(..) | CreateOutcome::Strange(_) => {
            "no answer of a create"
        }
    }
}

#[test]
fn a_create_is_refused_only_where_the_catalog_cannot_have_acted() {
    let version = r#"{"version":{"version":2,"manifest_path":"m","manifest_size":7}}"#;
    let cases = [
        (200, version, "yes"),
        (201, version, "yes"),
        (200, "", "lost"),
        (200, r#"{"version":null}"#, "lost"),
        (200, r#"{"version":{"version":3}}"#, "lost"),
        (
            400,
            r#"{"error":"no staged manifest","code":13}"#,
            "refused",
        ),
        (404, r#"{"error":"no table","code":4}"#, "refused"),
        (401, "", "refused"),
        (408, "", "lost"),
        (409, r#"{"error":"exists","code":14}"#, "conflicted"),
        (429, "", "refused"),
        (500, r#"{"error":"disk","code":18}"#, "lost"),
        (
            500,
            r#"{"error":"Not supported: create_table_version","code":18}"#,
            "refused",
        ),
        (501, "", "refused"),
        (502, "<html>", "lost"),
        (503, r#"{"error":"busy","code":17}"#, "lost"),
        (504, "", "lost"),
        (302, "", "lost"),
    ];
    for (status, body, expected) in cases {
        assert_eq!(word(status, body), expected, "{status} {body}");
    }
}

#[test]
fn a_version_is_absent_only_in_the_contracts_own_words() {
    let cases = [
        (404, r#"{"error":"","code":11}"#, true),
        (404, r#"{"error":"","code":4}"#, true),
        (404, r#"{"error":"","code":13}"#, false),
        (404, "no such page", false),
        (500, r#"{"error":"","code":11}"#, false),
        (200, "{}", false),
    ];
    for (status, body, expected) in cases {
        assert_eq!(
            is_absent(&answer(status, body)),
            expected,
            "{status} {body}"
        );
    }
}

#[test]
fn unsupported_is_recognised_in_every_form_seen() {
    let cases = [
        (
            500,
            r#"{"error":"Not supported: batch_create_table_versions not implemented","code":18}"#,
            true,
        ),
        (500, r#"{"error":"disk full","code":18}"#, false),
        (404, "", true),
        (404, r#"{"error":"no such table","code":4}"#, false),
        (405, "", true),
        (406, r#"{"error":"unsupported","code":0}"#, true),
        (501, "", true),
        (503, "", false),
        (200, "{}", false),
    ];
    for (status, body, expected) in cases {
        let status = StatusCode::from_u16(status).unwrap();
        assert_eq!(
            is_unsupported(status, body.as_bytes()),
            expected,
            "{status} {body}"
        );
    }
}

#[test]
fn a_declared_table_is_the_batchs_however_its_location_is_spelled() {
    let at = |location: &str| Proof {
        location: Some(location.to_owned()),
        ..Proof::default()
    };
    let spelled = ["file:///lake/x", "/lake/x", "/lake/x/"];
    for (one, other) in spelled
        .iter()
        .flat_map(|one| spelled.map(|other| (one, other)))
    {
        let (made, found) = (at(one), at(other));
        assert_eq!(
            same_table(Some(&made), None, &found),
            Match::Proven,
            "{one} {other}"
        );
        assert_eq!(
            same_table(None, Some(one), &found),
            Match::Alike,
            "{one} {other}"
        );
        let elsewhere = at("/lake/y");
        assert_eq!(
            same_table(Some(&made), None, &elsewhere),
            Match::Unlike,
            "{one}"
        );
    }
}

#[test]
fn likeness_is_proven_by_tags_and_refuted_by_sizes() {
    let proof = |size, tag: Option<&str>| Proof {
        manifest_path: None,
        manifest_size: size,
        e_tag: tag.map(str::to_owned),
        location: None,
    };
    let created = proof(Some(7), Some("final"));
    let cases = [
        (None, Some(7), None, proof(Some(7), None), Match::Alike),
        (None, Some(7), None, proof(Some(8), None), Match::Unlike),
        (None, None, None, proof(Some(8), None), Match::Incomparable),
        (None, Some(7), None, proof(None, None), Match::Incomparable),
        (
            None,
            Some(7),
            Some("s"),
            proof(Some(7), Some("s")),
            Match::Proven,
        ),
        (
            None,
            Some(7),
            Some("s"),
            proof(Some(7), Some("t")),
            Match::Alike,
        ),
        (
            None,
            Some(7),
            Some("s"),
            proof(Some(8), Some("s")),
            Match::Unlike,
        ),
        (
            Some(&created),
            None,
            None,
            proof(Some(7), Some("final")),
            Match::Proven,
        ),
        (
            Some(&created),
            None,
            None,
            proof(Some(7), Some("other")),
            Match::Alike,
        ),
        (
            Some(&created),
            None,
            None,
            proof(None, Some("final")),
            Match::Proven,
        ),
    ];
    for (case, (proof, size, e_tag, found, expected)) in cases.into_iter().enumerate() {
        let staged = Staged { proof, size, e_tag };
        assert_eq!(staged.compare(&found), expected, "case {case}");
    }
}

#[test]
fn the_latest_version_does_not_depend_on_the_order_of_the_page() {
    let page = r#"{"versions":[{"version":1},{"version":3},{"version":2}]}"#;
    let latest = |status, body| latest_of(&answer(status, body)).map(|latest| latest.number);
    assert_eq!(latest(200, page), Some(3));
    assert_eq!(latest(200, r#"{"versions":[]}"#), Some(0));
    assert_eq!(latest(200, "{}"), None);
    assert_eq!(latest(404, page), None);
}
