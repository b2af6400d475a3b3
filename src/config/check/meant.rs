//! Warns about values that are used as they are written, and were probably meant as something else.

use super::rest_backends;
use crate::config::load::reader::Reader;
use crate::config::{Access, Authorization, Config, RestConfig, is_plain_http_abroad};

/// Warns about stars, base addresses that end in `/v1`, and credentials that travel in clear text.
pub(super) fn otherwise(config: &Config, reader: &mut Reader<'_>) {
    stars(config, reader);
    for (name, rest) in rest_backends(config) {
        let key = format!("backends.{name}");
        if reader.has_no_problem_below(&key) {
            version(&key, rest, reader);
            clear_text(&key, rest, config.auth.anonymous, reader);
        }
    }
}

/// Warns about a star where names and values are compared as they are.
fn stars(config: &Config, reader: &mut Reader<'_>) {
    const NAMES: &str = "a `*` is a letter of a name here, and stands for nothing else; remove it, since a prefix has everything below it";
    const VALUES: &str =
        "a `*` is a letter of a value here, and stands for nothing else; write the values";
    const ANY: &str =
        "a `*` is a letter of a value here, and stands for nothing else; write [] for any value";
    for (index, mount) in config.mounts.iter().enumerate() {
        let at = |part| move || format!("mounts[{index}].{part}");
        warn_of_star(&mount.namespace, NAMES, reader, at("namespace"));
        warn_of_star(
            &mount.backend_namespace,
            NAMES,
            reader,
            at("backend_namespace"),
        );
    }
    for (index, rule) in config.authorization.iter().flatten().enumerate() {
        let at = |part| move || format!("authorization[{index}].{part}");
        warn_of_star(&rule.namespace, NAMES, reader, at("namespace"));
        for (need, any_of, scope) in [
            (&rule.read, "read.any_of", "read.scope"),
            (&rule.write, "write.any_of", "write.scope"),
        ] {
            let need = match need {
                Access::Issued { need, .. } => need,
                need => need,
            };
            match need {
                Access::Claim { any_of: values, .. } => {
                    warn_of_star(values, VALUES, reader, at(any_of));
                }
                Access::Scope(name) => {
                    warn_of_star(std::slice::from_ref(name), VALUES, reader, at(scope));
                }
                Access::Issued { .. } | Access::AnyCaller | Access::Deny => {}
            }
        }
    }
    for (index, issuer) in config.auth.issuers.iter().enumerate() {
        let key = format!("auth.issuers[{index}]");
        warn_of_star(&issuer.audiences, VALUES, reader, || {
            format!("{key}.audiences")
        });
        for (claim, accepted) in &issuer.require {
            warn_of_star(accepted, ANY, reader, || format!("{key}.require.{claim}"));
        }
    }
}

/// Warns if one of the texts is written like a pattern. `key` is asked for only then: a file may have very many names.
fn warn_of_star(
    texts: &[String],
    words: &str,
    reader: &mut Reader<'_>,
    key: impl FnOnce() -> String,
) {
    let is_pattern = |text: &String| text.starts_with('*') || text.ends_with('*');
    if texts.iter().any(is_pattern) {
        let key = key();
        if reader.has(&key) {
            reader.warn_at(&key, words);
        }
    }
}

/// Warns about a base address that has the contract's own first segment.
fn version(key: &str, rest: &RestConfig, reader: &mut Reader<'_>) {
    for (at, uri) in addresses(rest) {
        if uri.path().trim_end_matches('/').ends_with("/v1") {
            reader.warn_at(&format!("{key}.{at}"), "ends in /v1, which the gateway adds itself, so that the catalog gets /v1/v1/…; remove it");
        }
    }
}

/// Warns about tokens that leave this machine unencrypted.
fn clear_text(key: &str, rest: &RestConfig, is_anonymous: bool, reader: &mut Reader<'_>) {
    let forwards = rest.authorization == Authorization::Forward && !is_anonymous;
    let has_own =
        rest.service_authorization.is_some() || rest.oauth.is_some() || !rest.headers.is_empty();
    let whose = match (forwards, has_own) {
        (true, _) => "the tokens of callers",
        (false, true) => "the gateway's own credentials",
        (false, false) => return,
    };
    for (at, uri) in addresses(rest) {
        if is_plain_http_abroad(uri) {
            reader.warn_at(&format!("{key}.{at}"), format!("is plain http, so that {whose} can be read on the way there; write https://, or encrypt the network between the two"));
        }
    }
}

fn addresses(rest: &RestConfig) -> impl Iterator<Item = (String, &http::Uri)> {
    let further = rest.endpoints.iter().enumerate();
    let further = further.map(|(index, uri)| (format!("endpoints[{index}]"), uri));
    std::iter::once(("properties.uri".to_owned(), &rest.uri)).chain(further)
}
