//! Tests that this catalog behaves as real catalogs were measured to behave.

use serde_json::{Value, json};

use super::faults::{Fault, GARBAGE};
use super::{BatchCreate, Catalog, MISSING};
use crate::client::{Client, full};

async fn started() -> (Catalog, Client) {
    let catalog = Catalog::start().await;
    catalog.store().seed(&["prod", "t1"], 2);
    let client = Client::new(catalog.address);
    (catalog, client)
}

const T1: &str = "/v1/table/prod%24t1";

fn entry(version: u64, path: &str) -> Value {
    json!({"id": ["prod", "t1"], "version": version, "manifest_path": path})
}

/// Each request is sent in turn, and must get the status and code that a real catalog was seen to
/// answer.
#[tokio::test]
async fn answers_are_those_of_a_real_catalog() {
    let (catalog, client) = started().await;
    catalog.store().stage("s3", "three");
    catalog.store().stage("again", "three");
    let delete =
        |from: i64, to: i64| json!({"ranges": [{"start_version": from, "end_version": to}]});
    let cases = [
        ("/v1/namespace/prod/create", json!({}), 409, Some(2)),
        ("/v1/namespace/a%24b/create", json!({}), 404, Some(1)),
        ("/v1/namespace/%24/create", json!({}), 409, Some(2)),
        (
            "/v1/namespace/x/create",
            json!({"id": ["y"]}),
            400,
            Some(13),
        ),
        ("/v1/namespace/prod/exists", json!({}), 200, None),
        ("/v1/namespace/nope/exists", json!({}), 404, Some(1)),
        ("/v1/namespace/prod/exists", json!(null), 400, Some(13)),
        ("/v1/namespace/prod/drop", json!({}), 409, Some(3)),
        ("/v1/table/prod%24zz/describe", json!({}), 404, Some(4)),
        (
            "/v1/table/prod.t1/describe?delimiter=.",
            json!({"id": ["prod", "t1"]}),
            200,
            None,
        ),
        (
            "/v1/table/prod%24t1/version/describe",
            json!({"version": 9}),
            404,
            Some(11),
        ),
        (
            "/v1/table/prod%24zz/version/describe",
            json!({}),
            404,
            Some(4),
        ),
        (
            "/v1/table/prod%24t1/version/create",
            entry(4, "s3"),
            409,
            Some(14),
        ),
        (
            "/v1/table/prod%24t1/version/create",
            entry(3, "nothing"),
            400,
            Some(13),
        ),
        (
            "/v1/table/prod%24t1/version/create",
            entry(3, "s3"),
            200,
            None,
        ),
        // The staged manifest is gone, so the catalog cannot tell a repeated request from another
        // writer's.
        (
            "/v1/table/prod%24t1/version/create",
            entry(3, "s3"),
            409,
            Some(14),
        ),
        (
            "/v1/table/prod%24t1/version/create",
            entry(3, "again"),
            200,
            None,
        ),
        (
            "/v1/table/prod%24t1/version/delete",
            delete(3, 4),
            200,
            None,
        ),
        (
            "/v1/table/prod%24t1/version/describe",
            json!({"version": 3}),
            404,
            Some(11),
        ),
        (
            "/v1/table/prod%24t1/version/describe",
            json!({"version": 2}),
            200,
            None,
        ),
        (
            "/v1/table/prod%24t1/version/delete",
            delete(1, -1),
            200,
            None,
        ),
        (
            "/v1/table/prod%24t1/version/describe",
            json!({}),
            404,
            Some(11),
        ),
        ("/v1/table/prod%24d/declare", json!({}), 200, None),
        ("/v1/table/prod%24d/declare", json!({}), 409, Some(5)),
        ("/v1/table/prod%24d/unheard_of", json!({}), 200, None),
    ];
    for (target, body, status, code) in cases {
        let reply = client.post(target, &body).await;
        assert_eq!(reply.outcome(), (status, code), "{target} {body}");
    }
}

#[tokio::test]
async fn listings_are_sorted_and_paged() {
    let (catalog, client) = started().await;
    catalog.store().seed(&["prod", "t0"], 5);
    catalog.set_versions_on_a_page(2);
    let versions = "/v1/table/prod%24t0/version/list?descending=true";
    let tables = "/v1/namespace/prod/table/list?limit=1";
    let cases = [
        (
            tables.to_owned(),
            json!({"tables": ["t0"], "page_token": "t0"}),
        ),
        (format!("{tables}&page_token=t0"), json!({"tables": ["t1"]})),
        (
            "/v1/table".to_owned(),
            json!({"tables": ["prod$t0", "prod$t1"]}),
        ),
        (
            "/v1/namespace/%24/list".to_owned(),
            json!({"namespaces": ["prod"]}),
        ),
    ];
    for (target, expected) in cases {
        assert_eq!(client.get(&target).await.json(), expected, "{target}");
    }
    for (token, numbers, next) in [
        ("", [5, 4], Some("4")),
        ("&page_token=4", [3, 2], Some("2")),
    ] {
        let page = client
            .post_nothing(&format!("{versions}{token}"))
            .await
            .json();
        let listed: Vec<_> = page["versions"].as_array().unwrap().iter().collect();
        let listed: Vec<_> = listed
            .iter()
            .map(|v| v["version"].as_u64().unwrap())
            .collect();
        assert_eq!(
            (listed.as_slice(), page["page_token"].as_str()),
            (&numbers[..], next)
        );
    }
}

