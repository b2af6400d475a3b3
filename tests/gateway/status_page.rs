//! The state of a gateway in trouble: the page `/status`, `nsgate status`, and the status page in a browser.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};

use crate::batches::world;
use crate::batches_command::built_on;
use crate::browser::{axe, browser};
use crate::catalog::faults::PATIENCE;
use crate::harness::{Setup, World};
use crate::running_gateway::program;
use crate::tls::expiring;

const EXISTS: &str = "/v1/table/east%24t1/exists";

async fn status(world: &World) -> Value {
    world.admin().get("/status").await.ok().json()
}

/// Waits until the status meets the condition.
async fn until(world: &World, what: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let told = async {
        loop {
            let status = status(world).await;
            if is_so(&status) {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, told).await;
    told.unwrap_or_else(|_| panic!("never: {what}"))
}

/// Runs `nsgate status`; returns its exit code and its output.
async fn command(world: &World, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    let admin = format!("http://{}", world.admin_address());
    command.args(["status", "--admin", &admin]).args(arguments);
    command.env_clear();
    let output = tokio::task::spawn_blocking(move || command.output());
    let output = output.await.unwrap().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(errors, "");
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

/// Checks that the command's first line is the headline, that it contains these words, and its exit code.
async fn prints(world: &World, code: i32, words: &[&str]) {
    let headline = status(world).await["headline"].as_str().unwrap().to_owned();
    let (exit, said) = command(world, &[]).await;
    assert_eq!(said.lines().next(), Some(&*headline), "{said}");
    assert_eq!(exit, Some(code), "{said}");
    for word in words {
        assert!(said.contains(word), "{word} is not in\n{said}");
    }
}

/// Opens the page in a browser, on a desk and as on a phone, in light and in dark. Checks that it shows these words, and
/// shuts nobody out.
async fn shows(world: &World, name: &str, words: &[&str]) {
    if std::env::var_os("NSGATE_SKIP_REAL").is_some_and(|value| value == "1") {
        eprintln!("SKIPPED (NSGATE_SKIP_REAL=1): the status page in a browser, {name}");
        return;
    }
    let headline = status(world).await["headline"].as_str().unwrap().to_owned();
    let url = format!("http://{}", world.admin_address());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/support/browser.py");
    let mut python = Command::new("python3");
    let name = name.to_owned();
    let output = tokio::task::spawn_blocking(move || {
        python.arg(script).arg(browser()).arg(axe()).arg(&url);
        python.arg(env!("CARGO_TARGET_TMPDIR")).arg(name);
        python.output().expect("python3 drives the browser")
    });
    let output = output.await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    let seen = said
        .strip_prefix("seen ")
        .unwrap_or_else(|| panic!("{said}{errors}"));
    let seen: Value = serde_json::from_str(seen).unwrap();
    let state = seen["state"].as_str().unwrap();
    assert!(state.contains(&headline), "{state} is not {headline}");
    assert_eq!(seen["title"], format!("nsgate: {headline}"));
    let page = seen["page"].as_str().unwrap();
    for word in words {
        assert!(page.contains(word), "{word} is not in\n{page}");
    }
    assert_eq!(
        seen["fits"],
        json!([true, true, true, true]),
        "wider than the screen"
    );
    let none = json!({ "light": [], "dark": [], "phone": [], "phone-dark": [] });
    assert_eq!(seen["axe"], none, "it shuts people out");
    assert_eq!(seen["outside"], json!([]), "it asked somebody else");
    assert_eq!(seen["faults"], json!([]));
    let levels = seen["levels"].as_array().unwrap();
    let levels: Vec<u64> = levels.iter().map(|level| level.as_u64().unwrap()).collect();
    assert_eq!(levels[0], 1);
    let slips = levels.windows(2).any(|pair| pair[1] > pair[0] + 1);
    assert!(!slips, "the outline skips a level: {levels:?}");
    for link in seen["links"].as_array().unwrap() {
        let link = link.as_str().unwrap();
        let status = world.admin().get(link).await.status;
        // A gateway that is not ready says so at `/ready`.
        assert!(status == 200 || link == "/ready", "{link}: {status}");
    }
}

#[tokio::test]
async fn where_all_is_well_the_headline_says_ready_and_the_command_exits_with_0() {
    let world = World::two().await;
    let told = status(&world).await;
    assert_eq!(told["headline"], "ready", "{told:#}");
    assert_eq!(told["findings"], json!([]));
    assert_eq!(told["needs_person"], false);
    prints(
        &world,
        0,
        &["CATALOGS", "west", "east", "every batch is finished"],
    )
    .await;
    let (_, said) = command(&world, &["--json"]).await;
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(said["headline"], "ready");
    shows(
        &world,
        "well",
        &["every batch is finished", "None since the start"],
    )
    .await;
}

#[tokio::test]
async fn a_hazard_is_the_headline_with_its_table_its_caller_and_the_command() {
    let world = world("lock_timeout: 200ms").await;
    let id = built_on(&world).await;
    let told = status(&world).await;
    let headline = "west$t1 waits for a person's decision";
    assert_eq!(told["headline"], headline, "{told:#}");
    let batch = &told["batches"][0];
    assert_eq!(batch["tables"], json!(["west$t1"]));
    assert_eq!(batch["begun_by"]["subject"], "tester", "{batch}");
    let run = format!("nsgate batches show {id}");
    assert_eq!(told["findings"][0]["command"], json!(run));
    let run = format!("{run} --admin http://{}", world.admin_address());
    prints(&world, 1, &[headline, &run, "tester of "]).await;
    shows(
        &world,
        "hazard",
        &[headline, &run, "tester", "NsgateBatchHazard"],
    )
    .await;
}

#[tokio::test]
async fn a_catalog_that_is_down_is_the_headline_and_its_requests_are_listed_with_their_cause() {
    let setup = Setup::two().backend("east", "health: { interval: 10ms }");
    let world = setup.start().await.seeded();
    world.client().post(EXISTS, &json!({})).await.ok();
    world.catalog("east").stop().await;
    let told = until(&world, "east is down", |told| {
        told["headline"] == "catalog east is down"
    });
    let told = told.await;
    assert_eq!(told["urgency"], "critical");
    // A phone has no room for its name in one line.
    let long = format!(
        "/v1/table/east%24{}/exists",
        "a_name_that_is_long_".repeat(4)
    );
    assert_eq!(world.client().post(&long, &json!({})).await.status, 503);
    let asked = world.client().header("x-request-id", "in-vain-1");
    assert_eq!(asked.post(EXISTS, &json!({})).await.status, 503);
    let told = until(&world, "the request is listed", |told| {
        told["failed"][0]["id"] == "in-vain-1"
    });
    let failed = &told.await["failed"][0];
    for (fact, value) in [
        ("operation", json!("table_exists")),
        ("status", json!(503)),
        ("catalog", json!("east")),
        ("name", json!("east$t1")),
        ("subject", json!("tester")),
    ] {
        assert_eq!(failed[fact], value, "{failed}");
    }
    assert!(
        failed["cause"].as_str().unwrap().contains("east"),
        "{failed}"
    );
    let words = [
        "catalog east is down",
        "it serves east",
        "in-vain-1",
        "DOWN",
    ];
    prints(&world, 1, &words).await;
    shows(
        &world,
        "down",
        &["catalog east is down", "in-vain-1", "table_exists"],
    )
    .await;
}

#[tokio::test]
async fn a_refused_reload_is_the_headline_until_one_succeeds() {
    let world = World::two().await;
    let yaml = world.configuration();
    let broken = yaml.replace("backend: west", "backend: wset");
    assert_eq!(world.reload(&broken).await.status, 422);
    let told = status(&world).await;
    let headline = "the last reload was refused; the previous configuration stays active";
    assert_eq!(
        (&told["headline"], &told["urgency"]),
        (&json!(headline), &json!("warning"))
    );
    let file = world.folder().join("gateway.yaml");
    let check = format!("nsgate check --config {}", file.display());
    assert_eq!(told["findings"][0]["command"], json!(check));
    prints(
        &world,
        1,
        &["no backend of this name", &check, "NsgateReloadFailed"],
    )
    .await;
    shows(
        &world,
        "reload",
        &["no backend of this name", "NsgateReloadFailed"],
    )
    .await;
    world.reload(&yaml).await.ok();
    assert_eq!(status(&world).await["headline"], "ready");
}

#[tokio::test]
async fn a_certificate_with_days_left_is_a_warning_and_one_with_hours_left_is_critical() {
    for (hours, urgency, headline) in [
        (
            73,
            "warning",
            "the certificate of `listen` expires in 3 days",
        ),
        (
            12,
            "critical",
            "the certificate of `listen` expires in 11 hours",
        ),
    ] {
        let world = expiring(hours).start().await;
        let told = status(&world).await;
        let said = told["headline"].as_str().unwrap();
        assert!(said.starts_with(headline), "{said}");
        assert_eq!(told["urgency"], urgency);
        assert_eq!(told["certificates"][0]["of"], "listen");
        prints(&world, 1, &[headline, "CERTIFICATES"]).await;
        shows(&world, &format!("certificate-{hours}"), &[headline]).await;
    }
}

#[tokio::test]
async fn an_issuer_without_keys_is_the_headline_and_refused_callers_are_counted() {
    let world = World::two().await;
    let stranger = world
        .anonymous()
        .header("authorization", "Bearer no.such.token");
    for _ in 0..100 {
        assert_eq!(stranger.post(EXISTS, &json!({})).await.status, 401);
    }
    let yaml = world.configuration();
    let more = "auth:\n  issuers:\n    - issuer: https://idp.test\n      audiences: [catalog]\n      keys: { url: \"http://127.0.0.1:1/jwks\" }\n";
    let yaml = yaml.replace("auth:\n  issuers:\n", more);
    world.reload(&yaml).await.ok();
    let told = until(&world, "the keys fail", |told| {
        told["issuers"][0]["failures"].as_u64() > Some(0)
    });
    let told = told.await;
    let headline = told["headline"].as_str().unwrap();
    let expected = "there are no keys of https://idp.test, so its tokens are refused";
    // The other one is about the callers.
    assert_eq!(headline, format!("{expected} (and 1 more)"));
    let refused = &told["refused"];
    assert_eq!(refused.as_array().unwrap().len(), 1, "{refused}");
    assert_eq!(refused[0]["count"], 100, "{refused}");
    prints(&world, 1, &[expected, "100 times", "NONE"]).await;
    shows(
        &world,
        "issuer",
        &[expected, "100 times", "NsgateKeysMissing"],
    )
    .await;
}

#[tokio::test]
async fn a_catalog_that_comes_up_after_the_gateway_is_not_called_down_until_the_interval_is_over() {
    // The interval is an hour.
    let mut world = World::two().await;
    world.catalog("east").stop().await;
    world.restart().await;
    let is_up = |status: &Value, up: bool| {
        let mut catalogs = status["catalogs"].as_array().unwrap().iter();
        catalogs.any(|one| one["name"] == "east" && one["up"] == up)
    };
    until(&world, "east is down", |status| is_up(status, false)).await;
    world.catalog("east").resume();
    let told = until(&world, "east is up", |status| is_up(status, true)).await;
    assert_eq!(told["findings"], json!([]), "{told:#}");
}

#[tokio::test]
async fn a_page_that_was_just_opened_shows_the_failures_of_the_last_minute() {
    let world = World::two().await.seeded();
    world.catalog("east").stop().await;
    for _ in 0..20 {
        let status = world.client().post(EXISTS, &json!({})).await.status;
        assert!(status >= 500, "{status}");
    }
    shows(&world, "outage", &["100.00 %"]).await;
}
