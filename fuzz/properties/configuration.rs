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

/// What is shown of a configuration is a configuration, and the same one.
fn accepted(loaded: &Loaded) {
    let shown = loaded.config.redacted();
    masked(&shown);
    let mut plain = shown.clone();
    reveal(&mut plain);
    let again = load(&plain.to_string());
    let again = again.unwrap_or_else(|refusals| panic!("{refusals:#?}\n{plain}"));
    assert_eq!(again.config.redacted(), shown);
}

/// What is secret by its nature is never shown, whatever it came from.
fn masked(shown: &Value) {
    for (name, value) in shown.as_object().into_iter().flatten() {
        let secret = ["token", "client_secret", "service_authorization"].contains(&name.as_str());
        if secret || name.starts_with("headers.") {
            assert!(value == "***" || value.is_null(), "{name}: {value}");
        }
        masked(value);
    }
}

/// A masked `Authorization` is none: it has a scheme.
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
        // Masked or not, `${` would be a placeholder.
        Value::String(text) => *text = text.replace("${", "$${"),
        _ => {}
    }
}

fn refused(text: &str, refusals: &[(usize, usize, String)]) {
    assert!(!refusals.is_empty());
    // As YAML counts them, with a lone carriage return as one.
    let lines = text.split(['\n', '\r']).count();
    for (line, column, message) in refusals {
        assert!(
            (1..=lines + 1).contains(line),
            "line {line} of {lines}: {message}"
        );
        assert!(*column >= 1);
        assert!(!message.is_empty());
        // The path of a file that is not there is told, wherever it came from.
        let path = message.contains("file") || message.contains("folder");
        assert!(path || !message.contains(SECRET), "{message}");
    }
}

/// In an environment that has everything; files are looked for where there are none.
fn load(text: &str) -> Result<Loaded, Vec<(usize, usize, String)>> {
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
