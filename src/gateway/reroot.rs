//! The path as the catalog must see it where a mount has another root.

use http::uri::PathAndQuery;
use http::{Request, Uri};

use crate::body::Body;
use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::{Operation, recognize};
use crate::protocol::query::Query;

/// By how much most identifiers are no longer than what the client called them.
const ROOM: usize = 32;

/// `uri` with its identifier replaced by `there`, spelled with the request's own delimiter. All else keeps its
/// bytes. 400, code 13, if that delimiter cannot spell it.
pub(super) fn path(uri: &Uri, there: &Identifier) -> Result<PathAndQuery, Error> {
    let delimiter = Query::new(uri.query()).delimiter()?;
    // `/v1/{collection}/{id}/…`, as recognized.
    let path = uri.path();
    let mut slashes = memchr::memchr_iter(b'/', path.as_bytes()).skip(2);
    let start = slashes.next().map_or(path.len(), |slash| slash + 1);
    let end = slashes.next().unwrap_or(path.len());
    let query = uri.query().unwrap_or_default();
    let mut text = String::with_capacity(path.len() + query.len() + ROOM);
    text.push_str(&path[..start]);
    there.push_segment(&mut text, &delimiter)?;
    text.push_str(&path[end..]);
    if uri.query().is_some() {
        text.push('?');
        text.push_str(query);
    }
    PathAndQuery::try_from(text)
        .map_err(|error| Error::invalid("the path is not one").with_cause(error))
}

/// Refuses an operation that the contract does not have, where its path has become another's: with the catalog's
/// identifier it may be one that is about any table (`version` in `/v1/table/version/batch-create` is none), or have
/// a segment that servers drop. What is listed cannot.
pub(super) fn check(request: &Request<Body>) -> Result<(), Error> {
    match recognize(request.method(), request.uri().path())?.operation {
        Operation::Unlisted(_) => Ok(()),
        other => Err(Error::invalid(format!(
            "the path is that of {} in the catalog",
            other.name()
        ))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    #[test]
    fn only_the_identifier_changes() {
        let cases: [(&str, &[&str], Result<&str, ()>); 7] = [
            (
                "/v1/table/research%24lab%24x/describe?delimiter=%24&a=%41",
                &["x"],
                Ok("/v1/table/x/describe?delimiter=%24&a=%41"),
            ),
            (
                "/v1/table/a.b/tags/list/?delimiter=.",
                &["c", "d"],
                Ok("/v1/table/c.d/tags/list/?delimiter=."),
            ),
            ("/v1/namespace/a/list", &[], Ok("/v1/namespace/%24/list")),
            (
                "/v1/table/a/describe",
                &["ü", "b c"],
                Ok("/v1/table/%C3%BC%24b%20c/describe"),
            ),
            (
                "/v1/table/a/index/i%2Fj/stats",
                &["b"],
                Ok("/v1/table/b/index/i%2Fj/stats"),
            ),
            ("/v1/table/a/describe?delimiter=.", &["v1.2"], Err(())),
            ("/v1/table/a/describe", &["."], Ok("/v1/table/%2E/describe")),
        ];
        for (uri, names, expected) in cases {
            let there = Identifier::from_names(names).unwrap();
            let path = path(&uri.parse().unwrap(), &there).map_err(|error| {
                assert_eq!(error.status(), 400);
            });
            assert_eq!(
                path.as_ref().map(PathAndQuery::as_str),
                expected.as_ref().copied(),
                "{uri}"
            );
        }
    }
}
