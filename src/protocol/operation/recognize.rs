//! Decides which operation a request line is, and refuses paths that another server could read differently.

use http::{Method, StatusCode};
use percent_encoding::percent_decode_str;

use super::table::Collection;
use super::{Kind, Operation};
use crate::error::Error;
use crate::error::code::Code;
use crate::protocol::commit::EXTENDED_PATH;

/// The operation that a request line names. The strings are slices of its path, still percent-encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target<'a> {
    /// The operation.
    pub operation: Operation,
    /// The `{id}` segment; `None` exactly if the operation's kind is `None`.
    pub id: Option<&'a str>,
    /// The `{index_name}` segment.
    pub index_name: Option<&'a str>,
}

/// The reason for which a request line is not an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unrecognized {
    /// No route has this path.
    NoSuchRoute,
    /// No route has this path, and the client was given another address than the gateway's own; the text says which.
    WrongBase(&'static str),
    /// No extension of the contract has this path.
    NoSuchExtension,
    /// The path is a route, but only with the method named here.
    WrongMethod {
        /// The value of the `Allow` header.
        allow: &'static str,
    },
    /// The path could mean different things to different servers; the text says why.
    Ambiguous(&'static str),
}

/// Returns the operation of a request line. `path` is raw (as sent) and without the query.
///
/// Slashes at the end are ignored, as real catalogs do.
pub fn recognize<'a>(method: &Method, path: &'a str) -> Result<Target<'a>, Unrecognized> {
    let path = path.trim_end_matches('/');
    let Some(rest) = path.strip_prefix("/v1/") else {
        return extension(method, path);
    };
    if let Some(why) = ambiguity(rest) {
        return Err(Unrecognized::Ambiguous(why));
    }
    let (collection, below) = cut(rest).unwrap_or((rest, ""));
    if collection == "table"
        && let Some(operation) = Operation::at(Collection::Tables, below)
    {
        return expect_method(method, operation, None, None);
    }
    let place = match collection {
        "namespace" => Collection::Namespace,
        "table" => Collection::Table,
        "materialized_view" => Collection::MaterializedView,
        "transaction" => Collection::Transaction,
        "v1" => {
            return Err(Unrecognized::WrongBase(
                "no operation has this path; the client's address of the gateway ends in /v1: leave that out",
            ));
        }
        _ => return Err(Unrecognized::NoSuchRoute),
    };
    let (id, tail) = cut(below).ok_or(Unrecognized::NoSuchRoute)?;
    let (template, index_name) = tail_at(place, tail);
    match Operation::at(place, template) {
        Some(operation) => expect_method(method, operation, Some(id), index_name),
        // The answer to the one is a tunnel, and that to the other shows the credentials that the gateway adds.
        None if matches!(*method, Method::CONNECT | Method::TRACE) => {
            Err(Unrecognized::WrongMethod { allow: "GET, POST" })
        }
        None => unlisted(place, below, (id, tail), index_name),
    }
}

/// Returns the target for a path outside of the contract.
fn extension<'a>(method: &Method, path: &str) -> Result<Target<'a>, Unrecognized> {
    let known = match path.strip_prefix("/nsgate/v1/") {
        // The contract's operation, with more kinds of changes.
        _ if path == EXTENDED_PATH => Some(Operation::BatchCommitTables),
        Some(tail) => Operation::at(Collection::Extension, tail),
        None => None,
    };
    match known {
        Some(operation) => expect_method(method, operation, None, None),
        None if path == "/nsgate" || path.starts_with("/nsgate/") => {
            Err(Unrecognized::NoSuchExtension)
        }
        None if path.starts_with("//") => Err(Unrecognized::WrongBase(
            "no operation has this path; the client's address of the gateway ends in `/`: leave that out",
        )),
        None => Err(Unrecognized::NoSuchRoute),
    }
}

/// Returns the parts before and after the first slash; `None` if there is none.
fn cut(path: &str) -> Option<(&str, &str)> {
    let at = memchr::memchr(b'/', path.as_bytes())?;
    Some((&path[..at], &path[at + 1..]))
}

/// Takes the index name out of a table's `index/NAME/…`.
fn tail_at(place: Collection, tail: &str) -> (&str, Option<&str>) {
    if place != Collection::Table {
        return (tail, None);
    }
    let parts = tail
        .strip_prefix("index/")
        .and_then(|rest| rest.split_once('/'));
    match parts {
        Some((name, "stats")) => ("index/{index_name}/stats", Some(name)),
        Some((name, "drop")) => ("index/{index_name}/drop", Some(name)),
        Some((name, _)) => (tail, Some(name)),
        None => (tail, None),
    }
}

fn expect_method<'a>(
    method: &Method,
    operation: Operation,
    id: Option<&'a str>,
    index_name: Option<&'a str>,
) -> Result<Target<'a>, Unrecognized> {
    match operation.method() {
        Some(expected) if expected != method => Err(Unrecognized::WrongMethod {
            allow: expected.as_str(),
        }),
        _ => Ok(Target {
            operation,
            id,
            index_name,
        }),
    }
}

