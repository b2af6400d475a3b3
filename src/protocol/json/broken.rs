//! What is wrong with what is no JSON, and where, in the words of a reader that keeps count.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Why `part`, which is no object and no array although it begins as one, cannot be read.
pub(super) fn why(part: &str) -> String {
    let mut reader = serde_json::Deserializer::from_str(part);
    let read = reader.deserialize_any(All).and_then(|()| reader.end());
    read.map_or_else(|why| why.to_string(), |()| "it is broken".to_owned())
}

struct All;

impl<'a> Visitor<'a> for All {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<&'a RawValue, &'a RawValue>()?.is_some() {}
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element::<&'a RawValue>()?.is_some() {}
        Ok(())
    }
}
