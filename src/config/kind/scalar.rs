//! Single values: each has one parser, one way to show it, and one schema.

use serde_json::{Value as Json, json};

use crate::config::keys::Kind;
use crate::config::load::nearest::nearest;
use crate::config::load::reader::{Reader, Text};
use crate::config::load::yaml::Node;
use crate::config::secret::MASK;
use crate::config::{ALGORITHMS, Algorithm, ED25519, Secret};

/// The most bytes of a name in a namespace path.
const MAX_NAME: usize = 256;

type Parse<T> = Box<dyn Fn(&Text) -> Result<T, String>>;

/// A single value that is parsed from text.
pub(in crate::config) struct Scalar<T> {
    expects: String,
    schema: Json,
    parse: Parse<T>,
    show: Box<dyn Fn(&T) -> Json>,
}

impl<T> Scalar<T> {
    /// Creates a kind. The error of `parse` says what is wrong; unless it also says the remedy
    /// (after `; `), `expects` is the remedy.
    pub(in crate::config) fn new(
        expects: impl Into<String>,
        schema: Json,
        parse: impl Fn(&Text) -> Result<T, String> + 'static,
        show: impl Fn(&T) -> Json + 'static,
    ) -> Self {
        Self {
            expects: expects.into(),
            schema,
            parse: Box::new(parse),
            show: Box::new(show),
        }
    }

    /// Parses `text`; the error says what is wrong with it, and the remedy.
    pub(in crate::config) fn parse(&self, text: &Text) -> Result<T, String> {
        (self.parse)(text).map_err(|message| {
            if message.contains("; ") {
                message
            } else {
                format!("{message}; write {}", self.expects)
            }
        })
    }
}

impl<T> Kind for Scalar<T> {
    type Value = T;

    fn expects(&self) -> String {
        self.expects.clone()
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<T> {
        let text = reader.text(node, &self.expects)?;
        match self.parse(&text) {
            Ok(value) => Some(value),
            Err(message) => {
                reader.problem(node.place, message);
                None
            }
        }
    }

    fn show(&self, value: &T) -> Json {
        (self.show)(value)
    }

    fn schema(&self) -> Json {
        self.schema.clone()
    }
}

/// Returns the JSON Schema of values that are read as text: YAML may take a bare number or `yes` for
/// something else.
pub(super) fn text_schema() -> Json {
    json!({ "type": ["string", "number", "boolean"] })
}

/// Returns the JSON Schema of values that are never a bare number or truth value.
pub(in crate::config) fn string_schema() -> Json {
    json!({ "type": "string" })
}

/// Text that is not empty, has no control characters, and neither begins nor ends with a space, which nobody sees.
/// `expects` completes "write …".
pub(in crate::config) fn text(expects: &str) -> Scalar<String> {
    Scalar::new(
        expects,
        text_schema(),
        |text| {
            let printed = printable(text)?;
            if printed.trim() != printed {
                return Err("has a space at its beginning or end; remove it".to_owned());
            }
            Ok(printed.to_owned())
        },
        |text| json!(text),
    )
}

/// Text for a consumer that parses it itself.
pub(in crate::config) fn verbatim(expects: &str) -> Scalar<Text> {
    Scalar::new(
        expects,
        text_schema(),
        |text| Ok(text.clone()),
        |text| json!(text.value),
    )
}

/// Text that is never shown.
pub(in crate::config) fn secret(expects: &str) -> Scalar<Secret> {
    Scalar::new(
        expects,
        text_schema(),
        |text| printable(text).map(Secret::new),
        |_| json!(MASK),
    )
}

/// One name of a namespace path.
pub(in crate::config) fn name() -> Scalar<String> {
    Scalar::new(
        "a name, or `[]` instead of the whole list for the root",
        text_schema(),
        |text| match text.value.as_str() {
            "" => Err("an empty name".to_owned()),
            name if name.len() > MAX_NAME => Err(format!("a name of more than {MAX_NAME} bytes")),
            name if name.chars().any(char::is_control) => {
                Err("a control character in a name".to_owned())
            }
            name => Ok(name.to_owned()),
        },
        |name| json!(name),
    )
}

/// Checks the name of a backend: it becomes a label in metrics and part of messages.
pub(in crate::config) fn backend_name(name: &str) -> Result<String, String> {
    let legal = (1..=64).contains(&name.len())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    legal.then(|| name.to_owned()).ok_or_else(|| {
        "this name of a backend cannot be used; write 1 to 64 letters, digits, `-`, `_` or `.`"
            .to_owned()
    })
}

/// `true` or `false`.
pub(in crate::config) fn flag() -> Scalar<bool> {
    Scalar::new(
        "true or false",
        json!({ "anyOf": [{ "type": "boolean" }, placeholder_schema()] }),
        |text| match text.value.as_str() {
            _ if quoted(text) => {
                Err("is text in quotes; write true or false without quotes".to_owned())
            }
            "true" => Ok(true),
            "false" => Ok(false),
            "yes" | "Yes" | "YES" | "on" | "On" | "ON" | "True" | "TRUE" => Err(format!(
                "{} is no truth value here; write true",
                text.shown()
            )),
            "no" | "No" | "NO" | "off" | "Off" | "OFF" | "False" | "FALSE" => Err(format!(
                "{} is no truth value here; write false",
                text.shown()
            )),
            _ => Err("is neither true nor false".to_owned()),
        },
        |flag| json!(flag),
    )
}

/// One of a few words.
pub(in crate::config) fn choice<T: Copy + PartialEq + 'static>(
    choices: &'static [(&'static str, T)],
) -> Scalar<T> {
    let names: Vec<&'static str> = choices.iter().map(|&(name, _)| name).collect();
    let expects = one_of(&names);
    let schema = json!({ "anyOf": [{ "enum": names }, placeholder_schema()] });
    Scalar::new(
        expects,
        schema,
        move |text| {
            let found = choices.iter().find(|&&(name, _)| name == text.value);
            found
                .map(|&(_, value)| value)
                .ok_or_else(|| match nearest(&text.value, &names) {
                    Some(near) => format!(
                        "{} is not one of {}; did you mean `{near}`?",
                        text.shown(),
                        names.join(", ")
                    ),
                    None => "is none of the possible values".to_owned(),
                })
        },
        move |value| {
            let found = choices.iter().find(|&&(_, candidate)| candidate == *value);
            found.map_or(Json::Null, |&(name, _)| json!(name))
        },
    )
}

