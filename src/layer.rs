//! The middlewares, one file each.
//!
//! Layers do not know each other: one passes on what it learns in the request's
//! [`RequestContext`](crate::request::context::RequestContext) or [`RequestRecord`](crate::request::RequestRecord).
//! Their order is in [`stack`](crate::stack).
//!
//! A [`guard::Guard`] is a layer that inspects a request and admits or refuses it, as most layers do.

pub mod audit;
pub mod authenticate;
pub mod authorize;
pub mod context;
pub mod guard;
pub mod limits;
pub mod metrics;
pub mod rate;
pub mod recognize;
mod refused;
pub mod rescue;
pub mod share;
pub mod trace;
