//! Filters hidden names from a listing of tables; pure.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The error for a body that is not a listing of tables.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalog's answer is not a listing of tables")]
pub struct NotAListing;

/// A `ListTablesResponse` without its hidden tables.
#[derive(Debug, PartialEq, Eq)]
pub struct ShownTables {
    /// The whole body.
    pub body: Vec<u8>,
    /// The token of the next page, if no table is left on this one; `None` also if this is the last page.
    pub next: Option<String>,
}

/// Removes the hidden tables from a `ListTablesResponse`; everything else keeps its bytes. Returns `None` if it has no
/// hidden tables.
///
/// # Errors
///
/// The body is no such response.
pub fn without(
    body: &[u8],
    is_hidden: impl Fn(&str) -> bool,
) -> Result<Option<ShownTables>, NotAListing> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        tables: &'a RawValue,
        page_token: Option<String>,
    }
    #[derive(Deserialize)]
    struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

    let answer: Answer<'_> = serde_json::from_slice(body).map_err(|_| NotAListing)?;
    let list = answer.tables.get();
    let items: Vec<&RawValue> = serde_json::from_str(list).map_err(|_| NotAListing)?;
    let mut shown = Vec::with_capacity(items.len());
    for item in &items {
        let Name(name) = serde_json::from_str(item.get()).map_err(|_| NotAListing)?;
        if !is_hidden(&name) {
            shown.push(item.get());
        }
    }
    if shown.len() == items.len() {
        return Ok(None);
    }
    let start = list.as_ptr().addr() - body.as_ptr().addr();
    let mut shorter = Vec::with_capacity(body.len());
    shorter.extend_from_slice(&body[..start]);
    shorter.push(b'[');
    shorter.extend_from_slice(shown.join(",").as_bytes());
    shorter.push(b']');
    shorter.extend_from_slice(&body[start + list.len()..]);
    let next = answer
        .page_token
        .filter(|token| shown.is_empty() && !token.is_empty());
    Ok(Some(ShownTables {
        body: shorter,
        next,
    }))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::without;

    #[test]
    fn hidden_names_are_left_out_and_nothing_else_changes() {
        let body = r#"{"n":1.50,"tables":["a", "b\u0062","c"] ,"page_token":"c"}"#;
        let cases = [
            (&["x"][..], None),
            (
                &["bb"][..],
                Some(r#"{"n":1.50,"tables":["a","c"] ,"page_token":"c"}"#),
            ),
            (
                &["a", "bb", "c"][..],
                Some(r#"{"n":1.50,"tables":[] ,"page_token":"c"}"#),
            ),
        ];
        for (hidden, expected) in cases {
            let shown = without(body.as_bytes(), |name| hidden.contains(&name)).unwrap();
            let next = shown.as_ref().and_then(|shown| shown.next.clone());
            assert_eq!(next.is_some(), hidden.len() == 3, "{hidden:?}");
            let shown = shown.map(|shown| String::from_utf8(shown.body).unwrap());
            assert_eq!(shown.as_deref(), expected, "{hidden:?}");
        }
    }

    #[test]
    fn what_is_not_a_listing_is_said_to_be_none() {
        for body in ["", "null", "[]", r#"{"tables":{}}"#, r#"{"tables":[1]}"#] {
            assert!(without(body.as_bytes(), |_| true).is_err(), "{body}");
        }
    }
}
