//! A configuration file.

use std::path::Path;

use nsgate::config::load::{Loaded, from_str};
use serde_json::Value;

const SECRET: &str = "hunter2-hunter2";

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match load(text) {
        Ok(loaded) => accepted(&loaded),
        Err(refusals) => refused(text, &refusals),
    }
}

/// Checks that the redacted form of a configuration can be loaded, and is the same configuration.
fn accepted(loaded: &Loaded) {
    let shown = loaded.config.redacted();
    masked(&shown);
    let mut plain = shown.clone();
    reveal(&mut plain);
    let again = load(&plain.to_string());
    let again = again.unwrap_or_else(|refusals| panic!("{refusals:#?}\n{plain}"));
    assert_eq!(again.config.redacted(), shown);
}

/// Checks that secrets are masked, whatever they came from.
fn masked(shown: &Value) {
    for (name, value) in shown.as_object().into_iter().flatten() {
        let secret = ["token", "client_secret", "service_authorization"].contains(&name.as_str());
        if secret || name.starts_with("headers.") {
            assert!(value == "***" || value.is_null(), "{name}: {value}");
        }
        masked(value);
    }
}

/// Gives a masked `Authorization` its scheme back, without which it is invalid.
fn reveal(shown: &mut Value) {
    match shown {
        Value::Object(members) => {
            for (name, value) in members {
                if name == "service_authorization" && value == "***" {
                    *value = "Bearer ***".into();
                }
                reveal(value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(reveal),
        // An unescaped `${` would be a placeholder, masked or not.
        Value::String(text) => *text = text.replace("${", "$${"),
        _ => {}
    }
}

fn refused(text: &str, refusals: &[(u32, u32, String)]) {
    assert!(!refusals.is_empty());
    // YAML counts a single carriage return as the end of a line.
    let lines = text.split(['\n', '\r']).count();
    for (line, column, message) in refusals {
        assert!(
            (1..=lines + 1).contains(&(*line as usize)),
            "line {line} of {lines}: {message}"
        );
        assert!(*column >= 1);
        assert!(!message.is_empty());
        // The message for a missing file contains its path, even if that comes from a secret.
        let path = message.contains("file") || message.contains("folder");
        assert!(path || !message.contains(SECRET), "{message}");
    }
}

/// Loads a configuration with an environment in which every variable is set; files are looked up in
/// a folder without any.
fn load(text: &str) -> Result<Loaded, Vec<(u32, u32, String)>> {
    let base = Path::new(env!("CARGO_MANIFEST_DIR"));
    let env = |_: &str| Some(SECRET.to_owned());
    from_str(text, "nsgate.yaml", base, &env).map_err(|problems| {
        let errors = problems.errors.into_iter();
        let place = |problem: nsgate::config::load::Problem| {
            let place = problem.place.expect("it is about the text");
            (place.line, place.column, problem.message)
        };
        errors.map(place).collect()
    })
}
