//! The command `nsgate explain` for one caller: the same decision as the gateway's, and its reason.

use serde_json::{Value, json};

use crate::command::{Ended, run, run_with};
use crate::harness::{Setup, World};
use crate::token;

const RULES: &str = "authorization:
  - namespace: [west]
    read: { scope: catalog.read }
    write: { scope: catalog.write }
  - { namespace: [west, hr], read: { claim: team, any_of: [hr, eu] }, write: { deny: true } }
  - { namespace: [east], read: { deny: true }, write: { claim: realm.roles, any_of: [loader] } }";

/// Writes the token into the gateway's folder, and explains what its caller may do.
async fn explain(world: &World, token: &str, id: &str) -> Ended {
    std::fs::write(world.folder().join("token"), format!("Bearer {token}\n")).unwrap();
    let arguments = [
        "explain",
        "--config",
        "gateway.yaml",
        "--token",
        "token",
        id,
    ];
    let ended = run(world, &arguments).await;
    assert_hides(&ended, token);
    ended
}

/// Checks that no part of the token is printed.
fn assert_hides((_, stdout, stderr): &Ended, token: &str) {
    for part in token.split('.') {
        assert!(
            !stdout.contains(part) && !stderr.contains(part),
            "{stdout}{stderr}"
        );
    }
}

/// Returns what stands after this word at the beginning of a line.
fn value<'a>(said: &'a str, what: &str) -> &'a str {
    let start = format!("{what:<18}");
    let mut lines = said.lines();
    lines
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_else(|| panic!("no {what} in {said}"))
}

#[tokio::test]
async fn explain_decides_as_the_gateway_does() {
    let world = Setup::two().section(RULES).start().await.seeded();
    world.catalog("west").store().seed(&["west", "hr", "t1"], 1);
    let callers = [
        json!({}),
        json!({"scope": "catalog.read"}),
        json!({"scope": "catalog.read catalog.write"}),
        json!({"scp": ["catalog.write"], "team": "hr"}),
        json!({"team": ["us", "eu"], "realm": {"roles": ["loader"]}}),
    ];
    let mut seen = [0, 0];
    for claims in &callers {
        let client = world.client_with(claims);
        for id in ["west$t1", "west$hr$t1", "east$t1"] {
            let (code, stdout, stderr) = explain(&world, &token::token(claims), id).await;
            assert_eq!(code, Some(0), "{stderr}");
            let path = id.replace('$', "%24");
            for (what, operation) in [("may read", "count_rows"), ("may write", "create_index")] {
                let target = format!("/v1/table/{path}/{operation}");
                let is_allowed = client.post(&target, &json!({})).await.status != 403;
                let said = value(&stdout, what);
                let expected = if is_allowed { "yes: " } else { "no: " };
                assert!(said.starts_with(expected), "{claims} {id}: {stdout}");
                seen[usize::from(is_allowed)] += 1;
            }
        }
    }
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
}

#[tokio::test]
async fn a_decision_names_its_rule_its_place_and_what_is_missing() {
    let world = Setup::two().section(RULES).start().await;
    let yaml = world.configuration();
    let place = |text: &str| {
        let (line, found) = yaml
            .lines()
            .enumerate()
            .find(|(_, line)| line.contains(text))
            .unwrap();
        let column = found.find(text).unwrap() + text.find('{').unwrap() + 1;
        format!("gateway.yaml:{}:{column}", line + 1)
    };
    let reader = json!({"sub": "ann", "scope": "catalog.read", "team": "it"});
    let (_, said, _) = explain(&world, &token::token(&reader), "west$t1").await;
    let caller = value(&said, "caller");
    assert!(
        caller.starts_with("ann of https://issuer.test, token verified, expires 20"),
        "{caller}"
    );
    assert!(caller.ends_with("), scopes: catalog.read"), "{caller}");
    let (read, write) = (place("read: { scope"), place("write: { scope"));
    let expected = format!("yes: it has the scope catalog.read (rule [west], {read})");
    assert_eq!(value(&said, "may read"), expected);
    let expected = format!(
        "no: it lacks the scope catalog.write; a token with this scope could (rule [west], {write})"
    );
    assert_eq!(value(&said, "may write"), expected);

    let (_, said, _) = explain(&world, &token::token(&reader), "west$hr$t").await;
    let hr = place("read: { claim: team");
    let expected = format!(
        "no: its claim team is \"it\"; a token where it is hr or eu could (rule [west, hr], {hr})"
    );
    assert_eq!(value(&said, "may read"), expected);

    // A write reaches what is below. The gateway does not tell the caller which rule denies that.
    let writer = json!({"scope": "catalog.read catalog.write"});
    let (_, said, _) = explain(&world, &token::token(&writer), "west").await;
    let words = value(&said, "may write");
    let start =
        "no: a write also reaches what is below, and there the rule denies it to every caller";
    assert!(
        words.starts_with(start) && words.contains("(rule [west, hr], gateway.yaml:"),
        "{words}"
    );
}

