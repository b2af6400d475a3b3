//! Checks what batches need to know of catalogs: whose table it is, who may remove, and with which credentials.

use std::collections::BTreeSet;

use super::{mounted, rest_backends, sound};
use crate::config::load::reader::Reader;
use crate::config::{Authorization, Config, RestConfig};

/// Checks every catalog behind HTTP that serves a mount.
pub(super) fn backends(config: &Config, reader: &mut Reader<'_>) {
    let mounted = mounted(config);
    let issuers = config.auth.issuers.iter();
    let context: BTreeSet<&str> = issuers
        .flat_map(|issuer| issuer.context.keys().map(String::as_str))
        .collect();
    for (name, rest) in rest_backends(config) {
        if !mounted.contains(name) || !sound(reader, name) {
            continue;
        }
        let key = format!("backends.{name}");
        let backend = &config.backends[name];
        let keys = backend.selects.iter().flat_map(|selects| &selects.context);
        for selecting in keys {
            let mut prefixes = config
                .context
                .prefixes
                .iter()
                .chain([&backend.context_prefix]);
            if let Some(prefix) = prefixes.find(|prefix| selecting.starts_with(&***prefix)) {
                let rest = &selecting[prefix.len()..];
                reader.problem_at(
                    &format!("{key}.selects.context"),
                    format!("`{selecting}` is the header of a key; write the key, {rest}"),
                );
            }
        }
        let has_own = credentials(rest, &key, reader);
        if backend.selects.is_none() && !context.is_empty() {
            selects(&context, &key, reader);
        }
        let differs = rest.service_authorization.is_some()
            || rest.oauth.is_some()
            || rest.authorization == Authorization::Forward;
        if has_own && differs && config.authorization.is_none() {
            reader.warn_at(&key, "gets removals of batches, and renames that the gateway does, with the gateway's own credentials; without a rule that says who may, they are refused. Write `authorization`, such as { namespace: [], read: …, write: { scope: catalog.write } }, or { any_caller: true } for both");
        }
    }
}

/// Warns about a catalog for which the gateway has no credentials: a caller's token is gone when a batch must be rolled
/// back after a restart. Returns false then.
fn credentials(rest: &RestConfig, key: &str, reader: &mut Reader<'_>) -> bool {
    let own =
        rest.service_authorization.is_some() || rest.oauth.is_some() || !rest.headers.is_empty();
    let lacks_some = !own && rest.authorization == Authorization::Forward;
    if lacks_some {
        reader.warn_at(key, "batches are rolled back with the gateway's own credentials, and it has none for this catalog; write `service_authorization: Bearer ${TOKEN}`, `oauth` or a `headers.NAME` property, or `authorization: none` if the catalog asks for none");
    }
    !lacks_some
}

/// Warns about a catalog that gets context, and of which nothing says whether that selects its data.
fn selects(context: &BTreeSet<&str>, key: &str, reader: &mut Reader<'_>) {
    let keys: Vec<&str> = context.iter().copied().collect();
    let keys = keys.join(", ");
    reader.warn_at(key, format!("gets the context that claims set ({keys}), and nothing says whether that selects its data; batches with context are refused. Write `selects: {{ context: [{keys}] }}` with the keys that do, or `selects: {{}}` if none does"));
}
