//! Turns a request into the store's decision and its answer, as the REST adapter of real catalogs does.

use bytes::Bytes;
use percent_encoding::percent_decode_str;
use serde_json::{Map, Value, json};

use super::BatchCreate;
use super::operations::{Found, Sends};
use super::store::{Decision, Id, Page, Refusal, Store};

/// A whole answer: status, content type and body.
pub type Answer = (u16, Option<&'static str>, Bytes);

/// The differences between this catalog and others of its kind.
#[derive(Clone, Copy)]
pub struct Ways {
    pub batch_create: BatchCreate,
    /// The largest number of versions on one page of `version/list`; `None` if there is no paging.
    pub versions_on_a_page: Option<usize>,
}

/// Query parameters, decoded.
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(raw: Option<&str>) -> Self {
        let decode = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
        let pairs = raw.unwrap_or_default().split('&');
        let pairs = pairs.filter_map(|pair| pair.split_once('='));
        Self(pairs.map(|(k, v)| (decode(k), decode(v))).collect())
    }

    fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(k, _)| k == key);
        found.map(|(_, value)| value.as_str())
    }

    fn delimiter(&self) -> &str {
        self.get("delimiter").unwrap_or("$")
    }

    fn page(&self) -> Result<Page, Refusal> {
        let limit = self.get("limit").map(str::parse).transpose();
        let limit = limit.map_err(|_| invalid("Failed to deserialize query string"))?;
        Ok(Page {
            token: self.get("page_token").map(str::to_owned),
            limit,
            descending: self.get("descending") == Some("true"),
        })
    }

    /// Returns the names of a path segment: decoded once, without empty ones.
    pub fn names(&self, segment: Option<&str>) -> Id {
        let segment = segment.unwrap_or_default();
        let decoded = percent_decode_str(segment).decode_utf8_lossy();
        let names = decoded.split(self.delimiter());
        names.filter(|n| !n.is_empty()).map(str::to_owned).collect()
    }
}

/// Answers the request `found` from `store`. For rows from a stream, the length of `body` counts.
pub fn answer(store: &mut Store, ways: Ways, found: &Found, query: &Query, body: &Bytes) -> Answer {
    let id = query.names(found.id.as_deref());
    let decision = match found.sends {
        Sends::Json => object(body, &id).and_then(|body| with_json(store, ways, found, &id, &body)),
        _ => without_json(store, ways, found, &id, query, body),
    };
    match decision {
        Ok(None) => (found.success, None, Bytes::new()),
        Ok(Some(value)) => (found.success, JSON, value.to_string().into()),
        Err((status, 0, message)) if message.is_empty() => (status, None, Bytes::new()),
        Err((status, code, message)) => {
            let body = json!({"error": message, "code": code});
            (status, JSON, body.to_string().into())
        }
    }
}

const JSON: Option<&str> = Some("application/json");

fn invalid(message: impl Into<String>) -> Refusal {
    (400, 13, message.into())
}

/// Checks that the body is an object, and that its `id`, if there is one, is the route's.
fn object(body: &Bytes, id: &Id) -> Result<Map<String, Value>, Refusal> {
    let parsed: Result<Value, _> = serde_json::from_slice(body);
    let value =
        parsed.map_err(|e| invalid(format!("Failed to parse the request body as JSON: {e}")))?;
    let Value::Object(object) = value else {
        return Err(invalid(
            "Failed to deserialize the JSON body into the target type",
        ));
    };
    if let Some(named) = object.get("id").filter(|named| **named != json!(id)) {
        let message = format!("request body names {named}, the route names {id:?}");
        return Err(invalid(message));
    }
    Ok(object)
}

fn field<'a>(body: &'a Map<String, Value>, name: &str) -> Result<&'a Value, Refusal> {
    body.get(name)
        .ok_or_else(|| invalid(format!("missing field `{name}`")))
}

