//! JSON in which no object has a member twice, at any depth.
//!
//! RFC 7515 (section 4) and RFC 7519 (section 4) allow a parser to keep the last of two; then two readers of one
//! token could see two different callers.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// The object that is all of `bytes`; `None` when they are something else.
pub(super) fn object(bytes: &[u8]) -> Option<Map<String, Value>> {
    match serde_json::from_slice(bytes).ok()? {
        Strict(Value::Object(object)) => Some(object),
        Strict(_) => None,
    }
}

/// Shows each member of the object that is all of `bytes`; `None` when they are something else. What was shown counts
/// for nothing then.
pub(super) fn members<'a>(bytes: &'a [u8], see: impl FnMut(&str, Text<'a>)) -> Option<()> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    reader.deserialize_map(Seeing(see)).ok()?;
    reader.end().ok()
}

/// A text, borrowed where it has no escapes, or any other value.
pub(super) enum Text<'a> {
    Text(Cow<'a, str>),
    Other,
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextReader)
    }
}

struct TextReader;

impl<'de> Visitor<'de> for TextReader {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Reader.expecting(f)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Text::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Text::Other)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(Text::Other)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(Text::Other)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(Text::Other)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Text::Text(text.to_owned().into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Text::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        Reader.visit_seq(items).map(|_| Text::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        Reader.visit_map(members).map(|_| Text::Other)
    }
}

struct Seeing<F>(F);

impl<'de, F: FnMut(&str, Text<'de>)> Visitor<'de> for Seeing<F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without repeated members")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut seen: BTreeSet<Cow<'de, str>> = BTreeSet::new();
        while let Some((name, value)) = members.next_entry()? {
            let Text::Text(name) = name else {
                return Err(A::Error::custom("a name that is no text"));
            };
            (self.0)(&name, value);
            if !seen.insert(name) {
                return Err(A::Error::custom("a repeated member"));
            }
        }
        Ok(())
    }
}

struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated members")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a number"))?;
        Ok(number.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut all = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            all.push(item);
        }
        Ok(all.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut all = Map::new();
        while let Some((name, Strict(value))) = members.next_entry::<String, Strict>()? {
            if all.insert(name, value).is_some() {
                return Err(A::Error::custom("a repeated member"));
            }
        }
        Ok(all.into())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use super::*;

    #[test]
    fn what_has_no_repeated_member_reads_as_usual() {
        let text = r#" {"a":[1,-2,3.5,null,true,{"b":"\u00e9","c":{}}],"d":18446744073709551615} "#;
        let expected: Value = serde_json::from_str(text).unwrap();
        assert_eq!(Value::Object(object(text.as_bytes()).unwrap()), expected);
        let mut names = Vec::new();
        let see = |name: &str, _: Text<'_>| names.push(name.to_owned());
        members(text.as_bytes(), see).unwrap();
        assert_eq!(names, ["a", "d"]);
    }

    #[test]
    fn repeated_members_and_other_json_are_nothing() {
        let deep = format!(r#"{{"a":{}{}}}"#, "[".repeat(200), "]".repeat(200));
        let cases = [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"\u0061":2}"#,
            r#"{"a":{"b":1,"b":2}}"#,
            r#"{"a":[{"b":1,"b":2}]}"#,
            "[]",
            "1",
            "",
            "null",
            r#""a""#,
            "{} {}",
            r#"{"a":NaN}"#,
            r#"{"a":1e999}"#,
            "\u{feff}{}",
            r#"{"a":"\ud800"}"#,
            &deep,
        ];
        for text in cases {
            assert_eq!(object(text.as_bytes()), None, "{text}");
            assert_eq!(members(text.as_bytes(), |_, _| {}), None, "{text}");
        }
        assert_eq!(object(b"{\"a\":\"\xff\"}"), None);
    }
}
