//! Random requests over all operations, in spellings that servers are known to read in different ways.

use super::lenient::FORGED;
use super::second_reader::VERSION;
use crate::catalog::operations::{OPERATIONS, Sends};
use crate::random::Random;

/// Makes the `{id}` of a path, mostly one that the gateway reads as permitted and that others may read differently.
fn segment(random: &mut Random, root: &str) -> String {
    if random.chance(40) {
        return format!("{root}%24pub%24t{}", random.below(4));
    }
    let d = *random.pick(&["%24", "%24", "%24", "%24", "$", ".", "%2E", "::", "%2F"]);
    let end = *random.pick(&[
        "t1",
        "t1",
        "t1",
        "%74%31",
        "x%2F..%2F..%2Fhr%24secret",
        "x%2f..%2fkept%24hr%24secret",
        "x%5C..%5Chr",
        "hr%2Ftable",
        "t%2Fversion",
        "t%252Fdrop",
        "x%252F..%252F..%252Fhr",
        "t%3Bx",
        "t%3Fx",
        "t%23x",
        "a%2524b",
        "%2570",
        "a+b",
        "a%2Bb",
        "%2E",
        "%2E%2E",
        "..",
        "a$b",
        "a%24b",
        "ü%20%25",
        "100%25",
    ]);
    match random.below(12) {
        0 => format!("{root}{d}hr{d}{end}"),
        1 => format!("{root}{d}{end}"),
        2 => format!("{root}{d}pub"),
        3 => format!("{root}.pub{d}hr%24t"),
        4 => format!("{root}{d}pub.x%24y"),
        5 => "%24".to_owned(),
        _ => format!("{root}{d}pub{d}{end}"),
    }
}

fn query(random: &mut Random) -> String {
    let parts = [
        "delimiter=%24",
        "delimiter=.",
        "delimiter=::",
        "delimiter=/",
        "delimiter=%7C",
        "Delimiter=.",
        "delimiter[]=.",
        "delimiter%5B%5D=.",
        "x=1;delimiter=.",
        "%64elimiter=.",
        "%2564elimiter=.",
        "delimiter%00=.",
        "delimiter=%2524",
        "branch=dev",
        "mode=overwrite",
        "limit=3",
        "x=%2F",
    ];
    match random.below(8) {
        0..3 => String::new(),
        3..6 => "?delimiter=%24".to_owned(),
        6 => format!("?{}", random.pick(&parts)),
        _ => format!("?{}&{}", random.pick(&parts), random.pick(&parts)),
    }
}

fn body(random: &mut Random, root: &str, name: &str) -> String {
    let secret = format!("[\"{root}\",\"hr\",\"secret\"]");
    let own = format!("[\"{root}\",\"pub\",\"t1\"]");
    let entry = |random: &mut Random| {
        let more = random.pick(&[
            "",
            ",\"ID\":SECRET",
            ",\"table_id\":SECRET",
            ",\"new_id\":SECRET",
            ",\"Version\":9",
            ",\"metadata\":{\"a\":\"b\"}",
        ]);
        let end = *random.pick(&[
            "t1", "t2", "t4", "t5", "t6", "t7", "x/../hr", "a$b", "%41", "x;y",
        ]);
        format!(
            "{{\"id\":[\"{root}\",\"pub\",\"{end}\"],\"version\":{VERSION},\"manifest_path\":\"m\"{more}}}"
        )
    };
    let mut parts = Vec::new();
    if name == "rename_table" {
        parts.push(
            random
                .pick(&["\"new_table_name\":\"t9\"", "\"new_table_name\":\"x/../y\""])
                .to_string(),
        );
        if random.chance(50) {
            parts.push(format!("\"new_namespace_id\":[\"{root}\",\"pub\"]"));
        }
    }
    if name == "batch_create_table_versions" {
        let (one, two) = (entry(random), entry(random));
        parts.push(format!("\"entries\":[{one},{two}]"));
    }
    if name == "batch_commit_tables" {
        let one = entry(random);
        let more = random.pick(&["", ",\"Id\":SECRET", ",\"new_id\":SECRET"]);
        let other = if random.chance(50) {
            format!("{{\"create_table_version\":{}}}", entry(random))
        } else {
            format!("{{\"deregister_table\":{{\"id\":[\"{root}\",\"pub\",\"t3\"]{more}}}}}")
        };
        parts.push(format!(
            "\"operations\":[{{\"create_table_version\":{one}}},{other}]"
        ));
    }
    if name == "snapshot" {
        let (one, two) = (entry(random), entry(random));
        parts.push(format!("\"tables\":[{one},{two}]"));
    }
    for _ in 0..random.below(5).saturating_sub(2) {
        let part = random.pick(&[
            "\"id\":OWN",
            "\"ID\":SECRET",
            "\"Id\":SECRET",
            "\"\\u0069d\":SECRET",
            "\"\\u0131d\":SECRET",
            "\"id\":SECRET",
            "\"new_id\":SECRET",
            "\"New_Namespace_Id\":SECRET",
            "\"newNamespaceId\":SECRET",
            "\"new_name\\u017fpace_id\":SECRET",
            "\"Identity\":{\"auth_token\":\"evil\"}",
            "\"identity\":{\"auth_token\":\"evil\"}",
            "\"Context\":{\"tenant\":\"evil\"}",
            "\"context\":{\"tenant\":\"evil\"}",
            "\"Entries\":[{\"id\":SECRET}]",
            "\"version\":3",
            "\"unknown\":[1,{\"id\":SECRET}]",
        ]);
        parts.push((*part).to_owned());
    }
    let text = format!("{{{}}}", parts.join(","));
    text.replace("SECRET", &secret).replace("OWN", &own)
}

