//! The middlewares, one file each. They do not know each other: what one learns reaches the next in the request's
//! [`Learned`](crate::exchange::learned::Learned) or in the [`Exchange`](crate::exchange::Exchange). Their order is in
//! [`stack`](crate::stack).

pub mod authenticate;
pub mod authorize;
pub mod context;
pub mod limits;
pub mod metrics;
pub mod rate;
pub mod recognize;
mod refused;
pub mod rescue;
pub mod trace;
