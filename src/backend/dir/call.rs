//! One operation as it was requested, and the conversion of its parts into the engine's request.

use std::collections::HashMap;
use std::fmt::{Debug, Display};
use std::str::FromStr;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderMap, HeaderValue};
use lance_core::{Error, Result};
use lance_namespace::NamespaceError;
use serde::de::DeserializeOwned;

use crate::protocol::context::{Context, Entry};
use crate::protocol::identifier::{Identifier, decode_segment};
use crate::protocol::operation::{Operation, Target, recognize};
use crate::protocol::query::Query;

/// The operation of one request, and its parameters.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) operation: Operation,
    pub(super) body: Bytes,
    /// The route's identifier, as the catalog spells it.
    id: Vec<String>,
    /// The route's index name; empty if it has none.
    index_name: String,
    /// The raw query.
    query: String,
    is_json: bool,
    /// The context for the engine's request; `None` if it is empty.
    pub(super) context: Option<HashMap<String, String>>,
}

/// A type of value that a query parameter can have.
pub(super) trait Parameter: Sized {
    /// Reads the parameter `name`; `None` if the query has none.
    fn read(query: Query<'_>, name: &'static str) -> Result<Option<Self>>;
}

impl Call {
    /// Reads a request: its line as the engine's own service would, its context from the extensions.
    pub(super) fn read(parts: &Parts, body: Bytes) -> Result<Self> {
        let query = parts.uri.query().unwrap_or("");
        let target = recognize(&parts.method, parts.uri.path())
            .map_err(|_| unsupported("this catalog has no such operation"))?;
        let Target {
            operation,
            id,
            index_name,
        } = target;
        let delimiter = Query::new(Some(query)).delimiter().map_err(invalid)?;
        let id = match id {
            Some(id) => Identifier::parse_segment(id, &delimiter).map_err(invalid)?,
            None => Identifier::root(),
        };
        let index_name = decode_segment(index_name.unwrap_or("")).map_err(invalid)?;
        Ok(Self {
            operation,
            body,
            id: id.names().map(str::to_owned).collect(),
            index_name: index_name.into_owned(),
            query: query.to_owned(),
            is_json: is_json(&parts.headers),
            context: parts.extensions.get().and_then(entries),
        })
    }

    /// Parses the body as a request of type `T`.
    pub(super) fn json<T: DeserializeOwned>(&self) -> Result<T> {
        if !self.is_json {
            return Err(invalid(
                "Expected request with `Content-Type: application/json`",
            ));
        }
        let mut json = serde_json::Deserializer::from_slice(&self.body);
        let value = serde_path_to_error::deserialize(&mut json).map_err(|cause| {
            let what = match cause.inner().classify() {
                serde_json::error::Category::Data => {
                    "deserialize the JSON body into the target type"
                }
                _ => "parse the request body as JSON",
            };
            invalid(format!("Failed to {what}: {cause}"))
        })?;
        let trailing =
            |cause| invalid(format!("Failed to parse the request body as JSON: {cause}"));
        json.end().map_err(trailing)?;
        Ok(value)
    }

    /// Parses the body as a request of type `T`. No body means an empty request.
    pub(super) fn json_if_any<T: DeserializeOwned + Default>(&self) -> Result<T> {
        if self.body.is_empty() {
            return Ok(T::default());
        }
        serde_json::from_slice(&self.body).map_err(invalid)
    }

    /// Sets a request's `id` from the route, with which it must agree.
    pub(super) fn put_id(&self, field: &mut Option<Vec<String>>) -> Result<()> {
        agree(field, &self.id)
    }

    /// Sets a request's `index_name` from the route, with which it must agree.
    pub(super) fn put_index_name(&self, field: &mut Option<String>) -> Result<()> {
        agree(field, &self.index_name)
    }

    /// Sets another field from the query parameter of the same name, if there is one.
    pub(super) fn put<T: Parameter>(
        &self,
        field: &mut Option<T>,
        name: &'static str,
    ) -> Result<()> {
        if let Some(value) = T::read(Query::new(Some(&self.query)), name)? {
            *field = Some(value);
        }
        Ok(())
    }
}

impl Parameter for String {
    fn read(query: Query<'_>, name: &'static str) -> Result<Option<Self>> {
        Ok(query.get(name).map_err(invalid)?.map(Into::into))
    }
}

impl Parameter for bool {
    fn read(query: Query<'_>, name: &'static str) -> Result<Option<Self>> {
        parsed(query, name)
    }
}

impl Parameter for i32 {
    fn read(query: Query<'_>, name: &'static str) -> Result<Option<Self>> {
        parsed(query, name)
    }
}

