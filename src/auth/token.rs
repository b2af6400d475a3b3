//! The verification of signed tokens (JWT, RFC 7519): pure, with the time given by the caller.
//!
//! A token is parsed into an [`UnverifiedToken`], matched to its issuer by `iss`, and to a [`Key`] by the header's
//! `kid` and `alg`. Only after its signature was verified does the issuer's [`Policy`] judge its claims. A header's
//! statements about itself are never trusted: the issuer's list and the key decide (RFC 8725).

mod bearer;
mod claimed;
mod claims;
mod compact;
mod header;
mod headers;
mod json;
mod jwk;
mod key;
mod policy;
mod provider;
mod refusal;

pub use bearer::bearer;
pub use claimed::claimed;
pub use compact::{MAX_BYTES, UnverifiedToken};
pub use headers::Headers;
pub use jsonwebtoken::Header;
pub use jwk::{Jwk, JwkError};
pub use key::Key;
pub use policy::{Policy, VerifiedToken};
pub use refusal::Refusal;
