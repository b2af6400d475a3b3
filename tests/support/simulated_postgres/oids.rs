//! The types of PostgreSQL, by their numbers in its protocol.

pub const BOOL: u32 = 16;
pub const BYTES: u32 = 17;
pub const I64: u32 = 20;
pub const I32: u32 = 23;
pub const TEXT: u32 = 25;
pub const BOOLS: u32 = 1000;
pub const BYTES_LIST: u32 = 1001;
pub const TEXTS: u32 = 1009;
pub const I64S: u32 = 1016;
pub const VOID: u32 = 2278;
pub const UUID: u32 = 2950;
pub const UUIDS: u32 = 2951;
