//! Helpers that know nothing of catalogs or HTTP.

pub(crate) mod bom;
pub(crate) mod budget;
#[cfg(test)]
pub(crate) mod dice;
#[cfg(test)]
pub(crate) mod polls;
pub(crate) mod single_flight;
pub(crate) mod sleep;
pub(crate) mod stable_hash;
pub mod unprintable;
pub(crate) mod wakers;
pub mod worker;
