//! The first byte selects the operation, the rest is the body of a request and of an answer.

use std::collections::BTreeMap;

use bytes::Bytes;
use nsgate::error::Error;
use nsgate::protocol::identifier::Identifier;
use nsgate::protocol::operation::Operation;
use nsgate::protocol::rewrite::{
    Changes, CheckedBody, RequestRoute, ResponseRoute, request, response,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

const OPERATIONS: [Operation; 10] = [
    Operation::DescribeTable,
    Operation::RenameTable,
    Operation::BatchCreateTableVersions,
    Operation::BatchCommitTables,
    Operation::UpdateTableSchemaMetadata,
    Operation::DeclareTable,
    Operation::DropTable,
    Operation::DeregisterTable,
    Operation::DescribeTableIndexStats,
    Operation::ListAllTables,
];

/// An object's members by name, with the bytes of their values.
type Members = BTreeMap<String, Box<RawValue>>;

pub fn check(data: &[u8]) {
    let Some((first, body)) = data.split_first() else {
        return;
    };
    let operation = OPERATIONS[usize::from(*first) % OPERATIONS.len()];
    let body = Bytes::copy_from_slice(body);
    requests(operation, &body);
    for manages in [false, true] {
        answers(operation, &body, manages);
    }
}

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).expect("an identifier")
}

/// Rewrites a request through a mount of `to` at `from`, for a caller that uses `from`.
fn pass(
    operation: Operation,
    from: &[&str],
    to: &[&str],
    body: &Bytes,
    drops: bool,
) -> Result<CheckedBody, Error> {
    let (from, to) = (id(from), id(to));
    let route = from.join("t").expect("an identifier");
    let asked = RequestRoute {
        operation,
        id: Some(&route),
        index_name: Some("i"),
    };
    let locate = |id: &Identifier| match id.rebase(&from, &to) {
        Some(there) => Ok((from != to).then_some(there)),
        None => Err(Error::invalid("another mount")),
    };
    request(asked, body.clone(), locate, |key, _| {
        Ok(!(drops && key == "drop"))
    })
}

fn requests(operation: Operation, body: &Bytes) {
    let kept = pass(operation, &["lab"], &["lab"], body, false);
    let moved = pass(operation, &["lab"], &["x", "y"], body, true);
    // An identifier may become too long by moving it.
    assert!(kept.is_ok() || moved.is_err());
    let (Ok(kept), Ok(moved)) = (kept, moved) else {
        return;
    };
    if operation == Operation::RenameTable && has_others(body) {
        assert!(!has_others(&kept.body) && !has_others(&moved.body));
        return;
    }
    // The route's own text as the only name is taken apart.
    let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
    if said["id"] == json!(["lab$t"]) {
        return;
    }
    if !contains(body, b"identity") {
        assert_eq!(kept.body, body, "nothing had to change");
    }
    unchanged(
        body,
        &moved.body,
        &[
            "id",
            "identity",
            "context",
            "entries",
            "operations",
            "new_namespace_id",
        ],
    );
    let Ok(said) = serde_json::from_slice::<Value>(body) else {
        return;
    };
    assert_eq!(kept.with_details, said["load_detailed_metadata"] == true);
    let there = |from: &[&str], to: &[&str], drops| {
        Oracle {
            operation,
            from,
            to,
            drops,
        }
        .top(said.clone())
    };
    assert_eq!(json(&moved.body), there(&["lab"], &["x", "y"], true));
    // Moving back leads to the original, except for removed members.
    let back =
        pass(operation, &["x", "y"], &["lab"], &moved.body, false).expect("its own spelling");
    assert_eq!(json(&back.body), there(&["lab"], &["lab"], true));
}

/// True if the body of a rename has members that the gateway does not understand; they are removed.
fn has_others(body: &[u8]) -> bool {
    const UNDERSTOOD: [&str; 5] = [
        "id",
        "identity",
        "context",
        "new_namespace_id",
        "new_table_name",
    ];
    let members = serde_json::from_slice::<Members>(body).unwrap_or_default();
    members.keys().any(|name| !UNDERSTOOD.contains(&&**name))
}

