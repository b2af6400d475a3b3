//! Makes the path and query that a catalog sees out of a client's request, here and nowhere else.
//!
//! A catalog gets exactly what the gateway understood, in a form that no other reader can understand differently. So
//! names that decode to another path are refused. An identifier is spelled again if servers may read its bytes
//! differently: if it uses a delimiter other than the catalog's own, or contains a `+`. All other bytes are kept, since
//! every server that decodes once reads the same in them.

use http::uri::PathAndQuery;
use http::{Request, Uri};

use crate::backend::Backend;
use crate::body::Body;
use crate::error::Error;
use crate::gateway::catalog_scope;
use crate::protocol::identifier::{Identifier, PathReading, decode_segment, is_ambiguous};
use crate::protocol::operation::{Kind, Operation, recognize};
use crate::protocol::query::{DEFAULT_DELIMITER, Query};
use crate::request::context::RequestContext;

/// The spare bytes for an identifier that is longer in the catalog's spelling. Enough for most of them.
const ROOM: usize = 32;

/// Refuses an identifier (`id` for the client, `there` in the catalog) that the catalog could read as another one. The
/// identifier of a table must not be the root: some catalogs then use the one in the body.
pub(super) fn check(
    backend: &Backend,
    operation: Operation,
    (id, there): (&Identifier, &Identifier),
) -> Result<(), Error> {
    there.check(backend.reading())?;
    if !there.is_root() {
        return Ok(());
    }
    match operation.kind() {
        Some(Kind::Table | Kind::MaterializedView) => {
            let what = if id.is_root() { "the root" } else { "a mount" };
            Err(Error::invalid(format!(
                "{id} is {what} and not a table: name a table below it"
            )))
        }
        Some(Kind::Transaction) => Err(catalog_scope::not_known(id)),
        Some(Kind::Namespace) | None => Ok(()),
    }
}

/// Replaces the request's path and query by those for its catalog: with `there` in place of the route's identifier if
/// `is_elsewhere` is true, and in a spelling that every server reads alike.
pub(super) fn address(
    request: &mut Request<Body>,
    operation: Operation,
    (there, is_elsewhere): (&Identifier, bool),
    reading: PathReading,
) -> Result<(), Error> {
    if operation.kind().is_some() {
        let uri = request.uri();
        let is_default = || {
            let known = RequestContext::of(request.extensions()).has_default_delimiter;
            known.unwrap_or_else(|| Query::new(uri.query()).is_default_delimiter())
        };
        let keeps_delimiter = reading.any_delimiter || is_default();
        let is_odd = || !reading.raw_path && there.holds(b'+');
        if is_elsewhere || !keeps_delimiter || is_odd() {
            *request.uri_mut() = path(uri, there, keeps_delimiter)?.into();
        }
    }
    let has_free_text = matches!(
        operation,
        Operation::DescribeTableIndexStats | Operation::DropTableIndex | Operation::Unlisted(_)
    );
    if has_free_text {
        check_tail(request, operation, is_elsewhere, reading)?;
    }
    Ok(())
}

/// Returns the path and query of `uri` with its identifier replaced by `there`, spelled with the request's own
/// delimiter or with the default one. All other bytes are kept. 400, code 13, if that delimiter cannot spell it.
fn path(uri: &Uri, there: &Identifier, keeps_delimiter: bool) -> Result<PathAndQuery, Error> {
    let asked = Query::new(uri.query());
    let delimiter = if keeps_delimiter {
        asked.delimiter()?
    } else {
        DEFAULT_DELIMITER.into()
    };
    // The path has the form `/v1/{collection}/{id}/…`, because it was recognized.
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
        if keeps_delimiter {
            text.push_str(query);
        } else {
            text.push_str(&asked.with("delimiter", &delimiter));
        }
    }
    PathAndQuery::try_from(text)
        .map_err(|error| Error::invalid("the path is not valid").with_cause(error))
}

/// Refuses an index name, or the path of an operation outside the contract, that a catalog may read differently. With
/// the catalog's identifier, such a path may be that of another operation: `version` in
/// `/v1/table/version/batch-create` is not a table. The paths of listed operations cannot.
fn check_tail(
    request: &Request<Body>,
    operation: Operation,
    is_elsewhere: bool,
    reading: PathReading,
) -> Result<(), Error> {
    let path = request.uri().path();
    let target = recognize(request.method(), path)?;
    if is_elsewhere && target.operation != operation {
        return Err(Error::invalid(format!(
            "the path is that of {} in the catalog",
            target.operation.name()
        )));
    }
    if reading.raw_path {
        return Ok(());
    }
    let behind = match (target.index_name, operation) {
        (Some(name), Operation::DescribeTableIndexStats | Operation::DropTableIndex) => name,
        _ => path.splitn(5, '/').nth(4).unwrap_or_default(),
    };
    for part in behind.split('/') {
        let part = decode_segment(part)?;
        if is_ambiguous(&part) {
            return Err(Error::invalid(format!(
                "{part:?} in the path reads as another path once it is decoded again: leave out `/`, `\\`, `?`, `#`, `;`, control characters and `%` before two hexadecimal digits"
            )));
        }
    }
    Ok(())
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
            let path = path(&uri.parse().unwrap(), &there, true).map_err(|error| {
                assert_eq!(error.status(), 400);
            });
            assert_eq!(
                path.as_ref().map(PathAndQuery::as_str),
                expected.as_ref().copied(),
                "{uri}"
            );
        }
    }
    #[test]
    fn only_the_delimiter_that_catalogs_have_by_themselves_is_sent() {
        let cases = [
            (
                "/v1/table/a.t/describe?x=%2f&delimiter=.&y",
                "/v1/table/a%24t/describe?x=%2f&y&delimiter=%24",
            ),
            (
                "/v1/table/a%2Ft/describe?%64elimiter=/",
                "/v1/table/a%24t/describe?delimiter=%24",
            ),
        ];
        let there = Identifier::from_names(["a", "t"]).unwrap();
        for (uri, expected) in cases {
            let path = path(&uri.parse().unwrap(), &there, false).unwrap();
            assert_eq!(path.as_str(), expected, "{uri}");
        }
    }
}
