//! The set-up that the tests of clients and catalogs that break HTTP on purpose share; they are in the files of its
//! folder.

mod catalogs;
mod chunks;
mod downgrade;
mod floods;
pub mod frame_bytes;
mod framing;
mod headers;
mod lines;
mod no_body;
mod recorder;
mod requests;
mod slow;
pub mod wire;
