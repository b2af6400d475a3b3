//! The answers to requests for batches, in the contract's words.

use bytes::Bytes;
use http::{Response, StatusCode};
use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::{Form, operation_of};
use crate::batch::api::outcomes::{BatchAnswer, Outcome};
use crate::batch::step::Refusal;
use crate::body::Body;
use crate::error::Error;
use crate::error::facts::ErrorFacts;
use crate::protocol::commit::CommitOperation;

/// A `BatchCreateTableVersionsResponse`.
#[derive(Serialize)]
struct Versions<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    versions: &'a [Box<RawValue>],
}

/// A `BatchCommitTablesResponse`.
#[derive(Serialize)]
struct Results {
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
    results: Vec<CommitResult>,
}

/// A `CommitTableResult`, with exactly one field set.
#[derive(Default, Serialize)]
struct CommitResult {
    #[serde(skip_serializing_if = "Option::is_none")]
    declare_table: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    create_table_version: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete_table_versions: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    deregister_table: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rename_table: Option<Box<RawValue>>,
}

/// A `RenameTableResponse`.
#[derive(Serialize)]
struct Renamed {
    #[serde(skip_serializing_if = "Option::is_none")]
    transaction_id: Option<String>,
}

/// The part of a `CreateTableVersionResponse` that is needed.
#[derive(Serialize)]
struct Created {
    version: Box<RawValue>,
}

/// A `DeregisterTableResponse`.
#[derive(Serialize)]
struct Deregistered<'a> {
    id: Vec<&'a str>,
    #[serde(flatten)]
    table: Table,
}

/// The description of a table that was deregistered since.
#[derive(Default, Serialize, Deserialize)]
struct Table {
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    properties: Option<Box<RawValue>>,
}

impl Form {
    /// Waits for the batch and returns the answer to its request.
    pub(super) async fn answer(
        self,
        operations: &[CommitOperation],
        outcome: &Outcome,
    ) -> Result<Response<Body>, Error> {
        let answer = outcome.wait().await;
        match &*answer {
            BatchAnswer::Committed(made) => {
                self.committed(operations, Some(outcome.id.to_string()), made)
            }
            BatchAnswer::Refused { refusal, .. } => {
                let error = refusal.clone().into_error();
                let error = match refusal.entry {
                    Some(entry) => self.within(operation_of(operations, entry), error),
                    None => error,
                };
                let facts = self.facts(operations, refusal).unwrap_or_default();
                Err(error.with_facts(ErrorFacts {
                    decided: answer.holds_key(),
                    ..facts
                }))
            }
            BatchAnswer::Unknown => {
                let what = match self {
                    Self::Create | Self::Commit => "batch",
                    Self::Rename => "rename",
                };
                let message = format!(
                    "the {what} is not decided yet; describe its transaction to learn the outcome"
                );
                Err(Error::unavailable(message).with_transaction(outcome.id.to_string()))
            }
        }
    }

    /// Returns the facts of a refusal of one entry, in the client's spelling.
    fn facts(self, operations: &[CommitOperation], refusal: &Refusal) -> Option<ErrorFacts> {
        let locked = refusal.locked;
        let entry = refusal.entry.or(locked.map(|locked| locked.entry))?;
        let index = operation_of(operations, entry);
        let operation = operations.get(index)?;
        let (table, branch, version) = match operation {
            CommitOperation::CreateTableVersion(create) => {
                (&create.id, create.branch.clone(), Some(create.version))
            }
            CommitOperation::DeleteTableVersions(delete) => {
                (&delete.id, delete.branch.clone(), None)
            }
            // The first of its two entries is about the new name.
            CommitOperation::RenameTable(rename)
                if entry == 0 || operation_of(operations, entry - 1) != index =>
            {
                (&rename.new, None, None)
            }
            CommitOperation::DeclareTable(_)
            | CommitOperation::DeregisterTable(_)
            | CommitOperation::RenameTable(_) => (operation.id(), None, None),
        };
        Some(ErrorFacts {
            table: Some(table.names().map(str::to_owned).collect()),
            branch,
            entry: Some(index).filter(|_| self != Self::Rename),
            expected: version.filter(|_| refusal.status == StatusCode::CONFLICT),
            found: refusal.found,
            locked_by: locked.and_then(|locked| Some(locked.by?.to_string())),
            ..ErrorFacts::default()
        })
    }

