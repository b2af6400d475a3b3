//! The table of operations, one row each: method, path, read or write, lock, and which fields of its response are
//! identifiers. Those of requests are in `rewrite/request.rs`.

use http::{Method, StatusCode};

use super::{Access, Kind, Lock, Payload};

/// The facts about one operation.
struct Facts {
    name: &'static str,
    method: Option<Method>,
    place: Collection,
    tail: &'static str,
    access: Access,
    request_body: Payload,
    response_body: Payload,
    success: StatusCode,
    response_id_fields: &'static [&'static str],
    lock: Lock,
    data: bool,
}

/// The collection of a path, after `/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Collection {
    /// `/table` itself, without an identifier.
    Tables,
    /// `/namespace/{id}`.
    Namespace,
    /// `/table/{id}`.
    Table,
    /// `/materialized_view/{id}`.
    MaterializedView,
    /// `/transaction/{id}`.
    Transaction,
    /// `/nsgate/v1`, the gateway's own extensions of the contract.
    Extension,
}

impl Collection {
    /// Returns its name in the contract's paths; `None` if it is outside of the contract.
    fn collection(self) -> Option<&'static str> {
        Some(match self {
            Self::Tables | Self::Table => "table",
            Self::Namespace => "namespace",
            Self::MaterializedView => "materialized_view",
            Self::Transaction => "transaction",
            Self::Extension => return None,
        })
    }

    pub(super) fn kind(self) -> Option<Kind> {
        match self {
            Self::Tables | Self::Extension => None,
            Self::Namespace => Some(Kind::Namespace),
            Self::Table => Some(Kind::Table),
            Self::MaterializedView => Some(Kind::MaterializedView),
            Self::Transaction => Some(Kind::Transaction),
        }
    }
}

/// True if the duration of an operation grows with the table's data.
macro_rules! weight {
    (quick) => {
        false
    };
    (data) => {
        true
    };
}

macro_rules! operations {
    ($($variant:ident $name:literal $method:ident $place:ident $tail:literal $access:ident
       $request:ident $response:ident $success:ident
       [$($response_field:literal)*] $lock:ident $weight:ident;)*) => {
        /// An operation of the contract, or one of the same shape that this version does not know.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the contract's own names say it")]
        pub enum Operation {
            $($variant,)*
            /// An operation that is not in the contract as known here; forwarded as a write on the object that `{id}`
            /// names.
            Unlisted(Kind),
            /// The gateway's own extension of the contract: the latest versions of several tables at one moment.
            Snapshot,
        }

        impl Operation {
            /// Every operation of the contract, in the contract's order.
            pub const LISTED: [Self; 54] = [$(Self::$variant,)*];

            #[inline]
            fn facts(self) -> &'static Facts {
                match self {
                    $(Self::$variant => { static FACTS: Facts = Facts {
                        name: $name,
                        method: Some(Method::$method),
                        place: Collection::$place,
                        tail: $tail,
                        access: Access::$access,
                        request_body: Payload::$request,
                        response_body: Payload::$response,
                        success: StatusCode::$success,
                        response_id_fields: &[$($response_field),*],
                        lock: Lock::$lock,
                        data: weight!($weight),
                    }; &FACTS })*
                    Self::Unlisted(kind) => unlisted(kind),
                    Self::Snapshot => &SNAPSHOT,
                }
            }

            /// Returns the operation's index in the contract's order; 54, the count of the listed ones, for all
            /// unlisted ones; extensions follow.
            pub fn number(self) -> usize {
                enum Order { $($variant,)* Unlisted, Snapshot }
                match self {
                    $(Self::$variant => Order::$variant as usize,)*
                    Self::Unlisted(_) => Order::Unlisted as usize,
                    Self::Snapshot => Order::Snapshot as usize,
                }
            }

            /// Returns the operation as a byte; never 0.
            pub(crate) fn byte(self) -> u8 {
                let kind = match self {
                    Self::Unlisted(kind) => kind as usize,
                    Self::Snapshot => Kind::ALL.len() - 1,
                    _ => 0,
                };
                // There are 54 listed operations, four kinds and one extension, so that the sum fits.
                (1 + self.number() + kind) as u8
            }

            /// Returns the operation for a byte from [`Operation::byte`].
            pub(crate) fn from_byte(byte: u8) -> Option<Self> {
                let number = usize::from(byte).checked_sub(1)?;
                if let Some(listed) = Self::LISTED.get(number) {
                    return Some(*listed);
                }
                let number = number - Self::LISTED.len();
                match Kind::ALL.get(number) {
                    Some(kind) => Some(Self::Unlisted(*kind)),
                    None => (number == Kind::ALL.len()).then_some(Self::Snapshot),
                }
            }

            /// Returns the operation whose path has `tail` (no leading slash, parameters as `{name}`) at `place`.
            pub(super) fn at(place: Collection, tail: &str) -> Option<Self> {
                match (place, tail) {
                    $((Collection::$place, $tail) => Some(Self::$variant),)*
                    (Collection::Extension, "snapshot") => Some(Self::Snapshot),
                    _ => None,
                }
            }
        }
    };
}

