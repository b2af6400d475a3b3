//! Clients and catalogs that break HTTP on purpose are refused or harmless, and others are not affected.

mod catalogs;
mod chunks;
mod downgrade;
mod floods;
mod frame_bytes;
mod framing;
mod headers;
mod lines;
mod recorder;
mod requests;
mod slow;
pub mod wire;
