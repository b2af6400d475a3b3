//! The checks and changes of JSON bodies: identifiers, `identity`, `context`.
//!
//! A request's body must agree with its route; otherwise a caller could be authorized for one table
//! and act on another. All other content keeps its bytes: unknown fields, the spelling of numbers,
//! white space. A body in which nothing changes is not copied.

mod field;
mod request;
mod response;

pub(super) use field::refuse_resembling;
pub use request::{CheckedBody, RequestRoute, request};
pub use response::{Changes, ResponseRoute, response};
