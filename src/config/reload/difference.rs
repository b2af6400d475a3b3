//! The differences between the active configuration and a new one.

use std::mem::take;

use serde::Serialize;
use serde_json::Value;

use crate::config::Config;

/// A key whose new value waits for a restart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fixed {
    /// The key.
    pub key: &'static str,
    /// The active value, which stays.
    pub in_use: Value,
    /// The value in the file.
    pub wanted: Value,
}

/// The changes of a new configuration.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Difference {
    /// The keys that have another value now.
    pub changed: Vec<String>,
    /// The keys that only a restart can change; they stay as they were.
    pub restart_needed: Vec<Fixed>,
}

impl Difference {
    /// Compares the active configuration with `wanted`, and leaves in `wanted` only what can be
    /// activated now.
    pub fn settle(in_use: &Config, wanted: &mut Config) -> Self {
        // The long lists are compared as they are: as JSON, 100,000 mounts take some 60 MiB each time.
        let (mounts, rules) = (take(&mut wanted.mounts), wanted.authorization.take());
        let shown = without_lists(in_use);
        let restart_needed = fixed(&shown, wanted);
        let mut changed = Vec::new();
        compare("", &shown.redacted(), &wanted.redacted(), &mut changed);
        (wanted.mounts, wanted.authorization) = (mounts, rules);
        if in_use.mounts != wanted.mounts {
            changed.push("mounts".to_owned());
        }
        if in_use.authorization != wanted.authorization {
            changed.push("authorization".to_owned());
        }
        changed.sort();
        secrets(in_use, wanted, &mut changed);
        Self {
            changed,
            restart_needed,
        }
    }
}

/// Copies a configuration without its mounts and rules.
fn without_lists(config: &Config) -> Config {
    Config {
        listen: config.listen.clone(),
        admin: config.admin.clone(),
        limits: config.limits.clone(),
        auth: config.auth.clone(),
        context: config.context.clone(),
        backends: config.backends.clone(),
        mounts: Vec::new(),
        authorization: None,
        batch: config.batch.clone(),
        telemetry: config.telemetry.clone(),
    }
}

/// Restores in `wanted` the values that were fixed when the process began, and returns those that
/// differ.
fn fixed(in_use: &Config, wanted: &mut Config) -> Vec<Fixed> {
    let asked = wanted.redacted();
    wanted.listen.address = in_use.listen.address;
    wanted.listen.workers = in_use.listen.workers;
    wanted.admin.address = in_use.admin.address;
    let password = &in_use.batch.log_password;
    let has_new_password = wanted.batch.log_password != *password;
    wanted.batch.log.clone_from(&in_use.batch.log);
    wanted.batch.log_password.clone_from(password);
    wanted.batch.log_tls.clone_from(&in_use.batch.log_tls);
    wanted.batch.schema.clone_from(&in_use.batch.schema);
    wanted.batch.lease = in_use.batch.lease;
    wanted.batch.without_log = in_use.batch.without_log;
    wanted.batch.gateways.clone_from(&in_use.batch.gateways);
    wanted.telemetry.log = in_use.telemetry.log;
    wanted.telemetry.audit.clone_from(&in_use.telemetry.audit);
    wanted.telemetry.histograms = in_use.telemetry.histograms;
    let kept = wanted.redacted();
    let keys = [
        "/listen/address",
        "/listen/workers",
        "/admin/address",
        "/batch/log",
        "/batch/log_password",
        "/batch/log_tls",
        "/batch/schema",
        "/batch/lease",
        "/batch/without_log",
        "/batch/gateways",
        "/telemetry/log",
        "/telemetry/audit",
        "/telemetry/histograms",
    ];
    let dotted = [
        "listen.address",
        "listen.workers",
        "admin.address",
        "batch.log",
        "batch.log_password",
        "batch.log_tls",
        "batch.schema",
        "batch.lease",
        "batch.without_log",
        "batch.gateways",
        "telemetry.log",
        "telemetry.audit",
        "telemetry.histograms",
    ];
    let value = |of: &Value, key: &str| of.pointer(key).cloned().unwrap_or_default();
    let both = keys.into_iter().zip(dotted).map(|(pointer, key)| Fixed {
        key,
        in_use: value(&kept, pointer),
        wanted: value(&asked, pointer),
    });
    // Two passwords look the same when they are shown.
    let differs = |fixed: &Fixed| {
        fixed.in_use != fixed.wanted || has_new_password && fixed.key == "batch.log_password"
    };
    both.filter(differs).collect()
}