/// Returns the target for a tail that no listed operation has. Refuses a tail with an encoded slash, in which servers
/// that decode before they route would see other segments, and one that some servers would take for a listed operation.
fn unlisted<'a>(
    place: Collection,
    below: &str,
    (id, tail): (&'a str, &str),
    index_name: Option<&'a str>,
) -> Result<Target<'a>, Unrecognized> {
    if has_encoded(tail, b'/') || has_encoded(tail, b'\\') {
        return Err(Unrecognized::Ambiguous(
            "the path has an encoded slash after its identifier",
        ));
    }
    if spells_listed(place, below, tail) {
        return Err(Unrecognized::Ambiguous(
            "the path spells an operation with escapes or in another case: send its letters as they are",
        ));
    }
    let kind: Kind = place.kind().ok_or(Unrecognized::NoSuchRoute)?;
    Ok(Target {
        operation: Operation::Unlisted(kind),
        id: Some(id),
        index_name,
    })
}

/// True if `below`, the path after the collection, or `tail`, the path after the identifier, is that of a listed
/// operation for a server that decodes it first, or that ignores case.
fn spells_listed(place: Collection, below: &str, tail: &str) -> bool {
    let is_listed = |place: Collection, text: &str| {
        let decoded = percent_decode_str(text).decode_utf8();
        decoded.is_ok_and(|text| {
            let text = text.to_ascii_lowercase();
            Operation::at(place, tail_at(place, &text).0).is_some()
        })
    };
    is_listed(place, tail) || place == Collection::Table && is_listed(Collection::Tables, below)
}

/// True if no byte of the path is suspicious.
fn is_plain(path: &[u8]) -> bool {
    let (Some((&first, behind)), Some(&last)) = (path.split_first(), path.last()) else {
        return false;
    };
    // Has no branch, so that the compiler can check many bytes at once.
    let is_doubtful = |before: u8, byte: u8| {
        let begins = before == b'/';
        (byte == b';')
            | (byte == b'\\')
            | begins & ((byte == b'/') | (byte == b'.') | (byte == b'%'))
    };
    let pairs = path.iter().zip(behind);
    let doubtful = pairs.fold(is_doubtful(b'/', first), |doubtful, (&before, &byte)| {
        doubtful | is_doubtful(before, byte)
    });
    !doubtful && last != b'/'
}

/// Returns the reason why a path may mean different things to different servers; `None` if there is none.
fn ambiguity(path: &str) -> Option<&'static str> {
    let path = path.as_bytes();
    if is_plain(path) { None } else { doubt(path) }
}

fn doubt(path: &[u8]) -> Option<&'static str> {
    if memchr::memchr2(b';', b'\\', path).is_some() {
        return Some(
            "the path has a `;` or a `\\`, which servers read in different ways: leave it out",
        );
    }
    for segment in path.split(|byte| *byte == b'/') {
        match segment.first() {
            None => return Some("the path has an empty segment"),
            Some(b'.' | b'%') if is_dots(segment) => {
                return Some("the path has a segment `.` or `..`");
            }
            Some(_) => {}
        }
    }
    None
}

/// True for `.` or `..`, encoded or not (RFC 3986, section 5.2.4; URL parsers treat `%2e` like a dot).
fn is_dots(segment: &[u8]) -> bool {
    let mut rest = segment;
    let mut dots = 0;
    while let [b'.', after @ ..] | [b'%', b'2', b'e' | b'E', after @ ..] = rest {
        rest = after;
        dots += 1;
    }
    rest.is_empty() && (dots == 1 || dots == 2)
}

fn has_encoded(text: &str, byte: u8) -> bool {
    text.as_bytes().windows(3).any(|three| {
        three[0] == b'%'
            && std::str::from_utf8(&three[1..])
                .is_ok_and(|hex| u8::from_str_radix(hex, 16) == Ok(byte))
    })
}

impl From<Unrecognized> for Error {
    /// The contract has no code for a route that does not exist; 0 is nearest, and the status is HTTP's own.
    fn from(why: Unrecognized) -> Self {
        match why {
            Unrecognized::NoSuchRoute => Self::new(Code::Unsupported, "no operation has this path")
                .with_status(StatusCode::NOT_FOUND),
            Unrecognized::WrongBase(why) => {
                Self::new(Code::Unsupported, why).with_status(StatusCode::NOT_FOUND)
            }
            Unrecognized::NoSuchExtension => Self::new(
                Code::Unsupported,
                "no extension has this path; below `/nsgate/` there are `/nsgate/v1/snapshot` and `/nsgate/v1/batch-commit`",
            )
            .with_status(StatusCode::NOT_FOUND),
            Unrecognized::WrongMethod { allow } => {
                Self::new(Code::Unsupported, format!("use {allow} for this operation"))
                    .with_status(StatusCode::METHOD_NOT_ALLOWED)
                    .allow(allow)
            }
            Unrecognized::Ambiguous(why) => Self::invalid(why),
        }
    }
}

#[cfg(test)]
mod tests;
