//! The location in a request that gives a name to a place in storage.

use super::json::{Document, string};
use crate::error::Error;

/// Returns all values that a catalog may read as the `location` of a register or a declare: some catalogs
/// ignore the case of the key.
pub fn locations(body: &[u8]) -> Result<Vec<String>, Error> {
    let mut locations = Vec::new();
    let document = Document::new(body)?;
    if !document.is_nothing() {
        document.members(document.text, "the body", &mut |member| {
            if member.name.eq_ignore_ascii_case("location") {
                locations.extend(string(member.value).map(|text| text.into_owned()));
            }
            Ok(())
        })?;
    }
    Ok(locations)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::locations;

    #[test]
    fn every_spelling_of_the_location_counts() {
        let body =
            br#"{"id":["t"],"\u006cocation":"a","Location":"b","properties":{"location":"d"}}"#;
        assert_eq!(locations(body).unwrap(), ["a", "b"]);
        for none in [&b""[..], b"null", br#"{"location":null}"#] {
            assert!(locations(none).unwrap().is_empty());
        }
    }
}
