//! The table of a section's keys, written once: read by the loader, shown by `/config`, described by the schema.
//!
//! [`Section::keys`] names every key with its field, its [`Kind`] and a line about it. Because the same table
//! drives all three, a key cannot be loaded and missing from the schema, or the other way round.

use serde_json::{Map, Value as Json, json};

use super::load::nearest::nearest;
use super::load::reader::Reader;
use super::load::yaml::{Key, Node, Value};

/// A part of the file with a fixed set of keys.
pub(super) trait Section: Sized {
    /// Returns the section with every key at its default. Required keys have any value, because a file without them
    /// is refused.
    fn blank() -> Self;
    /// Names every key once.
    fn keys(&mut self, keys: &mut Keys<'_, '_>);
}

/// A kind of value at a key: how it is read, shown and described.
pub(super) trait Kind {
    /// The type of the value in memory.
    type Value;
    /// Returns the end of the sentence "write {expects}".
    fn expects(&self) -> String;
    /// Reads the value at `node`; `None` after a problem was recorded.
    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<Self::Value>;
    /// Returns the value in the form of the file, with secrets masked.
    fn show(&self, value: &Self::Value) -> Json;
    /// Returns the JSON Schema of the values that the file may have.
    fn schema(&self) -> Json;
}

/// The operation that is applied to each key: see [`read`], [`show`] and [`describe`].
pub(super) struct Keys<'k, 'e>(Mode<'k, 'e>);

enum Mode<'k, 'e> {
    Read {
        entries: &'k [(Key, Node)],
        known: Vec<&'static str>,
        reader: &'k mut Reader<'e>,
    },
    Show(&'k mut Map<String, Json>),
    Describe(&'k mut Description),
}

/// The description of a section's keys.
#[derive(Default)]
struct Description {
    names: Vec<&'static str>,
    properties: Map<String, Json>,
    required: Vec<&'static str>,
}

/// Fills `section` from the table at `node`; keys that are absent or wrong keep what they have.
pub(super) fn read<S: Section>(
    section: &mut S,
    node: &Node,
    reader: &mut Reader<'_>,
) -> Option<()> {
    let Value::Table(entries) = &node.value else {
        reader.mismatch(node.place, &node.value, &expects::<S>());
        return None;
    };
    let mut keys = Keys(Mode::Read {
        entries,
        known: Vec::new(),
        reader,
    });
    section.keys(&mut keys);
    keys.refuse_unknown();
    Some(())
}

/// Returns `section` in the form of the file, with secrets masked.
pub(super) fn show<S: Section>(section: &mut S) -> Json {
    let mut shown = Map::new();
    section.keys(&mut Keys(Mode::Show(&mut shown)));
    Json::Object(shown)
}

/// Returns the JSON Schema of a section; the defaults are those of [`Section::blank`].
pub(super) fn describe<S: Section>() -> Json {
    let Description {
        properties,
        required,
        ..
    } = description::<S>();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// Returns "a mapping with the keys …", for the end of a sentence.
pub(super) fn expects<S: Section>() -> String {
    let Description {
        names, required, ..
    } = description::<S>();
    if required.is_empty() {
        format!("a mapping with keys such as {}", names.join(", "))
    } else {
        format!("a mapping with the keys {}", required.join(", "))
    }
}

fn description<S: Section>() -> Description {
    let mut description = Description::default();
    S::blank().keys(&mut Keys(Mode::Describe(&mut description)));
    description
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "a kind is made for the one key it stands at"
)]
impl Keys<'_, '_> {
    /// Adds a key that keeps its default if the file does not have it.
    pub(super) fn key<K: Kind>(
        &mut self,
        name: &'static str,
        field: &mut K::Value,
        kind: K,
        about: &'static str,
    ) {
        match &mut self.0 {
            Mode::Read {
                entries,
                known,
                reader,
                ..
            } => {
                known.push(name);
                if let Some((_, node)) = entries.iter().find(|(key, _)| *key.name == *name)
                    && let Some(value) =
                        reader.at(name, node.place, |reader| kind.read(node, reader))
                {
                    *field = value;
                }
            }
            Mode::Show(shown) => {
                let value = kind.show(field);
                if !value.is_null() {
                    shown.insert(name.to_owned(), value);
                }
            }
            Mode::Describe(description) => {
                description.names.push(name);
                let mut schema = kind.schema();
                schema["description"] = json!(about);
                let default = kind.show(field);
                if !default.is_null() && !default.is_object() {
                    schema["default"] = default;
                }
                description.properties.insert(name.to_owned(), schema);
            }
        }
    }

    /// Adds a key that the file must have; `missing` says what to write if it does not.
    pub(super) fn required<K: Kind>(
        &mut self,
        name: &'static str,
        field: &mut K::Value,
        kind: K,
        missing: &'static str,
        about: &'static str,
    ) {
        match &mut self.0 {
            Mode::Read {
                entries, reader, ..
            } => {
                if !entries.iter().any(|(key, _)| *key.name == *name) {
                    reader.problem_at(name, format!("is missing; {missing}"));
                }
            }
            Mode::Describe(description) => description.required.push(name),
            Mode::Show(_) => {}
        }
        self.key(name, field, kind, about);
        if let Mode::Describe(description) = &mut self.0
            && let Some(Json::Object(schema)) = description.properties.get_mut(name)
        {
            schema.remove("default");
        }
    }

    fn refuse_unknown(&mut self) {
        let Mode::Read {
            entries,
            known,
            reader,
            ..
        } = &mut self.0
        else {
            return;
        };
        for (key, _) in entries
            .iter()
            .filter(|(key, _)| !known.contains(&&*key.name))
        {
            // Without a space after the colon, the value is a part of the name, and may be a secret.
            let (name, value) = match key.name.split_once(':') {
                Some((name, _)) => (name, true),
                None => (&*key.name, false),
            };
            let cure = match nearest(name, known) {
                _ if value => "write a space after its colon".to_owned(),
                Some(name) => format!("did you mean `{name}`?"),
                None => match super::schema::sections_with(name).as_slice() {
                    [] => format!("the keys here are {}", known.join(", ")),
                    sections => format!("it belongs under {}", sections.join(" or ")),
                },
            };
            reader.at(name, key.place, |reader| {
                reader.problem(key.place, format!("unknown key; {cure}"));
            });
        }
    }
}
