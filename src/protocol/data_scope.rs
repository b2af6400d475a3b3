//! The part of a catalog's data that a request is about, where its path alone does not tell: a tenant, a database.
//!
//! A catalog may choose the data by an entry of the context or by a header. Then two requests with one path are about two
//! tables. The values that choose are part of the identity of a table, and go with every request about it.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::protocol::context::{Context, Source};

/// The headers by which clients of LanceDB's own servers select a database.
pub const DATABASE: [HeaderName; 2] = [
    HeaderName::from_static("x-lancedb-database"),
    HeaderName::from_static("x-lancedb-database-prefix"),
];
/// The most bytes of all values that select: the log of batches has them once for each entry.
const LONGEST: usize = 512;

/// The parts of a request that select a catalog's data besides its path (`selects` of a backend).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selectors {
    /// The keys of context that select, in lower case; `None` if the configuration does not say whether any does.
    pub context: Option<Vec<String>>,
    /// The headers that select.
    pub headers: Vec<HeaderName>,
}

/// The values of a request that select a catalog's data; empty for most requests. Cheap to clone.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DataScope(Option<Arc<[Selected]>>);

/// One value that selects: where it stands in a request, its key in lower case, and the value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selected(Place, Arc<str>, Arc<str>);

/// The place in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Context,
    Header,
}

impl Selectors {
    /// Returns the selectors of a catalog whose data only the path selects.
    pub fn none() -> Self {
        Self {
            context: Some(Vec::new()),
            headers: Vec::new(),
        }
    }

    /// Returns a key of the context if it may select, and the configuration does not say whether it does.
    pub fn undeclared<'a>(&self, context: &'a Context) -> Option<&'a str> {
        let first = context.iter().next();
        first.filter(|_| self.context.is_none()).map(|it| it.key())
    }
}

impl DataScope {
    /// Returns the values of a request that select.
    ///
    /// # Errors
    /// 400, code 13: a value that selects is empty, which some catalogs take for none; a header that selects is given
    /// twice or is not visible ASCII; or the values are longer than 512 bytes.
    pub fn of(
        selectors: &Selectors,
        context: Option<&Context>,
        headers: &HeaderMap,
    ) -> Result<Self, Error> {
        let mut selected = Vec::new();
        for key in selectors.context.iter().flatten() {
            if let Some(value) = context.and_then(|context| context.get(key)) {
                selected.push(Selected(Place::Context, key.as_str().into(), value.into()));
            }
        }
        for name in &selectors.headers {
            let mut values = headers.get_all(name).iter();
            let Some(value) = values.next() else { continue };
            let text = value.to_str().ok().filter(|_| values.next().is_none());
            let text = text.ok_or_else(|| {
                Error::invalid(format!(
                    "the header `{name}` selects data, and must be given once, in visible ASCII"
                ))
            })?;
            selected.push(Selected(Place::Header, name.as_str().into(), text.into()));
        }
        if let Some(Selected(_, key, _)) = selected.iter().find(|it| it.2.is_empty()) {
            return Err(Error::invalid(format!(
                "`{key}` selects data, and is empty; leave it out, or give it a value"
            )));
        }
        // Their order in the configuration says nothing.
        selected.sort();
        let bytes: usize = selected
            .iter()
            .map(|Selected(_, _, value)| value.len())
            .sum();
        if bytes > LONGEST {
            let keys: Vec<&str> = selected.iter().map(|Selected(_, key, _)| &**key).collect();
            return Err(Error::invalid(format!(
                "the values of `{}` select data, and take {bytes} bytes; at most {LONGEST} are allowed",
                keys.join("`, `")
            )));
        }
        Ok(Self((!selected.is_empty()).then(|| selected.into())))
    }

    /// True if the client chose one of the values: no claim of its token did.
    pub fn is_chosen_by_client(&self, context: &Context) -> bool {
        let by_claim = |key: &str| {
            let mut entries = context.iter();
            entries.any(|entry| entry.key() == key && entry.source() == Source::Claim)
        };
        let mut values = self.values();
        values.any(|Selected(place, key, _)| *place == Place::Header || !by_claim(key))
    }

    /// True if nothing but the path selects.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Adds the entries that select to the context of a request that has none of that key.
    pub fn complete(&self, context: &mut Context) {
        for Selected(place, key, value) in self.values() {
            if *place == Place::Context && context.get(key).is_none() {
                context.restore(key, value);
            }
        }
    }

