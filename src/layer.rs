//! The middlewares, one file each. They do not know each other: what one learns reaches the next in the request's
//! [`Learned`](crate::request::context::RequestContext) or in the [`Exchange`](crate::request::RequestRecord). Their order is in
//! [`stack`](crate::stack).
//!
//! Most of them look at a request and let it in or refuse it: a [`guard::Guard`] each.

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
pub mod trace;
