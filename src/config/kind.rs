//! The kinds of values at a key: single values, and lists, maps and tables of them.

mod amount;
mod compound;
mod header;
mod location;
mod scalar;

pub(super) use amount::{duration, percent, rate, size, whole};
pub(super) use compound::{Shaped, list, map, maybe, shaped, table};
pub(super) use header::{
    bearer, context_key, context_key_name, context_name, forwardable_header, header_prefix,
    header_value, selecting_header, sensitive,
};
pub(super) use location::{
    address, base_uri, collector, file, file_to_write, guarded_uri, health_path, parse_base_uri,
    url_path,
};
pub(crate) use location::{is_plain_http_abroad, without_query};
pub(super) use scalar::{
    Scalar, algorithm, backend_name, choice, flag, name, printable, secret, string_schema, text,
    verbatim,
};
