//! The status page in a real browser.

use std::path::Path;

use serde_json::{Value, json};

use crate::browser::{axe, browser};
use crate::harness::{Behind, Catalog, Gateway, Process, Python};

const TOKEN: &str = "open-sesame";
/// The markup that an operator, or anyone who may name a namespace, could write to get a script into the page.
const MARKUP: &str = "<img src=x onerror=alert(1)>";

#[test]
fn the_status_page_shows_what_is_in_a_browser_and_says_when_nobody_answers() {
    let Some(python) = Python::ready() else {
        return;
    };
    let catalog = Catalog::start(python);
    let behind = [
        Behind::kept("warehouse", catalog.uri(), &[]),
        Behind::rerooted(
            "lake",
            "http://127.0.0.1:1".to_owned(),
            &["research", MARKUP],
        ),
    ];
    let mut gateway = Gateway::configured(&behind, &json!({ "admin": { "token": TOKEN } }));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let admin = format!("http://{}", gateway.admin());
    let mut command = python.script("status.py");
    command
        .arg(browser())
        .arg(axe())
        .args([&admin, TOKEN, &gateway.uri(), gateway.token()]);
    command.arg(folder);
    let person = Process::start(&mut command);
    person.word_after("gone");
    gateway.kill();
    person.tell("yes");
    let seen: Value = serde_json::from_str(&person.line_after("seen ")).unwrap();

    let says = |part: &str, words: &[&str]| {
        let text = seen[part].as_str().unwrap();
        for word in words {
            assert!(text.contains(word), "{part} lacks {word:?}:\n{text}");
        }
    };
    says("locked", &["locked"]);
    says("state", &["catalog lake is down"]);
    says(
        "findings",
        &[
            "catalog lake is down",
            "nsgate check --online --config",
            "NsgateBackendDown",
        ],
    );
    says("failed", &["503", "list_namespaces", "lake", "request"]);
    says("refused", &["401", "times"]);
    says("certificates", &["no TLS is configured"]);
    says(
        "process",
        &["memory", "MiB", "processor time", "open files"],
    );
    says("version", &[env!("CARGO_PKG_VERSION")]);
    says(
        "tiles",
        &["Requests", "Latency", "p99", "In flight", "no hazard"],
    );
    says(
        "catalogs",
        &["warehouse", "up", "lake", "down", MARKUP, "its root"],
    );
    says("operations", &["list_namespaces", "table_exists", "ms"]);
    says("batches", &["every batch is finished"]);
    says("keys", &["https://issuer.test"]);
    says(
        "configuration",
        &["gateway.yaml", "in use for", "refused reloads"],
    );
    says("updated", &["updated", "ago"]);
    says("silent", &["does not answer", "Retrying every"]);
    says("state_when_silent", &["no answer"]);
    assert_eq!(seen["shown"], true, "the token was not taken");
    assert_eq!(seen["images"], 0, "a name became markup");
    assert_eq!(
        seen["fits"],
        json!([true, true, true, true]),
        "wider than the screen"
    );
    assert_eq!(seen["axe"], json!([]), "it shuts people out");
    assert_eq!(seen["outside"], json!([]), "it asked somebody else");
    let stored = json!([["admin-token"], [], ""]);
    assert_eq!(
        seen["stored"], stored,
        "the token is kept for this tab alone"
    );
    let faults = seen["faults"].as_array().unwrap().iter();
    // The browser itself reports the answers to the missing and to the wrong token.
    let faults: Vec<_> = faults
        .filter(|fault| !fault.as_str().unwrap().contains("status of 401"))
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}
