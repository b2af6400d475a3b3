//! The messages of a server, and the rows in them.

use bytes::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::functions::Raised;

/// The rows of an answer, as the protocol has them.
pub struct Rows<'a> {
    pub columns: &'static [u32],
    pub out: &'a mut BytesMut,
    /// The time that passes while the clock of the client shows a second, in thousandths.
    pub pace: i64,
}

impl Rows<'_> {
    /// Adds a row. It has as many values as the statement has columns.
    pub(super) fn add(&mut self, values: &[&(dyn ToSql + Sync)]) {
        assert_eq!(values.len(), self.columns.len(), "a value for each column");
        message(self.out, b'D', |out| {
            let count = u16::try_from(values.len()).expect("a count");
            out.extend_from_slice(&count.to_be_bytes());
            for (value, oid) in values.iter().zip(self.columns) {
                put(out, *value, *oid);
            }
        });
    }

    /// Adds the only row.
    #[allow(clippy::unnecessary_wraps, reason = "the answer of a statement")]
    pub(super) fn only(&mut self, values: &[&(dyn ToSql + Sync)]) -> Result<(), Raised> {
        self.add(values);
        Ok(())
    }
}

/// Writes a value and its length before it.
fn put(out: &mut BytesMut, value: &(dyn ToSql + Sync), oid: u32) {
    let begins = out.len();
    out.extend_from_slice(&(-1_i32).to_be_bytes());
    let type_ = Type::from_oid(oid).expect("a type that is built in");
    let is_null = match type_ {
        Type::VOID => IsNull::No,
        _ => value
            .to_sql_checked(&type_, out)
            .expect("a value of its type"),
    };
    if let IsNull::No = is_null {
        let length = i32::try_from(out.len() - begins - 4).expect("a length");
        out[begins..begins + 4].copy_from_slice(&length.to_be_bytes());
    }
}

/// Writes a message and its length before it.
pub(super) fn message(out: &mut BytesMut, tag: u8, body: impl FnOnce(&mut BytesMut)) {
    out.extend_from_slice(&[tag, 0, 0, 0, 0]);
    let begins = out.len() - 4;
    body(out);
    let length = i32::try_from(out.len() - begins).expect("a length");
    out[begins..begins + 4].copy_from_slice(&length.to_be_bytes());
}