operations! {
    // The columns are: variant, name, method, place, rest of the path, access, request, response, success, id fields
    // of the response, lock, weight.
    CreateNamespace "create_namespace" POST Namespace "create" Write Json Json OK [] None quick;
    ListNamespaces "list_namespaces" GET Namespace "list" Read None Json OK [] None quick;
    DescribeNamespace "describe_namespace" POST Namespace "describe" Read Json Json OK [] None quick;
    DropNamespace "drop_namespace" POST Namespace "drop" Write Json Json OK [] Namespace quick;
    NamespaceExists "namespace_exists" POST Namespace "exists" Read Json None OK [] None quick;
    ListTables "list_tables" GET Namespace "table/list" Read None Json OK [] None quick;
    ListAllTables "list_all_tables" GET Tables "" Read None Json OK ["tables"] None quick;
    RegisterTable "register_table" POST Table "register" Write Json Json OK [] Shared quick;
    DescribeTable "describe_table" POST Table "describe" Read Json Json OK ["namespace"] None quick;
    TableExists "table_exists" POST Table "exists" Read Json None OK [] None quick;
    DropTable "drop_table" POST Table "drop" Write None Json OK ["id"] Shared quick;
    DeregisterTable "deregister_table" POST Table "deregister" Write Json Json OK ["id"] Shared quick;
    RestoreTable "restore_table" POST Table "restore" Write Json Json OK [] Shared quick;
    RenameTable "rename_table" POST Table "rename" Write Json Json OK [] Shared quick;
    UpdateTableSchemaMetadata "update_table_schema_metadata" POST Table "schema_metadata/update" Write Json Json OK [] Shared quick;
    ListTableVersions "list_table_versions" POST Table "version/list" Read None Json OK [] Versions quick;
    CreateTableVersion "create_table_version" POST Table "version/create" Write Json Json OK [] Shared quick;
    DescribeTableVersion "describe_table_version" POST Table "version/describe" Read Json Json OK [] Versions quick;
    BatchDeleteTableVersions "batch_delete_table_versions" POST Table "version/delete" Write Json Json OK [] Shared quick;
    BatchCreateTableVersions "batch_create_table_versions" POST Tables "version/batch-create" Write Json Json OK [] Batch quick;
    BatchCommitTables "batch_commit_tables" POST Tables "batch-commit" Write Json Json OK [] Batch quick;
    AlterTableAlterColumns "alter_table_alter_columns" POST Table "alter_columns" Write Json Json OK [] Shared data;
    UpdateFieldMetadata "update_field_metadata" POST Table "update_field_metadata" Write Json Json OK [] Shared quick;
    AlterTableDropColumns "alter_table_drop_columns" POST Table "drop_columns" Write Json Json OK [] Shared data;
    GetTableStats "get_table_stats" POST Table "stats" Read Json Json OK [] Shared data;
    InsertIntoTable "insert_into_table" POST Table "insert" Write ArrowStream Json OK [] Shared data;
    MergeInsertIntoTable "merge_insert_into_table" POST Table "merge_insert" Write ArrowStream Json OK [] Shared data;
    UpdateTable "update_table" POST Table "update" Write Json Json OK [] Shared data;
    DeleteFromTable "delete_from_table" POST Table "delete" Write Json Json OK [] Shared data;
    QueryTable "query_table" POST Table "query" Read Json ArrowFile OK [] Shared data;
    CountTableRows "count_table_rows" POST Table "count_rows" Read Json Json OK [] Shared data;
    CreateTable "create_table" POST Table "create" Write ArrowStream Json OK [] Shared data;
    ExplainTableQueryPlan "explain_table_query_plan" POST Table "explain_plan" Read Json Json OK [] Shared data;
    AnalyzeTableQueryPlan "analyze_table_query_plan" POST Table "analyze_plan" Read Json Json OK [] Shared data;
    AlterTableAddColumns "alter_table_add_columns" POST Table "add_columns" Write Json Json OK [] Shared data;
    AlterTableBackfillColumns "alter_table_backfill_columns" POST Table "backfill_column" Write Json Json ACCEPTED [] Shared data;
    RefreshMaterializedView "refresh_materialized_view" POST MaterializedView "refresh" Write Json Json ACCEPTED [] Shared data;
    CreateMaterializedView "create_materialized_view" POST MaterializedView "create" Write Json Json CREATED [] Shared data;
    CreateTableIndex "create_table_index" POST Table "create_index" Write Json Json OK [] Shared data;
    CreateTableScalarIndex "create_table_scalar_index" POST Table "create_scalar_index" Write Json Json OK [] Shared data;
    ListTableIndices "list_table_indices" POST Table "index/list" Read Json Json OK [] Shared quick;
    DescribeTableIndexStats "describe_table_index_stats" POST Table "index/{index_name}/stats" Read Json Json OK [] Shared quick;
    DropTableIndex "drop_table_index" POST Table "index/{index_name}/drop" Write None Json OK [] Shared quick;
    ListTableTags "list_table_tags" POST Table "tags/list" Read None Json OK [] None quick;
    GetTableTagVersion "get_table_tag_version" POST Table "tags/version" Read Json Json OK [] None quick;
    DeclareTable "declare_table" POST Table "declare" Write Json Json OK [] Shared quick;
    CreateTableTag "create_table_tag" POST Table "tags/create" Write Json Json OK [] Shared quick;
    DeleteTableTag "delete_table_tag" POST Table "tags/delete" Write Json Json OK [] Shared quick;
    UpdateTableTag "update_table_tag" POST Table "tags/update" Write Json Json OK [] Shared quick;
    ListTableBranches "list_table_branches" POST Table "branches/list" Read None Json OK [] None quick;
    CreateTableBranch "create_table_branch" POST Table "branches/create" Write Json Json OK [] Shared quick;
    DeleteTableBranch "delete_table_branch" POST Table "branches/delete" Write Json Json OK [] Shared quick;
    DescribeTransaction "describe_transaction" POST Transaction "describe" Read Json Json OK [] None quick;
    AlterTransaction "alter_transaction" POST Transaction "alter" Write Json Json OK [] None quick;
}

