//! Mixed batches that contradict themselves or the catalogs: refused before anything is done.

use super::*;

#[tokio::test]
async fn what_cannot_be_done_is_refused_before_anything_is() {
    let world = seeded("").await;
    let east = || create(&json!({"id": ["east", "t1"], "version": 4, "manifest_path": "x"}));
    let version = |version: u64| {
        create(&json!({"id": ["west", "t1"], "version": version, "manifest_path": "x"}))
    };
    let cases = [
        (
            vec![declare("west", "t1"), east()],
            409,
            5,
            "operations[0]: table west$t1 already exists",
        ),
        (
            vec![east(), deregister("west", "none")],
            404,
            4,
            "operations[1]: table west$none does not exist",
        ),
        (
            vec![east(), declare("north", "t1")],
            404,
            4,
            "operations[1]: table north$t1 is not served here",
        ),
        (
            vec![east(), delete("west", "t1", 1, 4)],
            409,
            14,
            "operations[1]: versions 1 to 4 cannot be deleted",
        ),
        (
            vec![
                delete("west", "t1", 1, 2),
                delete("west", "t1", 2, 9),
                east(),
            ],
            409,
            14,
            "operations[1]: versions 2 to 9",
        ),
        (
            vec![delete("west", "t1", 0, -1), east()],
            400,
            13,
            "operations[0]: `delete_table_versions.ranges[0].end_version`: -1",
        ),
        (
            vec![declare("west", "n"), east(), declare("west", "n")],
            400,
            13,
            "operations[2] contradicts operations[0]: the table is declared there",
        ),
        (
            vec![declare("west", "old"), deregister("west", "old")],
            400,
            13,
            "operations[1] contradicts operations[0]: a table that is deregistered",
        ),
        (
            vec![deregister("west", "t1"), version(4)],
            400,
            13,
            "operations[1] contradicts operations[0]",
        ),
        (
            vec![deregister("west", "old"), deregister("west", "old")],
            400,
            13,
            "operations[1] contradicts operations[0]",
        ),
        (
            vec![declare("west", "n"), delete("west", "n", 1, 2)],
            400,
            13,
            "operations[1] contradicts operations[0]: a table that the batch declares",
        ),
        (
            vec![delete("west", "t1", 1, 3), delete("west", "t1", 2, 3)],
            400,
            13,
            "operations[1] contradicts operations[0]: version 2 is deleted there",
        ),
        (
            vec![delete("west", "t1", 1, 5), version(4)],
            400,
            13,
            "operations[1] contradicts operations[0]: version 4, which",
        ),
        (
            vec![version(4), version(4)],
            400,
            13,
            "operations[1]: version 4 of this table is in operations[0] already",
        ),
        (
            vec![
                declare("west", "n"),
                create(&json!({"id": ["west", "n"], "version": 2, "manifest_path": "x"})),
            ],
            400,
            13,
            "operations[1]: version 2 does not follow version 0 of operations[0]",
        ),
        (
            vec![json!({"declare_table": {"id": []}})],
            400,
            13,
            "operations[0].declare_table.id",
        ),
    ];
    for (operations, status, code, words) in cases {
        let reply = commit(&world, &operations).await;
        assert_eq!(
            reply.outcome(),
            (status, Some(code)),
            "{operations:?}: {reply:?}"
        );
        assert!(reply.words().contains(words), "{words}: {reply:?}");
    }
    let writes = [
        "declare_table",
        "create_table_version",
        "deregister_table",
        "batch_delete_table_versions",
    ];
    for write in writes {
        for name in ["west", "east"] {
            assert!(
                world.catalog(name).seen_of(write).is_empty(),
                "{write} in {name}"
            );
        }
    }
}