fn answers(operation: Operation, body: &Bytes, manages: bool) {
    let (there, here) = (id(&["x", "y"]), id(&["lab"]));
    let answered = ResponseRoute {
        operation,
        asked: &id(&["lab", "n", "t"]),
        there: &id(&["x", "y", "n", "t"]),
    };
    let to_client = |id: &Identifier| id.rebase(&there, &here);
    let changes = Changes {
        manages_versions: manages,
        lacks_credentials: false,
    };
    let answer = response(answered, body, to_client, changes).expect("nothing is left out");
    let stripped = Changes {
        lacks_credentials: true,
        ..changes
    };
    if let Ok(answer) = response(answered, body, to_client, stripped)
        && let Ok(members) = serde_json::from_slice::<Members>(&answer)
        && let Some(credentials) = members.get("storage_options")
    {
        assert_eq!(credentials.get(), "null");
    }
    let fields = operation.response_id_fields();
    let Ok(members) = serde_json::from_slice::<Members>(body) else {
        return;
    };
    let says = manages
        && matches!(
            operation,
            Operation::DescribeTable | Operation::DeclareTable
        );
    let mut governed = fields.to_vec();
    if says {
        governed.push("managed_versioning");
        assert_eq!(answer_members(&answer)["managed_versioning"].get(), "true");
    } else if !fields.iter().any(|field| members.contains_key(*field)) {
        assert_eq!(answer, body, "nothing had to change");
    }
    unchanged(body, &answer, &governed);
    for field in fields {
        let Some(Ok(names)) = members
            .get(*field)
            .map(|raw| serde_json::from_str::<Vec<String>>(raw.get()))
        else {
            continue;
        };
        let Ok(named) = Identifier::from_names(names) else {
            continue;
        };
        let said: Vec<String> =
            serde_json::from_str(answer_members(&answer)[*field].get()).expect("names");
        let said = Identifier::from_names(said).expect("an identifier");
        match to_client(&named) {
            Some(expected) => assert_eq!(said, expected),
            None => assert!(
                said.starts_with(&here),
                "an address of the catalog's: {said:?}"
            ),
        }
    }
}

/// Checks that members that are not governed keep their bytes.
fn unchanged(before: &[u8], after: &[u8], governed: &[&str]) {
    let Ok(before) = serde_json::from_slice::<Members>(before) else {
        return;
    };
    let after = answer_members(after);
    for (name, value) in &before {
        if !governed.contains(&name.as_str()) {
            assert_eq!(value.get(), after[name].get(), "{name}");
        }
    }
    assert!(
        after
            .keys()
            .all(|name| before.contains_key(name) || governed.contains(&name.as_str()))
    );
}

fn answer_members(body: &[u8]) -> Members {
    serde_json::from_slice(body).expect("an object")
}

fn contains(body: &[u8], part: &[u8]) -> bool {
    body.windows(part.len()).any(|window| window == part)
}

fn json(body: &[u8]) -> Value {
    serde_json::from_slice(body).expect("JSON")
}

/// A change of one member of this object.
type Change = fn(&Oracle<'_>, &mut Map<String, Value>);

/// A model that makes the same changes to values instead of bytes.
struct Oracle<'o> {
    operation: Operation,
    from: &'o [&'o str],
    to: &'o [&'o str],
    drops: bool,
}

impl Oracle<'_> {
    fn top(&self, mut said: Value) -> Value {
        let Some(members) = said.as_object_mut() else {
            return said;
        };
        let metadata = self.operation == Operation::UpdateTableSchemaMetadata;
        let governed = |members: &Map<String, Value>, name: &str| {
            members
                .get(name)
                .is_some_and(|value| !(metadata && value.is_string()))
        };
        for (name, change) in self.changes() {
            if governed(members, name) {
                change(self, members);
            }
        }
        said
    }

    fn changes(&self) -> Vec<(&'static str, Change)> {
        let mut changes: Vec<(&'static str, Change)> = vec![
            ("id", |it, members| it.locate(&mut members["id"])),
            ("identity", |_, members| drop(members.remove("identity"))),
            ("context", |it, members| it.context(&mut members["context"])),
        ];
        match self.operation {
            Operation::RenameTable => changes.push(("new_namespace_id", |it, members| {
                it.locate(&mut members["new_namespace_id"]);
            })),
            Operation::BatchCreateTableVersions => changes.push(("entries", |it, members| {
                members["entries"]
                    .as_array_mut()
                    .expect("a list")
                    .iter_mut()
                    .for_each(|entry| it.nested(entry));
            })),
            Operation::BatchCommitTables => changes.push(("operations", |it, members| {
                for operation in members["operations"].as_array_mut().expect("a list") {
                    let actions = operation.as_object_mut().expect("an object").values_mut();
                    actions
                        .filter(|action| !action.is_null())
                        .for_each(|action| it.nested(action));
                }
            })),
            _ => {}
        }
        changes
    }

    fn nested(&self, object: &mut Value) {
        let members = object.as_object_mut().expect("an object");
        self.locate(&mut members["id"]);
        members.remove("identity");
        if let Some(context) = members.get_mut("context") {
            self.context(context);
        }
    }

    fn context(&self, context: &mut Value) {
        if let Some(entries) = context.as_object_mut().filter(|_| self.drops) {
            entries.remove("drop");
        }
    }

    fn locate(&self, names: &mut Value) {
        if let Some(all) = names.as_array() {
            let tail = &all[self.from.len()..];
            *names = json!(
                self.to
                    .iter()
                    .map(|name| json!(name))
                    .chain(tail.iter().cloned())
                    .collect::<Vec<_>>()
            );
        }
    }
}
