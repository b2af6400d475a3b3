//! A rename between mounts: `prod$a` becomes `far$away$b`, which another mount serves as well. A listing has either the
//! old name or the new ones.

use super::*;
use crate::protocol::data_scope::DataScope;

fn key(backend: usize, names: &[&str]) -> TableKey {
    TableKey {
        scope: DataScope::default(),
        backend: format!("b{backend}").into(),
        table: id(names),
    }
}

/// Returns catalogs that both have their name: one table is already made, the other not yet removed.
fn script() -> Script {
    let tables = |backend, tables: Value| {
        let all = (backend, Operation::ListAllTables, None, 200);
        (all.0, all.1, all.2, all.3, json!({ "tables": tables }))
    };
    Script {
        lines: vec![
            tables(0, json!(["p$a", "p$z"])),
            tables(1, json!(["x$b"])),
            (
                0,
                Operation::ListTables,
                None,
                200,
                json!({"tables": ["a", "z"]}),
            ),
        ],
        ..Script::default()
    }
}

fn renaming(names: &Names) -> (CommitFlag, [TableKey; 2]) {
    let (commit_flag, tables) = (
        CommitFlag::default(),
        [key(0, &["p", "a"]), key(1, &["x", "b"])],
    );
    names.hide_removed(tables[0].clone(), &commit_flag);
    names.hide_made(tables[1].clone(), &commit_flag);
    (commit_flag, tables)
}

async fn all(script: &Script) -> (u16, Value) {
    let (status, body, _) = ask(script, Operation::ListAllTables, &[], "").await;
    (status, body["tables"].clone())
}

#[tokio::test]
async fn names_change_in_one_step() {
    let script = script();
    let (commit_flag, tables) = renaming(&script.names);
    assert_eq!(all(&script).await, (200, json!(["prod$a", "prod$z"])));
    let (_, level, _) = ask(&script, Operation::ListTables, &["prod"], "").await;
    assert_eq!(level, json!({"tables": ["a", "z"]}));
    script.names.reveal(&commit_flag, &tables);
    assert_eq!(
        all(&script).await,
        (200, json!(["far$away$b", "prod$hr$x$b", "prod$z"]))
    );
    let (_, level, _) = ask(&script, Operation::ListTables, &["prod"], "").await;
    assert_eq!(level, json!({"tables": ["z"]}));
    assert_eq!(
        script.asked.lock().unwrap().len(),
        6,
        "nobody was asked again"
    );
}

/// The names change between the answer of one catalog and that of the other.
#[tokio::test]
async fn catalogs_are_asked_again_when_names_change_meanwhile() {
    let mut script = script();
    let (commit_flag, tables) = renaming(&script.names);
    script.meanwhile = Some(Box::new(move |asked, names| {
        if asked == 2 {
            names.reveal(&commit_flag, &tables);
            names.forget(&tables[1], &commit_flag);
        }
    }));
    assert_eq!(
        all(&script).await,
        (200, json!(["far$away$b", "prod$hr$x$b", "prod$z"]))
    );
    assert_eq!(script.asked.lock().unwrap().len(), 4);
}

#[tokio::test]
async fn a_listing_of_what_changes_all_the_time_is_given_up() {
    let mut script = script();
    script.meanwhile = Some(Box::new(|_, names| {
        let (commit_flag, tables) = renaming(names);
        names.reveal(&commit_flag, &tables);
    }));
    assert_eq!(all(&script).await.0, 503);
    assert_eq!(script.asked.lock().unwrap().len(), 2 * ROUNDS);
}

/// Changes elsewhere do not affect the listing of one level.
#[tokio::test]
async fn a_level_is_not_asked_again_for_names_of_others() {
    let mut script = script();
    script.meanwhile = Some(Box::new(|_, names| {
        let (commit_flag, table) = (CommitFlag::default(), key(0, &["p", "below", "c"]));
        names.hide_made(table.clone(), &commit_flag);
        names.gone(&table, &commit_flag);
    }));
    let (status, ..) = ask(&script, Operation::ListTables, &["prod"], "").await;
    assert_eq!(status, 200);
    assert_eq!(script.asked.lock().unwrap().len(), 1);
}