/// A signature algorithm; one that must not be used is refused with the reason.
pub(in crate::config) fn algorithm() -> Scalar<Algorithm> {
    let plain = choice(&ALGORITHMS);
    let mut known = plain.schema();
    if let Some(Json::Array(names)) = known.pointer_mut("/anyOf/0/enum") {
        names.push(json!(ED25519));
    }
    Scalar::new(
        plain.expects(),
        known,
        move |text| {
            match text.value.as_str() {
            "HS256" | "HS384" | "HS512" => Err(format!(
                "{} cannot be used: its key is a secret that the gateway would share with the issuer, and whoever can check a token could also make one; use RS256, PS256, ES256 or EdDSA",
                text.value
            )),
            ED25519 => Ok(Algorithm::EdDSA),
            "none" | "None" | "NONE" => Err("`none` means tokens without a signature, which anyone can make; use RS256, PS256, ES256 or EdDSA".to_owned()),
            "ES512" | "ES256K" => Err(format!("{} is not implemented; use ES256, ES384 or EdDSA", text.value)),
            _ => (plain.parse)(text),
        }
        },
        |value| {
            let found = ALGORITHMS.iter().find(|(_, candidate)| candidate == value);
            found.map_or(Json::Null, |(name, _)| json!(name))
        },
    )
}

/// Joins names as "a, b or c".
fn one_of(names: &[&str]) -> String {
    match names {
        [rest @ .., last] if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Returns the schema of a placeholder, which may stand in the place of a number or a word.
pub(super) fn placeholder_schema() -> Json {
    json!({ "type": "string", "pattern": "\\$\\{[^}]+\\}" })
}

/// True if a value is written in quotes, where a number or a truth value belongs.
pub(super) fn quoted(text: &Text) -> bool {
    !text.plain && text.raw == text.value
}

pub(in crate::config) fn printable(text: &Text) -> Result<&str, String> {
    match text.value.as_str() {
        "" if text.raw != text.value => Err(format!("{} is empty; give it a value", text.shown())),
        "" => Err("is empty".to_owned()),
        value if value.chars().any(char::is_control) => {
            Err("has a line break or another control character".to_owned())
        }
        value => Ok(value),
    }
}
