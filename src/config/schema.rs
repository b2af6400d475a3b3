//! The configuration file as JSON Schema, for editors and pipelines.
//!
//! The schema is made from the same tables of keys that the loader reads by, so the two cannot
//! drift apart.

use serde_json::{Value as Json, json};

use super::{Config, keys};

/// Returns the JSON Schema (draft 2020-12) of the file as operators write it.
#[must_use]
pub fn json() -> Json {
    let mut schema = keys::describe::<Config>();
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    // A name and no address: there is none that would outlive a move of the project.
    schema["$id"] = json!("urn:nsgate:configuration");
    schema["title"] = json!("nsgate configuration");
    schema["description"] = json!(
        "Any text may hold ${NAME}, taken from the environment, and ${file:PATH}, taken from a file."
    );
    schema
}

/// Returns the sections that have a key `name`, such as `limits` or `backends.NAME.pool`: at most
/// three.
pub(super) fn sections_with(name: &str) -> Vec<String> {
    let mut found = Vec::new();
    collect(&keys::describe::<Config>(), "", name, &mut found);
    found.truncate(3);
    found
}

fn collect(schema: &Json, path: &str, name: &str, found: &mut Vec<String>) {
    let below = |key: &str| {
        if path.is_empty() {
            key.to_owned()
        } else {
            format!("{path}.{key}")
        }
    };
    if let Some(properties) = schema["properties"].as_object() {
        if properties.contains_key(name) || has_pattern_for(schema, name) {
            found.push(if path.is_empty() {
                "the top level".to_owned()
            } else {
                format!("`{path}`")
            });
        }
        for (key, schema) in properties {
            collect(schema, &below(key), name, found);
        }
    }
    if schema["items"].is_object() {
        collect(&schema["items"], &format!("{path}[]"), name, found);
    }
    if schema["additionalProperties"].is_object() {
        collect(&schema["additionalProperties"], &below("NAME"), name, found);
    }
}

fn has_pattern_for(schema: &Json, name: &str) -> bool {
    let patterns = schema["patternProperties"].as_object();
    let prefix = |pattern: &String| pattern.trim_start_matches('^').replace("\\.", "");
    patterns.is_some_and(|patterns| {
        patterns
            .keys()
            .any(|pattern| name.starts_with(&prefix(pattern)))
    })
}

#[cfg(test)]
mod tests;
