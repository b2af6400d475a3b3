//! Finds one catalog under two names: a batch through one of them would hide nothing from readers of the
//! other.

use std::collections::HashMap;

use crate::config::load::reader::Reader;
use crate::config::{BackendConfig, Config, Implementation};

/// Refuses every backend that has an address of another one.
pub(super) fn same_catalog(config: &Config, reader: &mut Reader<'_>) {
    let mut first: HashMap<String, (&str, String)> = HashMap::new();
    for (name, backend) in &config.backends {
        let mut is_told = false;
        for (index, address) in backend.addresses().into_iter().enumerate() {
            let key = format!("backends.{name}.{}", key(backend, index));
            let (other, at) = first.entry(address).or_insert((name, key.clone()));
            if *other == name || is_told || !reader.has_no_problem_below(&key) {
                continue;
            }
            let place = reader.place(at);
            let or = match backend.implementation {
                Implementation::Rest(_) => {
                    ", or, if a header selects one of several databases there, give both backends that `headers.NAME`"
                }
                Implementation::Dir(_) => "",
            };
            reader.problem_at(&key, format!("leads to the catalog of backend `{other}` (at {place}), and what batches hide under one name the other would show; remove `{name}` and mount `{other}` in its place{or}"));
            is_told = true;
        }
    }
}

/// Returns the key that an address is read from.
fn key(backend: &BackendConfig, index: usize) -> String {
    match (&backend.implementation, index.checked_sub(1)) {
        (Implementation::Dir(_), _) => "properties.root".to_owned(),
        (Implementation::Rest(_), None) => "properties.uri".to_owned(),
        (Implementation::Rest(_), Some(further)) => format!("endpoints[{further}]"),
    }
}
