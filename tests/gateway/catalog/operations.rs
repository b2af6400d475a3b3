//! The contract's operations as this catalog routes them, written independently of the gateway's own table.

use Sends::{Arrow, Json, Nothing, Unknown};

/// The kind of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sends {
    Nothing,
    Json,
    Arrow,
    Unknown,
}

/// Each operation: name, method, path, request body, status of success.
#[rustfmt::skip]
pub const OPERATIONS: [(&str, &str, &str, Sends, u16); 54] = [
    ("create_namespace", "POST", "/v1/namespace/{id}/create", Json, 200),
    ("list_namespaces", "GET", "/v1/namespace/{id}/list", Nothing, 200),
    ("describe_namespace", "POST", "/v1/namespace/{id}/describe", Json, 200),
    ("drop_namespace", "POST", "/v1/namespace/{id}/drop", Json, 200),
    ("namespace_exists", "POST", "/v1/namespace/{id}/exists", Json, 200),
    ("list_tables", "GET", "/v1/namespace/{id}/table/list", Nothing, 200),
    ("list_all_tables", "GET", "/v1/table", Nothing, 200),
    ("register_table", "POST", "/v1/table/{id}/register", Json, 200),
    ("describe_table", "POST", "/v1/table/{id}/describe", Json, 200),
    ("table_exists", "POST", "/v1/table/{id}/exists", Json, 200),
    ("drop_table", "POST", "/v1/table/{id}/drop", Nothing, 200),
    ("deregister_table", "POST", "/v1/table/{id}/deregister", Json, 200),
    ("restore_table", "POST", "/v1/table/{id}/restore", Json, 200),
    ("rename_table", "POST", "/v1/table/{id}/rename", Json, 200),
    ("update_table_schema_metadata", "POST", "/v1/table/{id}/schema_metadata/update", Json, 200),
    ("list_table_versions", "POST", "/v1/table/{id}/version/list", Nothing, 200),
    ("create_table_version", "POST", "/v1/table/{id}/version/create", Json, 200),
    ("describe_table_version", "POST", "/v1/table/{id}/version/describe", Json, 200),
    ("batch_delete_table_versions", "POST", "/v1/table/{id}/version/delete", Json, 200),
    ("batch_create_table_versions", "POST", "/v1/table/version/batch-create", Json, 200),
    ("batch_commit_tables", "POST", "/v1/table/batch-commit", Json, 200),
    ("alter_table_alter_columns", "POST", "/v1/table/{id}/alter_columns", Json, 200),
    ("update_field_metadata", "POST", "/v1/table/{id}/update_field_metadata", Json, 200),
    ("alter_table_drop_columns", "POST", "/v1/table/{id}/drop_columns", Json, 200),
    ("get_table_stats", "POST", "/v1/table/{id}/stats", Json, 200),
    ("insert_into_table", "POST", "/v1/table/{id}/insert", Arrow, 200),
    ("merge_insert_into_table", "POST", "/v1/table/{id}/merge_insert", Arrow, 200),
    ("update_table", "POST", "/v1/table/{id}/update", Json, 200),
    ("delete_from_table", "POST", "/v1/table/{id}/delete", Json, 200),
    ("query_table", "POST", "/v1/table/{id}/query", Json, 200),
    ("count_table_rows", "POST", "/v1/table/{id}/count_rows", Json, 200),
    ("create_table", "POST", "/v1/table/{id}/create", Arrow, 200),
    ("explain_table_query_plan", "POST", "/v1/table/{id}/explain_plan", Json, 200),
    ("analyze_table_query_plan", "POST", "/v1/table/{id}/analyze_plan", Json, 200),
    ("alter_table_add_columns", "POST", "/v1/table/{id}/add_columns", Json, 200),
    ("alter_table_backfill_columns", "POST", "/v1/table/{id}/backfill_column", Json, 202),
    ("refresh_materialized_view", "POST", "/v1/materialized_view/{id}/refresh", Json, 202),
    ("create_materialized_view", "POST", "/v1/materialized_view/{id}/create", Json, 201),
    ("create_table_index", "POST", "/v1/table/{id}/create_index", Json, 200),
    ("create_table_scalar_index", "POST", "/v1/table/{id}/create_scalar_index", Json, 200),
    ("list_table_indices", "POST", "/v1/table/{id}/index/list", Json, 200),
    ("describe_table_index_stats", "POST", "/v1/table/{id}/index/{index_name}/stats", Json, 200),
    ("drop_table_index", "POST", "/v1/table/{id}/index/{index_name}/drop", Nothing, 200),
    ("list_table_tags", "POST", "/v1/table/{id}/tags/list", Nothing, 200),
    ("get_table_tag_version", "POST", "/v1/table/{id}/tags/version", Json, 200),
    ("declare_table", "POST", "/v1/table/{id}/declare", Json, 200),
    ("create_table_tag", "POST", "/v1/table/{id}/tags/create", Json, 200),
    ("delete_table_tag", "POST", "/v1/table/{id}/tags/delete", Json, 200),
    ("update_table_tag", "POST", "/v1/table/{id}/tags/update", Json, 200),
    ("list_table_branches", "POST", "/v1/table/{id}/branches/list", Nothing, 200),
    ("create_table_branch", "POST", "/v1/table/{id}/branches/create", Json, 200),
    ("delete_table_branch", "POST", "/v1/table/{id}/branches/delete", Json, 200),
    ("describe_transaction", "POST", "/v1/transaction/{id}/describe", Json, 200),
    ("alter_transaction", "POST", "/v1/transaction/{id}/alter", Json, 200),
];

/// The result of matching a path.
pub struct Found {
    pub name: &'static str,
    pub sends: Sends,
    pub success: u16,
    /// The `{id}` segment as it is in the path; `None` if the operation has none.
    pub id: Option<String>,
}

/// Finds the operation of a path without its query: `unlisted` if the contract has none, `health` for the
/// root.
pub fn find(method: &str, path: &str) -> Found {
    let path = path.strip_suffix('/').unwrap_or(path);
    let asked: Vec<&str> = path.split('/').collect();
    for (name, verb, template, sends, success) in OPERATIONS {
        let parts: Vec<&str> = template.split('/').collect();
        let fits = |(part, segment): (&&str, &&str)| part.starts_with('{') || part == segment;
        if verb == method && parts.len() == asked.len() && parts.iter().zip(&asked).all(fits) {
            let at = parts.iter().position(|part| *part == "{id}");
            let id = at.map(|at| asked[at].to_owned());
            return Found {
                name,
                sends,
                success,
                id,
            };
        }
    }
    let health = path.is_empty();
    Found {
        name: if health { "health" } else { "unlisted" },
        sends: Unknown,
        success: if health { 404 } else { 200 },
        id: asked.get(3).map(ToString::to_string),
    }
}