static SNAPSHOT: Facts = Facts {
    name: "snapshot",
    method: Some(Method::POST),
    place: Collection::Extension,
    tail: "snapshot",
    access: Access::Read,
    request_body: Payload::Json,
    response_body: Payload::Json,
    success: StatusCode::OK,
    response_id_fields: &["tables"],
    lock: Lock::Versions,
    data: false,
};

/// Returns the facts for an operation that this version does not know: it could be anything, so it is treated as the
/// heaviest of its kind.
fn unlisted(kind: Kind) -> &'static Facts {
    const fn facts(place: Collection, lock: Lock) -> Facts {
        Facts {
            name: "unlisted",
            method: None,
            place,
            tail: "",
            access: Access::Write,
            request_body: Payload::Json,
            response_body: Payload::Json,
            success: StatusCode::OK,
            response_id_fields: &[],
            lock,
            data: true,
        }
    }
    match kind {
        Kind::Namespace => {
            static FACTS: Facts = facts(Collection::Namespace, Lock::Namespace);
            &FACTS
        }
        Kind::Table => {
            static FACTS: Facts = facts(Collection::Table, Lock::Shared);
            &FACTS
        }
        Kind::MaterializedView => {
            static FACTS: Facts = facts(Collection::MaterializedView, Lock::Shared);
            &FACTS
        }
        Kind::Transaction => {
            static FACTS: Facts = facts(Collection::Transaction, Lock::None);
            &FACTS
        }
    }
}

impl Operation {
    /// Returns the contract's name, e.g. `describe_table`; `unlisted` for all others. Suitable for a metric label.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the only method of the operation's route; `None` if any method is accepted.
    pub fn method(self) -> Option<&'static Method> {
        self.facts().method.as_ref()
    }

    /// Returns the path: the collection after `/v1/`, and the part after the identifier (parameters as `{name}`).
    /// `None` for an unlisted operation, whose path is only in its request, and for an extension.
    pub fn route(self) -> Option<(&'static str, &'static str)> {
        let Facts {
            method,
            place,
            tail,
            ..
        } = self.facts();
        method.as_ref()?;
        Some((place.collection()?, *tail))
    }

    /// Returns whether the operation changes anything: only reads may be repeated without harm.
    pub fn access(self) -> Access {
        self.facts().access
    }

    /// Returns the kind of object that `{id}` names; `None` for routes without one.
    pub fn kind(self) -> Option<Kind> {
        self.facts().place.kind()
    }

    /// Returns the type of the body that clients send. JSON for an unlisted operation, whose content type must be
    /// checked.
    pub fn request_body(self) -> Payload {
        self.facts().request_body
    }

    /// Returns the type of a successful answer's body.
    pub fn response_body(self) -> Payload {
        self.facts().response_body
    }

    /// Returns the status of a successful answer.
    pub fn success(self) -> StatusCode {
        self.facts().success
    }

    /// Returns the lock that the operation must hold while the catalog works on it.
    pub fn lock(self) -> Lock {
        self.facts().lock
    }

    /// Returns the fields of the response's body that contain identifiers.
    pub fn response_id_fields(self) -> &'static [&'static str] {
        self.facts().response_id_fields
    }

    /// True if the operation reads or writes rows, so that `data_timeout` limits it and not `response_timeout`.
    pub fn is_data(self) -> bool {
        self.facts().data
    }
}