fn with_json(
    store: &mut Store,
    ways: Ways,
    found: &Found,
    id: &Id,
    body: &Map<String, Value>,
) -> Decision {
    let version = |body: &Map<String, Value>| {
        let version = field(body, "version")?.as_u64();
        version.ok_or_else(|| invalid("invalid type: version"))
    };
    let path = |body: &Map<String, Value>| {
        let path = field(body, "manifest_path")?.as_str().map(str::to_owned);
        path.ok_or_else(|| invalid("invalid type: manifest_path"))
    };
    match found.name {
        "create_namespace" => store.create_namespace(id, body),
        "describe_namespace" => store.describe_namespace(id),
        "namespace_exists" => store.namespace_exists(id),
        "drop_namespace" => store.drop_namespace(id),
        "describe_table" => store.describe_table(id),
        "table_exists" => store.table_exists(id),
        "declare_table" => {
            let mut declared = store.create_table(id, None)?.unwrap_or_default();
            declared["storage_options"] = json!({"token": "a credential"});
            if let Some(properties) = body.get("properties") {
                declared["properties"] = properties.clone();
            }
            Ok(Some(declared))
        }
        "deregister_table" => store.deregister_table(id),
        "register_table" => {
            let at = field(body, "location")?.as_str();
            store.register_table(id, at.ok_or_else(|| invalid("invalid type: location"))?)
        }
        "rename_table" => {
            let name = field(body, "new_table_name")?.as_str();
            let namespace = match body.get("new_namespace_id").and_then(Value::as_array) {
                None => id[..id.len().saturating_sub(1)].to_vec(),
                Some(names) => names
                    .iter()
                    .filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect(),
            };
            let name = name.ok_or_else(|| invalid("invalid type: new_table_name"))?;
            store.rename_table(id, [namespace, vec![name.to_owned()]].concat())
        }
        "count_table_rows" => Ok(Some(json!(store.latest(id)?))),
        "create_table_version" => store.create_version(id, version(body)?, &path(body)?),
        "describe_table_version" => {
            let version = body.get("version").and_then(Value::as_u64);
            store.describe_version(id, version)
        }
        "batch_delete_table_versions" => {
            let ranges = field(body, "ranges")?.as_array();
            let end = |range: &Value, name: &str| range[name].as_i64();
            let ranges = ranges
                .into_iter()
                .flatten()
                .map(|range| end(range, "start_version").zip(end(range, "end_version")));
            let ranges: Option<Vec<_>> = ranges.collect();
            store.delete_versions(id, &ranges.ok_or_else(|| invalid("invalid range"))?)
        }
        "batch_commit_tables" => {
            let message = "Not supported: batch_commit_tables not implemented, namespace.rs:385:13";
            Err((500, 18, message.to_owned()))
        }
        "batch_create_table_versions" => {
            let entries = field(body, "entries")?.as_array().cloned();
            if let BatchCreate::Missing(status, code, message) = ways.batch_create {
                return Err((status, code, message.to_owned()));
            }
            let parsed = entries.into_iter().flatten().map(|entry| {
                let entry = entry.as_object().ok_or_else(|| invalid("invalid entry"))?;
                let names = field(entry, "id")?.as_array().into_iter().flatten();
                let names = names.filter_map(|name| name.as_str().map(str::to_owned));
                Ok((names.collect(), version(entry)?, path(entry)?))
            });
            store.create_versions(&parsed.collect::<Result<Vec<_>, Refusal>>()?)
        }
        other => Ok(Some(json!({"operation": other}))),
    }
}

fn without_json(
    store: &mut Store,
    ways: Ways,
    found: &Found,
    id: &Id,
    query: &Query,
    body: &Bytes,
) -> Decision {
    match found.name {
        "list_namespaces" => store.list_namespaces(id, &query.page()?),
        "list_tables" => store.list_tables(id, &query.page()?),
        "list_all_tables" => store.list_all_tables(query.delimiter(), &query.page()?),
        "list_table_versions" => store.list_versions(id, &query.page()?, ways.versions_on_a_page),
        "drop_table" => store.drop_table(id),
        "create_table" => {
            let content = format!("create {}", body.len());
            store.create_table(id, Some(content))
        }
        "insert_into_table" | "merge_insert_into_table" => {
            let version = store.append(id, format!("insert {}", body.len()))?;
            Ok(Some(
                json!({"num_inserted_rows": body.len(), "version": version}),
            ))
        }
        "health" => Ok(None),
        other => Ok(Some(json!({"operation": other}))),
    }
}
