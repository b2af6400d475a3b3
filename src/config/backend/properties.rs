//! `properties` of a backend (`uri`, `header.NAME`, `root`), whose meaning depends on the implementation.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use serde_json::{Value as Json, json};

use super::RestConfig;
use crate::config::keys::Kind;
use crate::config::kind::{map, sensitive, verbatim};
use crate::config::load::nearest::nearest;
use crate::config::load::reader::{Reader, Text};
use crate::config::load::yaml::Node;
use crate::config::secret::MASK;

/// The kind of the key `properties`. They are read as text first, because their meaning depends on
/// the implementation.
pub(super) struct Properties;

impl Kind for Properties {
    type Value = BTreeMap<String, Text>;

    fn expects(&self) -> String {
        self.texts().expects()
    }

    fn read(&self, node: &Node, reader: &mut Reader<'_>) -> Option<Self::Value> {
        self.texts().read(node, reader)
    }

    fn show(&self, value: &Self::Value) -> Json {
        self.texts().show(value)
    }

    fn schema(&self) -> Json {
        let text = |about: &str| {
            let mut schema = verbatim("").schema();
            schema["description"] = json!(about);
            schema
        };
        json!({
            "type": "object",
            "properties": {
                "uri": text("rest: the base address; a path in it is kept as a prefix."),
                "root": text("dir: the folder."),
            },
            "patternProperties": { "^headers\\.": text("rest: sent as the header of this name.") },
            "additionalProperties": text("dir: `arrow_body_limit`, or for the engine."),
        })
    }
}

impl Properties {
    fn texts(&self) -> impl Kind<Value = BTreeMap<String, Text>> {
        map(
            0,
            "properties, such as { uri: http://127.0.0.1:2333 }",
            |name| Ok(name.to_owned()),
            verbatim("a single value, as in `headers.X-API-Key: ${KEY}`"),
        )
    }
}

pub(super) fn static_header(
    name: &str,
    text: &Text,
    sent: &[(HeaderName, HeaderValue)],
) -> Result<(HeaderName, HeaderValue), String> {
    const OWN: [&str; 9] = [
        "connection",
        "content-length",
        "content-type",
        "expect",
        "host",
        "keep-alive",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let name = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
        "is not the name of a header; write headers.NAME with letters, digits and `-`".to_owned()
    })?;
    if OWN.contains(&name.as_str()) {
        return Err(format!("`{name}` is set by the gateway itself; remove it"));
    }
    if sent.iter().any(|(other, _)| *other == name) {
        return Err(format!(
            "is the header `{name}` again, since capitals make no difference; keep one of them"
        ));
    }
    let value = text.value.trim();
    if value.is_empty() {
        return Err(format!(
            "{} is empty; give it a value, or remove the header",
            text.shown()
        ));
    }
    Ok((name, sensitive(value)?))
}

pub(super) fn unknown_property(name: &str) -> String {
    let near = if name.to_ascii_lowercase().starts_with("header") {
        Some("headers.NAME")
    } else {
        nearest(name, &["uri"])
    };
    match near {
        Some(near) => format!("unknown property; did you mean `{near}`?"),
        None => "unknown property; a rest backend has `uri` and `headers.NAME`".to_owned(),
    }
}

pub(super) fn rest_properties(rest: &RestConfig) -> BTreeMap<String, Text> {
    let headers = rest
        .headers
        .iter()
        .map(|(name, _)| (format!("headers.{name}"), shown(MASK)));
    headers
        .chain([("uri".to_owned(), shown(&rest.uri.to_string()))])
        .collect()
}

pub(super) fn shown(value: &str) -> Text {
    Text {
        value: value.to_owned(),
        ..Text::default()
    }
}
