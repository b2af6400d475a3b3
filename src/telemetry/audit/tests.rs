//! Tests of the audit log by itself: a certificate, a full queue, and lines that were torn.
#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::io::Read as _;

use serde_json::{Value, json};

use super::*;
use crate::metrics::Metrics;
use crate::request::peer::Peer;

fn open(path: &Path) -> Audit {
    let target = AuditTarget::File(path.to_owned());
    Audit::open(&target, Metrics::new().audit()).unwrap()
}

fn decision(number: usize) -> AuditRecord {
    let who = ("me", "");
    AuditRecord::decision(&number.to_string(), "abort", who, None, Who::default())
}

fn lines(path: &Path) -> Vec<Value> {
    let mut text = String::new();
    let file = std::fs::File::open(path);
    file.unwrap().read_to_string(&mut text).unwrap();
    let line = |line: &str| serde_json::from_str(line).unwrap();
    text.lines().map(line).collect()
}

#[test]
fn a_certificate_and_an_address_say_who() {
    let peer = Peer::new("192.0.2.7:4711".parse().unwrap(), true).certified("CN=robot");
    let who = serde_json::to_value(Who::at(Some(&peer))).unwrap();
    let expected = json!({"certificate": "CN=robot", "client": "192.0.2.7:4711"});
    assert_eq!(who, expected);
}

#[test]
fn a_file_that_cannot_be_opened_says_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let target = AuditTarget::File(folder.path().join("none/audit.log"));
    let error = Audit::open(&target, Metrics::new().audit()).err().unwrap();
    assert!(error.ends_with("create its folder"), "{error}");
}

#[test]
fn a_file_that_is_no_audit_log_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("gateway.yaml");
    std::fs::write(&path, "auth: {}\n").unwrap();
    let target = AuditTarget::File(path.clone());
    let error = Audit::open(&target, Metrics::new().audit()).err().unwrap();
    assert!(
        error.contains("something else than lines of an audit log"),
        "{error}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), b"auth: {}\n");
    std::fs::write(&path, "").unwrap();
    open(&path).write(decision(1));
}

#[test]
fn lines_that_wait_for_a_full_disk_are_written_once_there_is_room_and_refusals_last() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    // A device that is always full.
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let audit = open(&path);
    let refused = StatusCode::UNAUTHORIZED;
    audit.write(AuditRecord::admin_refused(refused, Who::default()));
    audit.flush();
    for number in 0..3 {
        audit.write(decision(number));
    }
    assert!(audit.check().is_err());
    audit.flush();
    assert_eq!(audit.0.waiting.lines(), 4);
    std::fs::remove_file(&path).unwrap();
    audit.reopen();
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while audit.check().is_err() && std::time::Instant::now() < until {
        std::thread::yield_now();
    }
    audit.flush();
    let found = lines(&path);
    let ids: Vec<_> = found
        .iter()
        .map(|line| line["transaction"].clone())
        .collect();
    // The refusal came first, and gives way to the decisions.
    assert_eq!(ids, [json!("0"), json!("1"), json!("2"), Value::Null]);
    assert_eq!(audit.0.waiting.lines(), 0);
}

#[test]
fn a_rotated_file_is_opened_again_by_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let (path, old) = (folder.path().join("audit.log"), folder.path().join("old"));
    let audit = open(&path);
    audit.write(decision(1));
    audit.flush();
    std::fs::rename(&path, &old).unwrap();
    audit.write(decision(2));
    audit.flush();
    audit.reopen();
    audit.write(decision(3));
    audit.flush();
    assert_eq!((lines(&old).len(), lines(&path).len()), (2, 1));
}

#[test]
fn a_file_that_was_deleted_is_created_again_and_no_line_goes_where_nobody_finds_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    let audit = open(&path);
    audit.write(decision(1));
    audit.flush();
    std::fs::remove_file(&path).unwrap();
    audit.write(decision(2));
    audit.flush();
    let found = lines(&path);
    assert_eq!((found.len(), &found[0]["transaction"]), (1, &json!("2")));
    // Without its folder, no file can be created.
    std::fs::remove_dir_all(folder.path()).unwrap();
    audit.write(decision(3));
    audit.flush();
    assert!(!audit.is_writable());
}

#[test]
fn the_gauge_says_that_lines_cannot_be_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.log");
    std::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let metrics = Metrics::new();
    let audit = Audit::open(&AuditTarget::File(path), metrics.audit()).unwrap();
    let gauge = |value: u8| {
        let line = format!("nsgate_audit_writable {value}\n");
        metrics.render().unwrap().contains(&line)
    };
    assert!(gauge(1));
    audit.write(decision(1));
    audit.flush();
    assert!(gauge(0));
}
