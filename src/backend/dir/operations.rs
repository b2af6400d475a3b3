//! Maps each operation to the engine: one line each.

use http::Response;
use lance_core::Result;
use lance_namespace::{LanceNamespace, models};
use lance_namespace_impls::DirectoryNamespace;

use super::answer::{arrow, json, metadata, nothing};
use super::call::{Call, unsupported};
use crate::body::Body;
use crate::protocol::operation::Operation;

/// Builds the request from the body as `$from` says, sets the named parts of the route and the query in it, calls the
/// method, and writes the answer.
macro_rules! operations {
    ($engine:ident $call:ident; $($operation:ident: $from:ident $request:ident [$($field:ident)*] $method:ident $answer:ident;)*) => {
        match $call.operation {
            $(Operation::$operation => {
                let mut request: models::$request = operations!(@read $from $call);
                $(operations!(@put $call request $field);)*
                request.identity = None;
                request.context = $call.context.take();
                let answer = operations!(@ask $from $engine.$method(request, $call.body)).await?;
                Ok($answer($call.operation.success(), answer))
            })*
            Operation::Unlisted(_) | Operation::Snapshot => {
                Err(unsupported("this catalog has no such operation"))
            }
        }
    };
    (@read json $call:ident) => { $call.json()? };
    (@read metadata $call:ident) => {
        models::UpdateTableSchemaMetadataRequest { metadata: Some($call.json()?), ..Default::default() }
    };
    (@read json_if_any $call:ident) => { $call.json_if_any()? };
    (@read nothing $call:ident) => { Default::default() };
    (@read arrow $call:ident) => { Default::default() };
    (@put $call:ident $request:ident id) => { $call.put_id(&mut $request.id)? };
    (@put $call:ident $request:ident index_name) => { $call.put_index_name(&mut $request.index_name)? };
    (@put $call:ident $request:ident $field:ident) => { $call.put(&mut $request.$field, stringify!($field))? };
    (@ask arrow $engine:ident.$method:ident($request:ident, $call:ident.body)) => { $engine.$method($request, $call.body) };
    (@ask $from:ident $engine:ident.$method:ident($request:ident, $call:ident.body)) => { $engine.$method($request) };
}

/// Carries out one operation.
pub(super) async fn carry_out(
    engine: &DirectoryNamespace,
    mut call: Call,
) -> Result<Response<Body>> {
    operations! { engine call;
        // operation: the body, the engine's request, its fields from route and query, its method, the answer
        CreateNamespace: json CreateNamespaceRequest [id] create_namespace json;
        ListNamespaces: nothing ListNamespacesRequest [id page_token limit] list_namespaces json;
        DescribeNamespace: json DescribeNamespaceRequest [id] describe_namespace json;
        DropNamespace: json DropNamespaceRequest [id] drop_namespace json;
        NamespaceExists: json NamespaceExistsRequest [id] namespace_exists nothing;
        ListTables: nothing ListTablesRequest [id page_token limit include_declared] list_tables json;
        ListAllTables: nothing ListTablesRequest [page_token limit include_declared] list_all_tables json;
        RegisterTable: json RegisterTableRequest [id] register_table json;
        DescribeTable: json DescribeTableRequest [id with_table_uri load_detailed_metadata check_declared] describe_table json;
        TableExists: json TableExistsRequest [id] table_exists nothing;
        DropTable: nothing DropTableRequest [id] drop_table json;
        DeregisterTable: json DeregisterTableRequest [id] deregister_table json;
        RestoreTable: json RestoreTableRequest [id] restore_table json;
        RenameTable: json RenameTableRequest [id] rename_table json;
        UpdateTableSchemaMetadata: metadata UpdateTableSchemaMetadataRequest [id branch] update_table_schema_metadata metadata;
        ListTableVersions: nothing ListTableVersionsRequest [id branch page_token limit descending] list_table_versions json;
        CreateTableVersion: json CreateTableVersionRequest [id] create_table_version json;
        DescribeTableVersion: json DescribeTableVersionRequest [id] describe_table_version json;
        BatchDeleteTableVersions: json BatchDeleteTableVersionsRequest [id] batch_delete_table_versions json;
        BatchCreateTableVersions: json BatchCreateTableVersionsRequest [] batch_create_table_versions json;
        BatchCommitTables: json BatchCommitTablesRequest [] batch_commit_tables json;
        AlterTableAlterColumns: json AlterTableAlterColumnsRequest [id] alter_table_alter_columns json;
        UpdateFieldMetadata: json UpdateFieldMetadataRequest [id] update_field_metadata json;
        AlterTableDropColumns: json AlterTableDropColumnsRequest [id] alter_table_drop_columns json;
        GetTableStats: json GetTableStatsRequest [id] get_table_stats json;
        InsertIntoTable: arrow InsertIntoTableRequest [id branch mode] insert_into_table json;
        MergeInsertIntoTable: arrow MergeInsertIntoTableRequest [
            id branch on when_matched_update_all when_matched_update_all_filt when_not_matched_insert_all
            when_not_matched_by_source_delete when_not_matched_by_source_delete_filt timeout use_index
        ] merge_insert_into_table json;
        UpdateTable: json UpdateTableRequest [id] update_table json;
        DeleteFromTable: json DeleteFromTableRequest [id] delete_from_table json;
        QueryTable: json QueryTableRequest [id] query_table arrow;
        CountTableRows: json CountTableRowsRequest [id] count_table_rows json;
        CreateTable: arrow CreateTableRequest [id mode properties storage_options] create_table json;
        ExplainTableQueryPlan: json ExplainTableQueryPlanRequest [id] explain_table_query_plan json;
        AnalyzeTableQueryPlan: json AnalyzeTableQueryPlanRequest [id] analyze_table_query_plan json;
        AlterTableAddColumns: json AlterTableAddColumnsRequest [id] alter_table_add_columns json;
        AlterTableBackfillColumns: json AlterTableBackfillColumnsRequest [id] alter_table_backfill_columns json;
        RefreshMaterializedView: json_if_any RefreshMaterializedViewRequest [id] refresh_materialized_view json;
        CreateMaterializedView: json CreateMaterializedViewRequest [id] create_materialized_view json;
        CreateTableIndex: json CreateTableIndexRequest [id] create_table_index json;
        CreateTableScalarIndex: json CreateTableIndexRequest [id] create_table_scalar_index json;
        ListTableIndices: json_if_any ListTableIndicesRequest [id] list_table_indices json;
        DescribeTableIndexStats: json DescribeTableIndexStatsRequest [id index_name] describe_table_index_stats json;
        DropTableIndex: nothing DropTableIndexRequest [id index_name branch] drop_table_index json;
        ListTableTags: nothing ListTableTagsRequest [id page_token limit] list_table_tags json;
        GetTableTagVersion: json GetTableTagVersionRequest [id] get_table_tag_version json;
        DeclareTable: json DeclareTableRequest [id] declare_table json;
        CreateTableTag: json CreateTableTagRequest [id] create_table_tag json;
        DeleteTableTag: json DeleteTableTagRequest [id] delete_table_tag json;
        UpdateTableTag: json UpdateTableTagRequest [id] update_table_tag json;
        ListTableBranches: nothing ListTableBranchesRequest [id page_token limit] list_table_branches json;
        CreateTableBranch: json CreateTableBranchRequest [id] create_table_branch json;
        DeleteTableBranch: json DeleteTableBranchRequest [id] delete_table_branch json;
        DescribeTransaction: json DescribeTransactionRequest [id] describe_transaction json;
        AlterTransaction: json AlterTransactionRequest [id] alter_transaction json;
    }
}
