//! The dashboard's queries on a real Prometheus, after the quickstart's tour: each has a result.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::client::Client;
use crate::harness::{Behind, Catalog, Gateway, Python, block_on, eventually, file};
use crate::prometheus::scraping;

/// The values of a query's variables: those that an operator chooses, and Grafana's own.
const CHOSEN: [(&str, &str); 4] = [
    ("$job", "nsgate"),
    ("$instance", ".*"),
    ("$backend", ".*"),
    ("$__rate_interval", "5m"),
];

#[test]
fn every_panel_of_the_dashboard_has_data_after_the_tour() {
    let Some(python) = Python::ready() else {
        return;
    };
    let (warehouse, lake) = (Catalog::start(python), Catalog::start(python));
    let mut behind = [
        Behind::kept("warehouse", warehouse.uri(), &["prod"]),
        Behind::rerooted("lake", lake.uri(), &["research", "lake"]),
    ];
    for catalog in &mut behind {
        catalog.more = json!({ "managed_versioning": "set", "authorization": "none" });
    }
    let gateway = Gateway::before(&behind);
    let folder = TempDir::new().unwrap();
    let prometheus = scraping(gateway.admin(), &folder);
    let address = prometheus.word_after("Listening on\" address=");
    let asks = Client::new(address.parse().unwrap());
    let values = |query: &str| {
        let query =
            percent_encoding::utf8_percent_encode(query, percent_encoding::NON_ALPHANUMERIC);
        let answer = block_on(asks.get(&format!("/api/v1/query?query={query}")));
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
        let series = body["data"]["result"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        // A quantile of an event that did not happen is no answer.
        let values = series
            .iter()
            .map(|series| series["value"][1].as_str().unwrap().to_owned());
        let told = values.filter(|value| value != "NaN").count();
        (told, body)
    };
    eventually("a scrape", || (values("up == 1").0 > 0).then_some(()));

    let tour = || {
        let admin = format!("http://{}", gateway.admin());
        let mut tour = python.script("../../python/nsgate/demo/tour.py");
        let tour = tour.args([&gateway.uri(), &admin, gateway.token()]);
        let tour = tour.output().unwrap();
        let said = [tour.stdout, tour.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        assert!(tour.status.success(), "{said}");
    };
    tour();
    // Prometheus counts no growth for a counter that it first reads at its last value, so the tour runs twice.
    eventually("the tour to be counted", || {
        (values("nsgate_batches_total{outcome=\"committed\"} > 0").0 > 0).then_some(())
    });
    tour();

    let dashboard = fs::read(file("../../deploy/grafana/nsgate.json")).unwrap();
    let dashboard: Value = serde_json::from_slice(&dashboard).unwrap();
    let mut queries = queries(&dashboard);
    queries.extend(recorded());
    for query in &queries {
        eventually(&format!("an answer to {query}"), || {
            (values(query).0 > 0).then_some(())
        });
    }
    assert!(queries.len() > 40, "{}", queries.len());
    println!(
        "{} queries of {} panels, each with data",
        queries.len(),
        panels(&dashboard).count()
    );
    // The check must notice a metric that has no data.
    assert_eq!(values("nsgate_no_such_metric").0, 0);
}

/// Returns the queries of the panels, the variables and the annotations.
fn queries(dashboard: &Value) -> BTreeSet<String> {
    let targets = panels(dashboard).flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked = targets.map(|target| target["expr"].as_str().unwrap().to_owned());
    let lists = dashboard["templating"]["list"].as_array().unwrap().iter();
    let choices = lists
        .filter_map(|list| list["definition"].as_str())
        .map(|choice| {
            let inside = choice.strip_prefix("label_values(").unwrap();
            inside.rsplit_once(',').unwrap().0.to_owned()
        });
    let chosen = |query: String| {
        let put = |query: String, (name, value): &(&str, &str)| query.replace(name, value);
        CHOSEN.iter().fold(query, put)
    };
    asked.chain(choices).map(chosen).collect()
}

/// Returns the names that the recording rules give to their results.
fn recorded() -> Vec<String> {
    let rules = fs::read_to_string(file("../../deploy/prometheus/slo.yml")).unwrap();
    let lines = rules.lines();
    let names = lines.filter_map(|line| line.split_once("- record: "));
    names.map(|(_, name)| name.to_owned()).collect()
}

fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    let panels = dashboard["panels"].as_array().unwrap().iter();
    panels.filter(|panel| panel["type"] != "row")
}
