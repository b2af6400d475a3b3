//! Operations on the names of tables. Only those that say so touch the versions in storage.

use std::sync::Arc;

use serde_json::json;

use super::{Decision, Id, Refusal, Store, Versions, missing};

impl Store {
    /// Keeps its tables in the same storage and below the same root as another catalog.
    pub fn share(&mut self, other: &Self) {
        self.storage = Arc::clone(&other.storage);
        self.root.clone_from(&other.root);
    }

    /// Keeps new tables below another root from now on.
    pub fn set_root(&mut self, root: &str) {
        root.clone_into(&mut self.root);
    }

    /// The names of all tables, each with its location.
    pub fn tables(&self) -> Vec<(String, String)> {
        let tables = self.tables.iter();
        tables.map(|(id, at)| (id.join("$"), at.clone())).collect()
    }

    /// Adds a table without versions, and returns its location.
    pub(super) fn make(&mut self, id: &[String]) -> String {
        let at = format!("{}/{}", self.root, id.join("$"));
        let mut storage = self.storage.lock().expect("not poisoned");
        storage.insert(at.clone(), Versions::new());
        self.tables.insert(id.to_vec(), at.clone());
        at
    }

    pub fn table_exists(&self, id: &Id) -> Decision {
        self.versions(id).map(|_| None)
    }

    pub fn describe_table(&self, id: &Id) -> Decision {
        let at = self.location(id)?;
        let (table, namespace) = id.split_last().ok_or_else(|| missing(id))?;
        Ok(Some(json!({
            "table": table, "namespace": namespace, "location": at, "table_uri": at,
            "managed_versioning": true,
        })))
    }

    /// Executes `create` (with a first version) and `declare` (without one).
    pub fn create_table(&mut self, id: &Id, content: Option<String>) -> Decision {
        if self.tables.contains_key(id) {
            return Err((409, 5, id.last().cloned().unwrap_or_default()));
        }
        let at = self.make(id);
        let Some(content) = content else {
            return Ok(Some(json!({"location": at, "managed_versioning": true})));
        };
        self.put(id, 1, content);
        Ok(Some(json!({"location": at, "version": 1})))
    }

    pub fn drop_table(&mut self, id: &Id) -> Decision {
        let at = self.location(id).map_err(|_| unknown(id))?.to_owned();
        self.storage.lock().expect("not poisoned").remove(&at);
        self.tables.remove(id);
        Ok(Some(json!({"id": id, "location": at})))
    }

    /// Removes the name and nothing else.
    pub fn deregister_table(&mut self, id: &Id) -> Decision {
        let at = self.tables.remove(id).ok_or_else(|| unknown(id))?;
        Ok(Some(json!({"id": id, "location": at})))
    }

    /// Registers a location relative to the root, without a check that anything is there.
    pub fn register_table(&mut self, id: &Id, at: &str) -> Decision {
        let (_, namespace) = id.split_last().ok_or_else(|| missing(id))?;
        if !namespace.is_empty() && !self.namespaces.contains(namespace) {
            let namespace = namespace.join("$");
            return Err((404, 1, format!("parent namespace '{namespace}'")));
        }
        if at.contains("://") {
            let message = format!(
                "Absolute URIs are not allowed for register_table. Location must be a relative path within the root directory: {at}"
            );
            return Err((400, 13, message));
        }
        if self.tables.contains_key(id) {
            return Err((409, 5, id.join("$")));
        }
        let place = format!("{}/{at}", self.root);
        self.tables.insert(id.clone(), place);
        Ok(Some(json!({"location": at})))
    }

    /// Renames a table as the contract says; directory catalogs have no such operation.
    pub fn rename_table(&mut self, id: &Id, to: Id) -> Decision {
        let at = self.location(id)?.to_owned();
        if self.tables.contains_key(&to) {
            return Err((409, 5, to.join("$")));
        }
        self.tables.remove(id);
        self.tables.insert(to, at);
        Ok(Some(json!({})))
    }

    pub(super) fn location(&self, id: &Id) -> Result<&str, Refusal> {
        let at = self.tables.get(id).map(String::as_str);
        at.ok_or_else(|| missing(id))
    }
}

fn unknown(id: &Id) -> Refusal {
    (404, 4, id.last().cloned().unwrap_or_default())
}
