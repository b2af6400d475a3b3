//! Authentication and authorization: signed tokens, the keys of their issuers, and the rules of access.

pub mod access;
pub mod keys;
pub mod token;