    /// Returns the answer to a committed batch. `made` has the catalog's description for each entry.
    fn committed(
        self,
        operations: &[CommitOperation],
        transaction_id: Option<String>,
        made: &[Box<RawValue>],
    ) -> Result<Response<Body>, Error> {
        let body = match self {
            Self::Create => to_json(&Versions {
                transaction_id,
                versions: made,
            }),
            Self::Commit => to_json(&Results {
                transaction_id,
                results: results(operations, made)?,
            }),
            Self::Rename => to_json(&Renamed { transaction_id }),
        };
        Ok(json(StatusCode::OK, body?))
    }
}

/// Returns the result of each operation.
fn results(
    operations: &[CommitOperation],
    made: &[Box<RawValue>],
) -> Result<Vec<CommitResult>, Error> {
    let mut rest = made;
    let results = operations.iter().map_while(|operation| {
        let (own, others) = rest.split_at_checked(operation.entries())?;
        rest = others;
        own.last().map(|said| result(operation, said))
    });
    results.collect()
}

/// Returns the result of one operation.
fn result(operation: &CommitOperation, said: &RawValue) -> Result<CommitResult, Error> {
    let value = match operation {
        CommitOperation::DeclareTable(_) => Ok(said.to_owned()),
        CommitOperation::CreateTableVersion(_) => to_raw_value(&Created {
            version: said.to_owned(),
        }),
        CommitOperation::DeleteTableVersions(_) | CommitOperation::RenameTable(_) => {
            to_raw_value(&serde_json::json!({}))
        }
        CommitOperation::DeregisterTable(deregister) => {
            let table: Option<Table> = serde_json::from_str(said.get()).unwrap_or_default();
            to_raw_value(&Deregistered {
                id: deregister.id.names().collect(),
                table: table.unwrap_or_default(),
            })
        }
    };
    Ok(CommitResult::of(operation, value.map_err(unwritable)?))
}

impl CommitResult {
    fn of(operation: &CommitOperation, value: Box<RawValue>) -> Self {
        let (value, mut result) = (Some(value), Self::default());
        match operation {
            CommitOperation::DeclareTable(_) => result.declare_table = value,
            CommitOperation::CreateTableVersion(_) => result.create_table_version = value,
            CommitOperation::DeleteTableVersions(_) => result.delete_table_versions = value,
            CommitOperation::DeregisterTable(_) => result.deregister_table = value,
            CommitOperation::RenameTable(_) => result.rename_table = value,
        }
        result
    }
}

fn to_json(value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(unwritable)
}

fn unwritable(error: serde_json::Error) -> Error {
    Error::internal("the answer cannot be written", error)
}

/// Returns a response with a JSON body.
pub fn json(status: StatusCode, body: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Body::full(body));
    *response.status_mut() = status;
    let json = http::HeaderValue::from_static("application/json");
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, json);
    response
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;
    use crate::protocol::commit;

    #[test]
    fn properties_of_what_was_deregistered_are_told_as_they_were_described() {
        let request = br#"{"operations":[{"deregister_table":{"id":["p","t"]}}]}"#;
        let operations = commit::parse(request, commit::Kinds::Contract, 1);
        let operations = operations.unwrap().operations;
        for properties in [
            r#"{"a":"\u00fc"}"#,
            r#"{"$serde_json::private::RawValue":"{\"owner\":\"me\"}"}"#,
            r#"{"$serde_json::private::RawValue":"no JSON"}"#,
        ] {
            let said = format!(r#"{{"location":"l","properties":{properties}}}"#);
            let said = RawValue::from_string(said).unwrap();
            let written = to_raw_value(&result(&operations[0], &said).unwrap()).unwrap();
            let expected = format!(
                r#"{{"deregister_table":{{"id":["p","t"],"location":"l","properties":{properties}}}}}"#
            );
            assert_eq!(written.get(), expected);
        }
    }
}