    /// Sets the headers that select.
    pub fn select_in(&self, headers: &mut HeaderMap) {
        for Selected(place, key, value) in self.values() {
            if *place == Place::Header
                && let (Ok(name), Ok(value)) = (
                    HeaderName::try_from(&**key),
                    HeaderValue::try_from(&**value),
                )
            {
                headers.insert(name, value);
            }
        }
    }

    fn values(&self) -> impl Iterator<Item = &Selected> {
        self.0.iter().flat_map(|values| &**values)
    }
}

/// Shows the values for an operator, such as ` [tenant=acme]`; nothing if there is none.
impl fmt::Display for DataScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, Selected(_, key, value)) in self.values().enumerate() {
            f.write_str(if place == 0 { " [" } else { ", " })?;
            write!(f, "{key}={}", value.escape_debug())?;
        }
        if self.is_empty() {
            return Ok(());
        }
        f.write_str("]")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::protocol::context::{ClaimEntries, ContextRules};

    fn context(pairs: &[(&'static str, &'static str)]) -> Context {
        let mut headers = HeaderMap::new();
        for (key, value) in pairs {
            headers.insert(*key, HeaderValue::from_static(value));
        }
        let rules = ContextRules::new(vec!["x-c-".to_owned()], 9, 9999);
        Context::take(&mut headers, &rules, ClaimEntries::default()).unwrap()
    }

    fn selectors() -> Selectors {
        Selectors {
            context: Some(vec!["tenant".to_owned()]),
            headers: DATABASE.to_vec(),
        }
    }

    #[test]
    fn what_selects_tells_two_tables_apart_and_nothing_else_does() {
        let of = |pairs: &[_], database: Option<&'static str>| {
            let mut headers = HeaderMap::new();
            if let Some(database) = database {
                headers.insert(&DATABASE[0], HeaderValue::from_static(database));
            }
            DataScope::of(&selectors(), Some(&context(pairs)), &headers).unwrap()
        };
        let acme = of(&[("x-c-tenant", "acme"), ("x-c-run", "7")], None);
        assert_eq!(acme, of(&[("x-c-run", "8"), ("x-c-tenant", "acme")], None));
        assert_ne!(acme, of(&[("x-c-tenant", "globex")], None));
        assert_ne!(acme, of(&[], None));
        assert_ne!(acme, of(&[("x-c-tenant", "acme")], Some("db")));
        assert_eq!(of(&[("x-c-run", "8")], None), DataScope::default());
        assert_eq!(acme.to_string(), " [tenant=acme]");
        let both = of(&[("x-c-tenant", "acme")], Some("db"));
        assert_eq!(both.to_string(), " [tenant=acme, x-lancedb-database=db]");
        let text = serde_json::to_string(&both).unwrap();
        assert_eq!(
            text,
            r#"[["context","tenant","acme"],["header","x-lancedb-database","db"]]"#
        );
        assert_eq!(serde_json::from_str::<DataScope>(&text).unwrap(), both);
        let mut empty = context(&[]);
        both.complete(&mut empty);
        assert_eq!(empty.get("tenant"), Some("acme"));
        let mut headers = HeaderMap::new();
        both.select_in(&mut headers);
        assert_eq!(headers[&DATABASE[0]], "db");
    }

    #[test]
    fn a_value_that_cannot_be_compared_is_refused() {
        let mut twice = HeaderMap::new();
        twice.append(&DATABASE[0], HeaderValue::from_static("one"));
        twice.append(&DATABASE[0], HeaderValue::from_static("two"));
        let mut opaque = HeaderMap::new();
        opaque.insert(&DATABASE[0], HeaderValue::from_bytes(b"\xff").unwrap());
        let mut long = HeaderMap::new();
        long.insert(
            &DATABASE[0],
            HeaderValue::try_from("x".repeat(LONGEST + 1)).unwrap(),
        );
        let mut empty = HeaderMap::new();
        empty.insert(&DATABASE[1], HeaderValue::from_static(""));
        for headers in [twice, opaque, long, empty] {
            let error = DataScope::of(&selectors(), None, &headers).unwrap_err();
            assert_eq!((error.status().as_u16(), error.code().number()), (400, 13));
        }
    }

    #[test]
    fn context_about_which_nothing_is_said_may_select() {
        let unsaid = Selectors::default();
        let context = context(&[("x-c-tenant", "acme")]);
        assert_eq!(unsaid.undeclared(&context), Some("tenant"));
        assert_eq!(Selectors::none().undeclared(&context), None);
        assert_eq!(unsaid.undeclared(&Context::default()), None);
    }
}