#[tokio::test]
async fn batch_create_is_missing_or_atomic() {
    let (catalog, client) = started().await;
    let target = "/v1/table/version/batch-create";
    let body = |path: &str| json!({"entries": [entry(3, "s3"), entry(4, path)]});
    catalog.store().stage("s3", "three");
    catalog.store().stage("s4", "four");
    for (way, outcome) in
        MISSING
            .into_iter()
            .zip([(500, Some(18)), (404, None), (406, Some(0)), (501, None)])
    {
        catalog.set_batch_create(way);
        assert_eq!(client.post(target, &body("s4")).await.outcome(), outcome);
    }
    catalog.set_batch_create(BatchCreate::Atomic);
    let refused = client.post(target, &body("nothing")).await;
    assert_eq!(refused.outcome(), (400, Some(13)));
    assert_eq!(catalog.store().contents(&["prod", "t1"]).unwrap().len(), 2);
    let created = client.post(target, &body("s4")).await.ok().json();
    assert_eq!(created["versions"][1]["version"], 4);
}

#[tokio::test]
async fn faults_happen_when_they_are_ordered_and_once() {
    let (catalog, client) = started().await;
    let create = format!("{T1}/version/create");
    for (version, fault, done) in [
        (3, Fault::ResetBefore, false),
        (3, Fault::ResetAfter, true),
        (4, Fault::HalfAnswer, true),
        (5, Fault::Instead(503, "{}"), false),
        (5, Fault::DoneBut(500, GARBAGE), true),
    ] {
        catalog.store().stage("path", "content");
        catalog.fail("create_table_version", fault.clone());
        let body = full(entry(version, "path").to_string());
        let typed = client.header("content-type", "application/json");
        let reply = typed.send(http::Method::POST, &create, body).await;
        assert_eq!(
            reply.is_ok(),
            matches!(fault, Fault::Instead(..) | Fault::DoneBut(..)),
            "{fault:?}"
        );
        let latest = catalog
            .store()
            .latest(&vec!["prod".into(), "t1".into()])
            .unwrap();
        assert_eq!(latest == version, done, "{fault:?}");
    }
}

#[tokio::test]
async fn a_gate_stops_a_call_before_or_after_it_acts() {
    let (catalog, client) = started().await;
    catalog.store().stage("s3", "three");
    let before = catalog.hold("create_table_version");
    let after = catalog.hold_answer("create_table_version");
    let asked = tokio::spawn(async move {
        let target = format!("{T1}/version/create");
        client.post(&target, &entry(3, "s3")).await
    });
    before.reached(1).await;
    assert!(catalog.store().is_staged("s3"));
    before.open();
    after.reached(1).await;
    assert!(!catalog.store().is_staged("s3"));
    after.open();
    asked.await.unwrap().ok();
}

#[tokio::test]
async fn a_stopped_catalog_refuses_and_comes_back_as_it_was() {
    let (catalog, client) = started().await;
    let target = format!("{T1}/count_rows");
    assert_eq!(client.post(&target, &json!({})).await.body, "2");
    catalog.stop().await;
    let reply = client.send(http::Method::POST, &target, full("{}")).await;
    assert!(reply.is_err());
    catalog.resume();
    assert_eq!(client.post(&target, &json!({})).await.body, "2");
}

/// A table is a name for a place: deregistering removes the name, and the place stays.
#[tokio::test]
async fn a_place_can_be_registered_under_another_name() {
    let (catalog, client) = started().await;
    catalog.store().seed_namespace(&["other"]);
    let absolute = "file:///store/prod$t1";
    let cases = [
        ("other%24u/register", json!({}), 400, Some(13)),
        (
            "other%24u/register",
            json!({"location": absolute}),
            400,
            Some(13),
        ),
        (
            "nope%24u/register",
            json!({"location": "prod$t1"}),
            404,
            Some(1),
        ),
        (
            "prod%24t1/register",
            json!({"location": "prod$t1"}),
            409,
            Some(5),
        ),
        ("prod%24u/deregister", json!({}), 404, Some(4)),
        (
            "other%24u/register",
            json!({"location": "prod$t1"}),
            200,
            None,
        ),
        ("prod%24t1/deregister", json!({}), 200, None),
        ("prod%24t1/describe", json!({}), 404, Some(4)),
    ];
    for (target, body, status, code) in cases {
        let target = format!("/v1/table/{target}");
        let reply = client.post(&target, &body).await;
        let code = code.or(reply.outcome().1);
        assert_eq!(reply.outcome(), (status, code), "{target} {body}");
    }
    let names = vec![("other$u".to_owned(), absolute.to_owned())];
    assert_eq!(catalog.store().tables(), names);
    let versions = |store: &super::store::Store| store.contents(&["other", "u"]).unwrap().len();
    assert_eq!(versions(&catalog.store()), 2);

    // Another catalog resolves the relative place below its own root, unless the two share the
    // root.
    let elsewhere = Catalog::start().await;
    elsewhere.store().seed_namespace(&["other"]);
    let register = async || {
        let client = Client::new(elsewhere.address);
        let body = json!({"location": "prod$t1"});
        client
            .post("/v1/table/other%24u/register", &body)
            .await
            .ok();
        let at = elsewhere.store().tables().remove(0).1;
        let found = (at == absolute, versions(&elsewhere.store()));
        let undone = elsewhere
            .store()
            .deregister_table(&vec!["other".into(), "u".into()]);
        undone.unwrap();
        found
    };
    elsewhere.store().set_root("file:///elsewhere");
    assert_eq!(register().await, (false, 0));
    elsewhere.store().share(&catalog.store());
    assert_eq!(register().await, (true, 2));
}
