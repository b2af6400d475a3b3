#![allow(clippy::unwrap_used, reason = "a test says what it expects")]

use std::path::Path;

use serde_json::{Value as Json, json};

use crate::config::load;
use crate::config::load::yaml::{self, Node, Value};

const GATEWAY: &str = include_str!("../../../config/gateway.yaml");
const EMBEDDED: &str = include_str!("../../../config/embedded.yaml");
const QUICKSTART: &str = include_str!("../../../python/nsgate/demo/gateway.yaml");

/// Converts a node as an editor would read it: a bare word becomes a number or a truth value if it looks
/// like one.
fn json_of(node: &Node) -> Json {
    match &node.value {
        Value::Null => Json::Null,
        Value::Scalar { text, plain: true } => {
            serde_json::from_str(text).unwrap_or_else(|_| json!(text))
        }
        Value::Scalar { text, plain: false } => json!(text),
        Value::List(items) => items.iter().map(json_of).collect(),
        Value::Table(entries) => entries
            .iter()
            .map(|(key, node)| (key.name.to_string(), json_of(node)))
            .collect(),
    }
}

fn document(text: &str) -> Json {
    let tree = yaml::parse(text);
    assert_eq!(tree.problems, []);
    json_of(&tree.root.unwrap())
}

/// Checks a value by the parts of JSON Schema that the gateway's schema uses; of patterns only that of a
/// placeholder.
fn violations(schema: &Json, value: &Json, path: &str, found: &mut Vec<String>) {
    if let Some(choices) = schema["anyOf"].as_array() {
        let fits = |choice: &Json| {
            let mut wrong = Vec::new();
            violations(choice, value, path, &mut wrong);
            wrong.is_empty()
        };
        if !choices.iter().any(fits) {
            found.push(format!("{path}: fits no choice"));
        }
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    let is = match value {
        Json::Object(_) => "object",
        Json::Array(_) => "array",
        Json::Bool(_) => "boolean",
        Json::Number(_) if types.contains(&"integer") => "integer",
        Json::Number(_) => "number",
        Json::String(_) => "string",
        Json::Null => "null",
    };
    if !types.is_empty() && !types.contains(&is) {
        found.push(format!("{path}: is {is}"));
    }
    if schema["enum"]
        .as_array()
        .is_some_and(|words| !words.contains(value))
    {
        found.push(format!("{path}: is none of the words"));
    }
    let placeholder = schema["pattern"]
        .as_str()
        .is_some_and(|pattern| pattern.starts_with("\\$"));
    if placeholder && !value.as_str().unwrap_or_default().contains("${") {
        found.push(format!("{path}: is no placeholder"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        violations(&schema["items"], item, &format!("{path}[{index}]"), found);
    }
    for (name, item) in value.as_object().into_iter().flatten() {
        let known = &schema["properties"][name];
        let below = format!("{path}.{name}");
        match (&schema["additionalProperties"], known) {
            (_, Json::Object(_)) => violations(known, item, &below, found),
            (Json::Bool(false), _) => found.push(format!("{below}: unknown")),
            (other, _) => violations(other, item, &below, found),
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        if value.is_object() && value.get(name.as_str().unwrap()).is_none() {
            found.push(format!("{path}.{name}: missing"));
        }
    }
}

fn check(value: &Json) -> Vec<String> {
    let mut found = Vec::new();
    violations(&super::json(), value, "", &mut found);
    found
}

#[test]
fn the_shipped_configurations_fit_the_schema() {
    for text in [GATEWAY, EMBEDDED, QUICKSTART] {
        assert_eq!(check(&document(text)), Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_what_the_loader_refuses() {
    let with = |path: &str, value: Json| {
        let mut document = document(QUICKSTART);
        *document.pointer_mut(path).unwrap() = value;
        check(&document)
    };
    assert_eq!(
        with("/listen", json!({ "adress": "127.0.0.1:1" })),
        [".listen.adress: unknown"]
    );
    assert_eq!(
        with("/telemetry/log", json!("jsn")),
        [".telemetry.log: fits no choice"]
    );
    assert_eq!(
        with("/mounts/0", json!({ "backend": "lake" })),
        [".mounts[0].\"namespace\": missing"]
    );
    assert_eq!(with("/mounts", json!({})), [".mounts: is object"]);
}

/// Collects the keys of fixed tables, as dotted paths.
fn keys(schema: &Json, path: &str, found: &mut Vec<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        found.push(format!("{path}{name}"));
        keys(schema, &format!("{path}{name}."), found);
    }
    for below in ["items", "additionalProperties"] {
        if schema[below].is_object() {
            keys(&schema[below], &format!("{path}*."), found);
        }
    }
}

#[test]
fn the_example_shows_every_key() {
    let shown = |key: &str| {
        let name = key.rsplit('.').next().unwrap();
        let line = |line: &str| {
            let line = line.trim_start_matches([' ', '#', '-']);
            line.starts_with(&format!("{name}:"))
                || line.contains(&format!("{{ {name}:"))
                || line.contains(&format!(", {name}:"))
        };
        [GATEWAY, EMBEDDED]
            .iter()
            .any(|text| text.lines().any(line))
    };
    let mut all = Vec::new();
    keys(&super::json(), "", &mut all);
    assert!(all.len() > 80, "{} keys", all.len());
    let missing: Vec<_> = all.iter().filter(|key| !shown(key)).collect();
    assert_eq!(missing, Vec::<&String>::new());
}

#[test]
fn every_key_has_a_line_about_it() {
    fn walk(schema: &Json, path: &str) {
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            let about = schema["description"].as_str().unwrap_or_default();
            assert!(about.ends_with('.'), "{path}.{name}: {about:?}");
            walk(schema, &format!("{path}.{name}"));
        }
    }
    walk(&super::json(), "");
}

#[test]
fn the_effective_configuration_fits_the_schema_it_came_from() {
    let env = |name: &str| {
        let value = match name {
            "WAREHOUSE_URI" => "http://127.0.0.1:1",
            "LAKE_URI" => "http://127.0.0.1:2",
            _ => "/tmp",
        };
        Some(value.to_owned())
    };
    let text = QUICKSTART.replace(
        "file: ${NSGATE_QUICKSTART_DIR}/jwks.json",
        "discovery: true",
    );
    let loaded = load::from_str(&text, "quickstart.yaml", Path::new("/"), &env).unwrap();
    let shown = loaded.config.redacted();
    assert_eq!(check(&shown), Vec::<String>::new());
    assert_eq!(shown["listen"]["drain_timeout"], "30s");
    assert_eq!(shown["limits"]["json_body"], "8MiB");
    assert_eq!(shown["mounts"][0]["backend_namespace"], json!(["prod"]));
}

#[test]
fn a_key_is_found_in_the_sections_that_have_it() {
    for (name, expected) in [
        ("in_flight", vec!["`batch`", "`limits`"]),
        ("uri", vec!["`backends.NAME.properties`"]),
        (
            "headers",
            vec!["`backends.NAME.properties`", "`backends.NAME.selects`"],
        ),
        ("listen", vec!["the top level"]),
        (
            "issuer",
            vec![
                "`auth.issuers[]`",
                "`authorization[].read`",
                "`authorization[].write`",
            ],
        ),
        ("nonsense", vec![]),
    ] {
        assert_eq!(super::sections_with(name), expected, "{name}");
    }
}