/// Compares tables key by key; anything else is one value.
fn compare(at: &str, before: &Value, now: &Value, changed: &mut Vec<String>) {
    let (Value::Object(before), Value::Object(now)) = (before, now) else {
        if before != now {
            changed.push(at.to_owned());
        }
        return;
    };
    let gone = before.keys().filter(|key| !now.contains_key(*key));
    for key in now.keys().chain(gone) {
        let below = match at {
            "" => key.clone(),
            _ => format!("{at}.{key}"),
        };
        let absent = Value::Null;
        let value = |of: &serde_json::Map<String, Value>| of.get(key).cloned();
        let (before, now) = (value(before), value(now));
        let (before, now) = (before.as_ref(), now.as_ref());
        compare(
            &below,
            before.unwrap_or(&absent),
            now.unwrap_or(&absent),
            changed,
        );
    }
}

/// Adds the secrets that have changed. All secrets look the same when they are shown, so each is named
/// by the part that holds it.
fn secrets(in_use: &Config, wanted: &Config, changed: &mut Vec<String>) {
    let mut named = |part: String| {
        let below = format!("{part}.");
        let covers = |key: &String| *key == part || key.starts_with(&below);
        if !changed.iter().any(covers) {
            changed.push(part);
        }
    };
    if in_use.admin.token != wanted.admin.token {
        named("admin.token".to_owned());
    }
    if in_use.admin.read_token != wanted.admin.read_token {
        named("admin.read_token".to_owned());
    }
    // Of an address, the query is not shown.
    if in_use.auth != wanted.auth {
        named("auth".to_owned());
    }
    for (name, backend) in &wanted.backends {
        if in_use.backends.get(name).is_some_and(|old| old != backend) {
            named(format!("backends.{name}"));
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use std::time::Duration;

    use http::HeaderValue;
    use serde_json::json;

    use super::*;
    use std::path::PathBuf;

    use crate::config::{BackendConfig, Implementation, Mount, Secret, StorageCredentials};

    fn lake() -> Config {
        let uri = "http://127.0.0.1:1".parse().unwrap();
        let lake = BackendConfig::rest("lake", uri);
        let mut config = Config::default();
        config.backends.insert("lake".to_owned(), lake);
        config
    }

    #[test]
    fn nothing_changed_is_nothing() {
        let settled = Difference::settle(&lake(), &mut lake());
        assert_eq!(settled, Difference::default());
    }

    #[test]
    fn what_changed_is_named_and_a_secret_only_by_its_part() {
        let mut wanted = lake();
        wanted.limits.in_flight = 7;
        wanted.batch.lock_timeout = Duration::from_secs(1);
        wanted.admin.token = Some(Secret::new("open-sesame"));
        wanted.mounts.push(Mount {
            namespace: vec!["a".to_owned()],
            backend: "lake".to_owned(),
            backend_namespace: Vec::new(),
            storage_credentials: StorageCredentials::Pass,
        });
        let more = BackendConfig::rest("more", "http://127.0.0.1:2".parse().unwrap());
        wanted.backends.insert("more".to_owned(), more);
        let lake_now = &mut wanted.backends.get_mut("lake").unwrap().implementation;
        if let Implementation::Rest(rest) = lake_now {
            rest.service_authorization = Some(HeaderValue::from_static("Bearer s3cret"));
        }
        let mut before = lake();
        let lake_before = &mut before.backends.get_mut("lake").unwrap().implementation;
        if let Implementation::Rest(rest) = lake_before {
            rest.service_authorization = Some(HeaderValue::from_static("Bearer 0ld"));
        }
        let mut settled = Difference::settle(&before, &mut wanted);
        settled.changed.sort();
        let expected = [
            "admin.token",
            "backends.lake",
            "backends.more",
            "batch.lock_timeout",
            "limits.in_flight",
            "mounts",
        ];
        assert_eq!(settled.changed, expected);
        assert_eq!(settled.restart_needed, []);
    }

    #[test]
    fn what_needs_a_restart_stays_as_it_was() {
        let mut wanted = lake();
        wanted.listen.address = "127.0.0.1:1".parse().unwrap();
        wanted.batch.log = PathBuf::from("elsewhere.redb").into();
        wanted.limits.connections = 3;
        let settled = Difference::settle(&lake(), &mut wanted);
        assert_eq!(settled.changed, ["limits.connections"]);
        let keys: Vec<_> = settled
            .restart_needed
            .iter()
            .map(|fixed| fixed.key)
            .collect();
        assert_eq!(keys, ["listen.address", "batch.log"]);
        assert_eq!(settled.restart_needed[0].in_use, json!("127.0.0.1:8080"));
        assert_eq!(settled.restart_needed[0].wanted, json!("127.0.0.1:1"));
        assert_eq!(wanted.listen, lake().listen);
        assert_eq!(wanted.batch, lake().batch);
        assert_eq!(wanted.limits.connections, 3);
    }
}
