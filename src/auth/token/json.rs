//! Reads JSON in which no object has a member twice, at any depth.
//!
//! RFC 7515 (section 4) and RFC 7519 (section 4) allow a parser to keep the last of two. Then two readers of one
//! token could see two different callers.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

/// The number of members that most objects do not exceed.
const USUAL: usize = 12;
/// The member name that serde_json treats in a special way: it takes an object with this member alone for the JSON in
/// its text. An issuer that lets its users name a member would let them write whole claims.
const RAW: &str = "$serde_json::private::RawValue";

/// Calls `see` with each member of the object that is all of `bytes`; `None` if they are anything else, and then the
/// members that were seen must not be used.
pub(super) fn members<'a, V>(bytes: &'a [u8], see: impl FnMut(&str, V)) -> Option<()>
where
    V: Deserialize<'a>,
{
    // The text is checked once as a whole, so that no part of it has to be checked again.
    let text = std::str::from_utf8(bytes).ok()?;
    let mut reader = serde_json::Deserializer::from_str(text);
    reader
        .deserialize_map(NoDuplicates(see, PhantomData))
        .ok()?;
    reader.end().ok()
}

/// A string, borrowed if it has no escapes, or any other value.
pub(super) enum Text<'a> {
    Text(Cow<'a, str>),
    Other,
}

/// A JSON value, as far as claims need it.
pub(super) enum Claim<'a> {
    Text(Cow<'a, str>),
    Number(Number),
    /// An array that holds only strings.
    Texts(Vec<Cow<'a, str>>),
    Other,
}

impl Claim<'_> {
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the strings of a claim that is one string or an array of them; `None` if it is anything else.
    pub(super) fn strings(&self) -> Option<Vec<Box<str>>> {
        match self {
            Self::Text(one) => Some(vec![(&**one).into()]),
            Self::Texts(many) => Some(many.iter().map(|text| (&**text).into()).collect()),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Text<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(match Claim::deserialize(deserializer)? {
            Claim::Text(text) => Self::Text(text),
            _ => Self::Other,
        })
    }
}

impl<'de> Deserialize<'de> for Claim<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Claim<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without repeated members")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Claim::Other)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(Claim::Other)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(Claim::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(Claim::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        let number = Number::from_f64(value).ok_or_else(|| E::custom("not a number"))?;
        Ok(Claim::Number(number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(Claim::Text(text.to_owned().into()))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Claim::Text(text.into()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        let mut texts = Some(Vec::new());
        while let Some(item) = items.next_element()? {
            match (item, &mut texts) {
                (Text::Text(text), Some(texts)) => texts.push(text),
                _ => texts = None,
            }
        }
        Ok(texts.map_or(Claim::Other, Claim::Texts))
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        NoDuplicates(|_: &str, _: Text<'de>| {}, PhantomData).visit_map(members)?;
        Ok(Claim::Other)
    }
}

/// True if one of the names is there twice.
fn has_twice(names: &mut [Cow<'_, str>]) -> bool {
    if names.len() <= USUAL {
        // This is faster than sorting, because most names differ in length.
        return (1..names.len()).any(|last| names[..last].contains(&names[last]));
    }
    // The cost of many members must not grow with the square of their number.
    names.sort_unstable();
    names.windows(2).any(|two| two[0] == two[1])
}

struct NoDuplicates<F, V>(F, PhantomData<V>);

impl<'de, V: Deserialize<'de>, F: FnMut(&str, V)> Visitor<'de> for NoDuplicates<F, V> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object without repeated members")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut members: A) -> Result<(), A::Error> {
        let mut seen: Vec<Cow<'de, str>> = Vec::with_capacity(USUAL);
        while let Some((name, value)) = members.next_entry()? {
            let Text::Text(name) = name else {
                return Err(A::Error::custom("a name that is no text"));
            };
            if name == RAW {
                return Err(A::Error::custom("a name that means something else"));
            }
            (self.0)(&name, value);
            seen.push(name);
        }
        if has_twice(&mut seen) {
            Err(A::Error::custom("a repeated member"))
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests say what they expect")]

    use serde_json::Value;

    use super::*;

    fn names(bytes: &[u8]) -> Option<Vec<String>> {
        let mut names = Vec::new();
        members(bytes, |name, _: Claim<'_>| names.push(name.to_owned()))?;
        Some(names)
    }

    #[test]
    fn what_has_no_repeated_member_reads_as_usual() {
        let text = r#" {"a":[1,-2,3.5,null,true,{"b":"\u00e9","c":{}}],"d":18446744073709551615} "#;
        assert_eq!(names(text.as_bytes()).unwrap(), ["a", "d"]);
        let mut values = Vec::new();
        let text = r#"{"a":"b","\u0061b":"\u00e9","c":["x","\u0079"],"d":["x",1],"e":7,"f":1.5,"g":null,"h":[]}"#;
        members(text.as_bytes(), |_, value| values.push(value)).unwrap();
        let shown = values.iter().map(|value| match value {
            Claim::Text(text) => (**text).into(),
            Claim::Number(number) => number.clone().into(),
            Claim::Texts(texts) => texts.iter().map(|text| &**text).collect(),
            Claim::Other => Value::Null,
        });
        let expected = serde_json::json!(["b", "é", ["x", "y"], null, 7, 1.5, null, []]);
        assert_eq!(shown.collect::<Value>(), expected);
    }

    #[test]
    fn the_name_that_means_something_else_still_does() {
        let text = serde_json::json!({ RAW: r#"["b"]"# }).to_string();
        let read: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read, serde_json::json!(["b"]));
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
            r#"{"a":{"$serde_json::private::RawValue":"1"}}"#,
            r#"{"a":[{"$serde_json::private\u003a:RawValue":"1"}]}"#,
            r#"{"a":{"$serde_json::private::RawValue":"{"}}"#,
            &deep,
        ];
        for text in cases {
            assert_eq!(names(text.as_bytes()), None, "{text}");
            let skipped = members(text.as_bytes(), |_, _: Text<'_>| {});
            assert_eq!(skipped, None, "{text}");
        }
        assert_eq!(names(b"{\"a\":\"\xff\"}"), None);
        // The two members of one name are far apart among many others.
        let many: Vec<String> = (0..2000).map(|n| format!(r#""m{n}":0"#)).collect();
        let many = many.join(",");
        assert_eq!(names(format!("{{{many}}}").as_bytes()).unwrap().len(), 2000);
        assert_eq!(names(format!(r#"{{"m1999":0,{many}}}"#).as_bytes()), None);
    }
}
