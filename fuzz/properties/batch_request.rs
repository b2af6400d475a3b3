//! The body of a batch-create and of a batch-commit.

use nsgate::protocol::batch::{self, BatchEntry};
use nsgate::protocol::commit::{self, CommitOperation, Kinds};
use nsgate::protocol::identifier::Identifier;
use serde_json::{Value, json};

const MOST: usize = 16;

pub fn check(data: &[u8]) {
    batch(data);
    commits(data);
}

fn batch(data: &[u8]) {
    let Ok(request) = batch::parse(data, MOST) else {
        return;
    };
    assert!((1..=MOST).contains(&request.entries.len()));
    let said = serde_json::from_slice::<Value>(data).ok();
    let said = said
        .as_ref()
        .map(|said| said["entries"].as_array().expect("a list"));
    if let Some(said) = said {
        assert_eq!(said.len(), request.entries.len());
    }
    for (index, entry) in request.entries.iter().enumerate() {
        create(entry, said.map(|said| &said[index]));
        if data.len() > 1 {
            // A limit below the number of entries refuses the batch.
            assert!(batch::parse(data, request.entries.len() - 1).is_err());
        }
        let elsewhere = id(&["else", "where"]);
        let body = entry.body_for(&elsewhere);
        let again = [&b"{\"entries\":["[..], &body, b"]}"].concat();
        let again = batch::parse(&again, 1)
            .expect("its own writing")
            .entries
            .remove(0);
        assert_eq!(fields(&again), fields(entry));
        assert_eq!(again.id, elsewhere);
    }
}

/// Returns the fields of an entry, without its table.
fn fields(entry: &BatchEntry) -> (u64, &str, Option<i64>, [&Option<String>; 3]) {
    let texts = [&entry.e_tag, &entry.naming_scheme, &entry.branch];
    (
        entry.version,
        &entry.manifest_path,
        entry.manifest_size,
        texts,
    )
}

/// Checks that the entry is what any other reader would see.
fn create(entry: &BatchEntry, said: Option<&Value>) {
    assert!(!entry.id.is_root() && !entry.manifest_path.is_empty());
    assert!(i64::try_from(entry.version).is_ok());
    let Some(said) = said else { return };
    let text = |text: &Option<String>| json!(text);
    assert_eq!(said["id"], names(&entry.id));
    assert_eq!(said["version"], entry.version);
    assert_eq!(said["manifest_path"], entry.manifest_path);
    assert_eq!(said["manifest_size"], json!(entry.manifest_size));
    assert_eq!(said["e_tag"], text(&entry.e_tag));
    assert_eq!(said["naming_scheme"], text(&entry.naming_scheme));
    assert_eq!(said["branch"], text(&entry.branch));
    moved(said, &entry.body_for(&id(&["else", "where"])));
}

fn commits(data: &[u8]) {
    let Ok(request) = commit::parse(data, Kinds::Extended, MOST) else {
        return;
    };
    assert!(!request.operations.is_empty());
    let entries = request.operations.iter().map(CommitOperation::entries);
    assert!(entries.sum::<usize>() <= MOST);
    let said = serde_json::from_slice::<Value>(data).ok();
    for (index, operation) in request.operations.iter().enumerate() {
        let said = said
            .as_ref()
            .map(|said| &said["operations"][index][operation.kind()]);
        one(operation, said);
        let elsewhere = id(&["else", "where"]);
        let body = operation.body_for(&elsewhere);
        let body = std::str::from_utf8(&body).expect("UTF-8");
        let again = format!("{{\"operations\":[{{\"{}\":{body}}}]}}", operation.kind());
        let again = commit::parse(again.as_bytes(), Kinds::Extended, MOST)
            .expect("its own writing")
            .operations
            .remove(0);
        assert_eq!(again.kind(), operation.kind());
        assert_eq!(*again.id(), elsewhere);
        assert_eq!(again.body_for(&elsewhere), body);
    }
}

fn one(operation: &CommitOperation, said: Option<&Value>) {
    assert!(!operation.id().is_root());
    if let CommitOperation::CreateTableVersion(entry) = operation {
        create(entry, said);
    }
    if let CommitOperation::DeleteTableVersions(delete) = operation {
        assert!((1..=MOST).contains(&delete.ranges.len()));
        for (index, range) in delete.ranges.iter().enumerate() {
            assert!(
                range.end.is_none_or(|end| range.start < end),
                "an empty range"
            );
            if let Some(said) = said {
                assert_eq!(said["ranges"][index]["start_version"], range.start);
            }
        }
    }
    let Some(said) = said else { return };
    assert_eq!(said["id"], names(operation.id()));
    if let CommitOperation::RenameTable(rename) = operation {
        assert_eq!(said["new_table_name"], json!(rename.new.last()));
        let above = rename.new.parent().expect("a name of a table");
        let own = operation.id().parent().expect("a name of a table");
        let given = &said["new_namespace_id"];
        let expected = if given.is_null() { &own } else { &above };
        assert_eq!(names(&above), names(expected));
        assert!(given.is_null() || *given == names(&above));
        return;
    }
    moved(said, &operation.body_for(&id(&["else", "where"])));
}

/// Checks that only the identifier has changed, and that `identity` and `context` are removed.
fn moved(said: &Value, body: &[u8]) {
    let mut expected = said.clone();
    let members = expected.as_object_mut().expect("an object");
    members.insert("id".to_owned(), json!(["else", "where"]));
    members.remove("identity");
    members.remove("context");
    assert_eq!(
        serde_json::from_slice::<Value>(body).expect("JSON"),
        expected
    );
}

fn id(names: &[&str]) -> Identifier {
    Identifier::from_names(names).expect("an identifier")
}

fn names(id: &Identifier) -> Value {
    id.names().collect()
}