/// Reads the one parameter that repeats: once for each column of a key.
impl Parameter for Vec<String> {
    fn read(query: Query<'_>, name: &'static str) -> Result<Option<Self>> {
        let values = query.all(name).map(|value| value.map(Into::into));
        let values: Self = values
            .collect::<std::result::Result<_, _>>()
            .map_err(invalid)?;
        Ok((!values.is_empty()).then_some(values))
    }
}

/// Reads a JSON object in a parameter.
impl Parameter for HashMap<String, String> {
    fn read(query: Query<'_>, name: &'static str) -> Result<Option<Self>> {
        let Some(json) = query.get(name).map_err(invalid)? else {
            return Ok(None);
        };
        let wrong = |cause| {
            invalid(format!(
                "Failed to parse create_table {name} query parameter as JSON: {cause}"
            ))
        };
        serde_json::from_str(&json).map(Some).map_err(wrong)
    }
}

fn parsed<T>(query: Query<'_>, name: &'static str) -> Result<Option<T>>
where
    T: FromStr<Err: Display>,
{
    let wrong = |cause| {
        invalid(format!(
            "Failed to deserialize query string: {name}: {cause}"
        ))
    };
    let value = query.get(name).map_err(invalid)?;
    value.map(|value| value.parse().map_err(wrong)).transpose()
}

fn agree<T: Clone + PartialEq + Debug>(field: &mut Option<T>, route: &T) -> Result<()> {
    match field {
        Some(body) if body != route => Err(invalid(format!(
            "request body names {body:?}, the route names {route:?}"
        ))),
        _ => {
            *field = Some(route.clone());
            Ok(())
        }
    }
}

/// True for the media types that the engine's own service accepts as JSON.
fn is_json(headers: &HeaderMap) -> bool {
    let Some(Ok(content_type)) = headers.get(CONTENT_TYPE).map(HeaderValue::to_str) else {
        return false;
    };
    let essence = content_type.split(';').next().unwrap_or("").trim();
    let essence = essence.to_ascii_lowercase();
    essence == "application/json"
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

fn entries(context: &Context) -> Option<HashMap<String, String>> {
    let pair = |entry: &Entry| (entry.key().to_owned(), entry.value().to_owned());
    (!context.is_empty()).then(|| context.iter().map(pair).collect())
}

fn invalid(why: impl Display) -> Error {
    let message = why.to_string();
    NamespaceError::InvalidInput { message }.into()
}

/// Returns the error for an operation that the engine does not have.
pub(super) fn unsupported(why: &str) -> Error {
    let message = why.to_owned();
    NamespaceError::Unsupported { message }.into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use std::sync::Arc;

    use http::Request;

    use super::{Bytes, Call, HashMap};
    use crate::protocol::context::{ClaimEntries, Context, ContextRules};
    use crate::protocol::operation::Operation;

    #[test]
    fn what_a_request_says_is_read_from_its_line_and_its_context() {
        let path = "/v1/table/a%2Fb:t/index/i%3A1/stats?delimiter=%3A&limit=7&on=x+y&on=z";
        let request = Request::post(path).header("x-ns-ctx-Team", "blue");
        let (mut parts, ()) = request.body(()).unwrap().into_parts();
        let rules = Arc::new(ContextRules::new(vec!["x-ns-ctx-".to_owned()], 8, 1000));
        let claims = ClaimEntries::default();
        let context = Context::take(&mut parts.headers, &rules, claims).unwrap();
        parts.extensions.insert(context);

        let call = Call::read(&parts, Bytes::new()).unwrap();
        assert_eq!(call.operation, Operation::DescribeTableIndexStats);
        let team = HashMap::from([("team".to_owned(), "blue".to_owned())]);
        assert_eq!(call.context, Some(team));

        let (mut id, mut index, mut limit, mut on) = (None, None, Some(1), None::<Vec<_>>);
        call.put_id(&mut id).unwrap();
        call.put_index_name(&mut index).unwrap();
        call.put(&mut limit, "limit").unwrap();
        call.put(&mut on, "on").unwrap();
        assert_eq!(id.unwrap(), ["a/b", "t"]);
        assert_eq!(index.unwrap(), "i:1");
        assert_eq!(limit, Some(7));
        assert_eq!(on.unwrap(), ["x y", "z"]);
        call.put(&mut limit, "absent").unwrap();
        assert_eq!(
            limit,
            Some(7),
            "a parameter that is not there changes nothing"
        );
    }

    #[test]
    fn a_body_that_names_something_else_than_the_route_is_refused() {
        let (parts, ()) = Request::post("/v1/table/t/describe")
            .body(())
            .unwrap()
            .into_parts();
        let call = Call::read(&parts, Bytes::new()).unwrap();
        for (body, fits) in [(None, true), (Some("t"), true), (Some("u"), false)] {
            let mut id = body.map(|name| vec![name.to_owned()]);
            assert_eq!(call.put_id(&mut id).is_ok(), fits, "{body:?}");
        }
    }
}
