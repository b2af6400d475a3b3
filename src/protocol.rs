//! The namespace REST contract as pure values: no clock, no socket, no disk.

pub mod batch;
pub mod canonical;
pub mod claims;
pub mod commit;
pub mod context;
pub mod data_scope;
pub mod identifier;
mod json;
pub mod list_scanner;
pub mod location;
pub mod mode;
pub mod name_scanner;
pub mod named_versions;
pub mod operation;
pub mod prefixes;
pub mod principal;
pub mod query;
pub mod rename;
pub mod rewrite;
pub mod shape;
pub mod snapshot;
pub mod trace;