#[tokio::test]
async fn claims_and_scopes_stand_for_a_token() {
    let world = Setup::two().section(RULES).start().await;
    let explain = ["explain", "--config", "gateway.yaml"];
    let assumed = [
        "--scope",
        "catalog.read",
        "--claim",
        r#"realm={"roles":["loader"]}"#,
        "--claim",
        "team=eu",
    ];
    for (id, read, write) in [
        (
            "west$t",
            "yes: it has the scope catalog.read",
            "no: it lacks the scope catalog.write",
        ),
        (
            "west$hr$t",
            "yes: its claim team is hr or eu",
            "no: the rule denies it to every caller",
        ),
        (
            "east$t",
            "no: the rule denies it",
            "yes: its claim realm.roles is loader",
        ),
    ] {
        let arguments = [&explain[..], &assumed[..], &[id]].concat();
        let (code, said, stderr) = run(&world, &arguments).await;
        assert_eq!(code, Some(0), "{stderr}");
        assert!(value(&said, "may read").starts_with(read), "{said}");
        assert!(value(&said, "may write").starts_with(write), "{said}");
    }
    let arguments = [&explain[..], &["--claim", "scope=x", "west"]].concat();
    let (code, _, stderr) = run(&world, &arguments).await;
    assert_eq!(
        (code, &*stderr),
        (Some(1), "--claim scope: give each scope with --scope\n")
    );
}

/// Returns the payload of a token with other claims, under the signature of the first.
fn forged(first: &Value, second: &Value) -> String {
    let (first, second) = (token::token(first), token::token(second));
    let signature = first.rsplit('.').next().unwrap();
    let (signed, _) = second.rsplit_once('.').unwrap();
    format!("{signed}.{signature}")
}

#[tokio::test]
async fn a_token_that_the_gateway_refuses_is_refused_with_its_reason() {
    let world = Setup::two().section(RULES).start().await;
    let cases = [
        (
            token::token(&json!({"exp": 1})),
            "the token expired ",
            "issued to \"tester\"",
        ),
        (
            token::token(&json!({"aud": "other"})),
            "for another audience",
            "its aud is \"other\", and `audiences` has catalog",
        ),
        (
            token::token(&json!({"iss": "https://other.test"})),
            "issuer is not accepted",
            "its iss is `https://other.test`, and the configuration has https://issuer.test",
        ),
        (
            forged(&json!({"sub": "a"}), &json!({"sub": "b"})),
            "signature of the token cannot be verified",
            "not signed with the key that it names",
        ),
        ("a.b".to_owned(), "the token is malformed", ""),
    ];
    for (token, reason, hint) in cases {
        std::fs::write(world.folder().join("token"), &token).unwrap();
        let arguments = [
            "explain",
            "--config",
            "gateway.yaml",
            "--token",
            "token",
            "west$t",
        ];
        let ended = run(&world, &arguments).await;
        let (code, stdout, stderr) = &ended;
        assert_eq!((*code, &**stdout), (Some(1), ""), "{stderr}");
        assert!(
            stderr.starts_with("the gateway refuses this token: "),
            "{stderr}"
        );
        assert!(
            stderr.contains(reason) && stderr.contains(hint),
            "{hint}: {stderr}"
        );
        if token.len() > 10 {
            assert_hides(&ended, &token);
        }
        let refused = world
            .anonymous()
            .header("authorization", &format!("Bearer {token}"));
        let refused = refused
            .post("/v1/table/west%24t1/count_rows", &json!({}))
            .await;
        assert_eq!(refused.status, 401);
    }
}

#[tokio::test]
async fn keys_behind_an_address_are_fetched_only_if_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let config = "auth: { issuers: [{ issuer: https://issuer.test, audiences: [catalog], algorithms: [ES256], keys: { url: http://127.0.0.1:1/keys } }] }
backends: { west: { implementation: rest, properties: { uri: http://127.0.0.1:1 }, authorization: none } }
mounts: [{ namespace: [west], backend: west }]
";
    std::fs::write(folder.path().join("gateway.yaml"), config).unwrap();
    let token = token::token(&json!({}));
    let explain = [
        "explain",
        "--config",
        "gateway.yaml",
        "--token",
        "-",
        "west",
    ];
    let ended = run_with(folder.path(), &explain, &token).await;
    assert_eq!(ended.0, Some(1));
    assert!(ended.2.contains("the token is not verified"), "{}", ended.2);
    assert!(
        ended.2.contains("add --online to fetch them"),
        "{}",
        ended.2
    );
    let ended = run_with(
        folder.path(),
        &[&explain[..], &["--online"]].concat(),
        &token,
    )
    .await;
    assert_eq!(ended.0, Some(1));
    assert!(
        ended.2.contains("cannot be had: ") && ended.2.contains("refused"),
        "{}",
        ended.2
    );
}