pub(super) fn request(random: &mut Random, bearer: &str) -> Vec<u8> {
    let root = *random.pick(&["kept", "kept", "moved"]);
    let outside = [
        ("newer", "POST", "/v1/table/{id}/newer", Sends::Unknown, 200),
        ("newer", "POST", "/v1/table/{id}/DROP", Sends::Unknown, 200),
        (
            "newer",
            "POST",
            "/v1/table/{id}/version%2Fcreate",
            Sends::Unknown,
            200,
        ),
        (
            "newer",
            "POST",
            "/v1/table/{id}/%64rop",
            Sends::Unknown,
            200,
        ),
        (
            "newer",
            "POST",
            "/v1/table/{id}/x%252Fy",
            Sends::Unknown,
            200,
        ),
        (
            "newer",
            "POST",
            "/v1/namespace/{id}/newer/%3Fx",
            Sends::Unknown,
            200,
        ),
        ("snapshot", "POST", "/nsgate/v1/snapshot", Sends::Json, 200),
    ];
    let number = random.below(61) as usize;
    let (name, method, template, sends, _) = match OPERATIONS.get(number) {
        Some(listed) => *listed,
        None => outside[number - OPERATIONS.len()],
    };
    let index = *random.pick(&["i", "i%2Fj", "%252e%252e", "i%3Bx"]);
    let target = template
        .replace("{id}", &segment(random, root))
        .replace("{index_name}", index);
    let (query, body) = (query(random), body(random, root, name));
    let kind = match (sends, random.below(8)) {
        (_, 0) => "text/plain",
        (Sends::Arrow, 1) | (Sends::Json, 2) => "application/json; charset=utf-8",
        (Sends::Arrow, _) | (_, 3) => "application/vnd.apache.arrow.stream",
        _ => "application/json",
    };
    let header = *random.pick(&[
        "accept: */*",
        "x-ns-ctx-tenant: evil",
        "x.ns.ctx.tenant: evil",
        "x_ns_ctx_tenant: evil",
        "x-lance-ctx-tenant: evil",
        "remote-user: evil",
        "x-auth-request-user: evil",
        "true-client-ip: evil",
        "x-original-uri: evil",
        "x_forwarded_for: evil",
    ]);
    debug_assert!(header.starts_with("accept") || header.contains(FORGED));
    let head = format!(
        "{method} {target}{query} HTTP/1.1\r\nhost: g\r\nauthorization: {bearer}\r\ncontent-type: {kind}\r\n{header}\r\n"
    );
    if random.chance(90) {
        return format!("{head}content-length: {}\r\n\r\n{body}", body.len()).into_bytes();
    }
    let chunked = format!(
        "{:x}\r\n{body}\r\n0\r\nx-ns-ctx-tenant: evil\r\n\r\n",
        body.len()
    );
    format!("{head}transfer-encoding: chunked\r\n\r\n{chunked}").into_bytes()
}
