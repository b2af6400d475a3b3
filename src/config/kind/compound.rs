//! Lists, maps, tables and optional values.

use std::collections::BTreeMap;
use std::marker::PhantomData;

use serde_json::{Map, Value as Json, json};

use crate::config::keys::{self, Kind, Section};
use crate::config::load::reader::Reader;
use crate::config::load::yaml::{Node, Value};

/// A type whose form in the file differs from its form in memory.
pub(in crate::config) trait Shaped: Sized {
    /// The form in the file.
    type File: Section;
    /// Converts from the form in the file. Problems that only show in the whole are recorded.
    fn from_file(file: Self::File, reader: &mut Reader<'_>) -> Option<Self>;
    /// Converts back to the form in the file, to be shown.
    fn to_file(&self) -> Self::File;
}

/// A table with fixed keys.
pub(in crate::config) fn table<S: Section + Clone>() -> impl Kind<Value = S> {
    Table(PhantomData)
}

/// A table with fixed keys that is converted to another type.
pub(in crate::config) fn shaped<T: Shaped>() -> impl Kind<Value = T> {
    ShapedTable(PhantomData)
}

/// A list with at least `min` items; `of` completes "a list of …".
pub(in crate::config) fn list<K: Kind>(
    min: usize,
    of: &'static str,
    item: K,
) -> impl Kind<Value = Vec<K::Value>> {
    List { min, of, item }
}

/// A table whose keys the operator chooses. `of` completes "a table of …"; `key` checks each name and may
/// change its spelling.
pub(in crate::config) fn map<K: Kind>(
    min: usize,
    of: &'static str,
    key: fn(&str) -> Result<String, String>,
    item: K,
) -> impl Kind<Value = BTreeMap<String, K::Value>> {
    Dictionary { min, of, key, item }
}

/// A value that may be absent altogether.
pub(in crate::config) fn maybe<K: Kind>(kind: K) -> impl Kind<Value = Option<K::Value>> {
    Maybe(kind)
}

struct Table<S>(PhantomData<S>);
struct ShapedTable<T>(PhantomData<T>);
struct List<K> {
    min: usize,
    of: &'static str,
    item: K,
}
struct Dictionary<K> {
    min: usize,
    of: &'static str,
    key: fn(&str) -> Result<String, String>,
    item: K,
}
struct Maybe<K>(K);

impl<S: Section + Clone> Kind for Table<S> {
    type Value = S;

    fn expects(&self) -> String {
        keys::expects::<S>()
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<S> {
        let mut section = S::blank();
        keys::read(&mut section, node, reader)?;
        Some(section)
    }

    fn show(&self, value: &S) -> Json {
        keys::show(&mut value.clone())
    }

    fn schema(&self) -> Json {
        keys::describe::<S>()
    }
}

impl<T: Shaped> Kind for ShapedTable<T> {
    type Value = T;

    fn expects(&self) -> String {
        keys::expects::<T::File>()
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<T> {
        let mut file = T::File::blank();
        keys::read(&mut file, node, reader)?;
        T::from_file(file, reader)
    }

    fn show(&self, value: &T) -> Json {
        keys::show(&mut value.to_file())
    }

    fn schema(&self) -> Json {
        keys::describe::<T::File>()
    }
}

impl<K: Kind> Kind for List<K> {
    type Value = Vec<K::Value>;

    fn expects(&self) -> String {
        format!("a list of {}", self.of)
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<Self::Value> {
        let Value::List(nodes) = &node.value else {
            reader.mismatch(node.place, &node.value, &self.expects());
            return None;
        };
        if nodes.len() < self.min {
            reader.problem(
                node.place,
                format!("the list is empty; write {}", self.expects()),
            );
            return None;
        }
        let read = |(index, node): (usize, &Node)| {
            reader.at(&format!("[{index}]"), node.place, |reader| {
                self.item.read(node, reader)
            })
        };
        let items: Vec<_> = nodes.iter().enumerate().map(read).collect();
        items.into_iter().collect()
    }

    fn show(&self, value: &Self::Value) -> Json {
        value.iter().map(|item| self.item.show(item)).collect()
    }

    fn schema(&self) -> Json {
        json!({ "type": "array", "items": self.item.schema(), "minItems": self.min })
    }
}

impl<K: Kind> Kind for Dictionary<K> {
    type Value = BTreeMap<String, K::Value>;

    fn expects(&self) -> String {
        format!("a mapping of {}", self.of)
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<Self::Value> {
        let Value::Table(entries) = &node.value else {
            reader.mismatch(node.place, &node.value, &self.expects());
            return None;
        };
        if entries.len() < self.min {
            reader.problem(
                node.place,
                format!("the mapping is empty; write {}", self.expects()),
            );
            return None;
        }
        let mut values = BTreeMap::new();
        for (key, node) in entries {
            let value = reader.at(&key.name, node.place, |reader| {
                let name =
                    (self.key)(&key.name).map_err(|message| reader.problem(key.place, message));
                let value = self.item.read(node, reader);
                Some((name.ok()?, value?))
            });
            let Some((name, value)) = value else { continue };
            if values.insert(name, value).is_some() {
                reader.problem_at(
                    &key.name,
                    "differs from another key here only in capitals; keep one of them",
                );
            }
        }
        Some(values)
    }

    fn show(&self, value: &Self::Value) -> Json {
        let shown: Map<String, Json> = value
            .iter()
            .map(|(name, item)| (name.clone(), self.item.show(item)))
            .collect();
        Json::Object(shown)
    }

    fn schema(&self) -> Json {
        json!({ "type": "object", "additionalProperties": self.item.schema(), "minProperties": self.min })
    }
}

impl<K: Kind> Kind for Maybe<K> {
    type Value = Option<K::Value>;

    fn expects(&self) -> String {
        self.0.expects()
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<Self::Value> {
        self.0.read(node, reader).map(Some)
    }

    fn show(&self, value: &Self::Value) -> Json {
        value
            .as_ref()
            .map_or(Json::Null, |value| self.0.show(value))
    }

    fn schema(&self) -> Json {
        self.0.schema()
    }
}
