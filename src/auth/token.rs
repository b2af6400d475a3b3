//! Whether a signed token (JWT, RFC 7519) is good: pure, with the time given by the caller.
//!
//! A token goes from text to [`UnverifiedToken`], is matched to its issuer by `iss`, to a [`Key`] by the header's `kid`
//! and `alg`, and only after its signature was verified are its claims judged by the issuer's [`Policy`].
//! What a header claims about itself is never more than a wish: the issuer's list and the key decide (RFC 8725).

mod bearer;
mod claims;
mod compact;
mod header;
mod headers;
mod json;
mod jwk;
mod key;
mod policy;
mod refusal;

pub use bearer::bearer;
pub use compact::{MAX_BYTES, UnverifiedToken};
pub use header::Header;
pub use headers::Headers;
pub use jwk::{Jwk, JwkError};
pub use key::Key;
pub use policy::{Policy, VerifiedToken};
pub use refusal::Refusal;
