//! Page tokens: opaque to clients, and the only state that is kept between two pages.
//!
//! A token is the base64url of a version byte, eight bytes of checksum and the last name of the
//! page. The checksum covers the parameters of the listing, so that a token of another listing is
//! refused in the same way as a garbled one.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

const VERSION: u8 = 1;
const HEAD: usize = 1 + 8;

/// The listing that a token belongs to.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    pub(super) operation: Operation,
    pub(super) level: &'a Identifier,
    pub(super) delimiter: Cow<'a, str>,
}

impl Scope<'_> {
    /// Returns the token of the page that ends with `last`.
    pub(super) fn seal(&self, last: &str) -> String {
        let mut token = Vec::with_capacity(HEAD + last.len());
        token.push(VERSION);
        token.extend(self.check(last).to_be_bytes());
        token.extend(last.as_bytes());
        URL_SAFE_NO_PAD.encode(token)
    }

    /// Returns the last name of the page that ended with this token; 400, code 13, if the token is
    /// not of this listing.
    pub(super) fn open(&self, token: &str) -> Result<String, Error> {
        self.read(token).ok_or_else(|| {
            Error::invalid("`page_token` does not belong to this listing; start again without it")
        })
    }

    fn read(&self, token: &str) -> Option<String> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let (head, last) = token.split_at_checked(HEAD)?;
        let (&version, check) = head.split_first()?;
        let last = std::str::from_utf8(last).ok()?;
        let fits = version == VERSION && check == self.check(last).to_be_bytes();
        fits.then(|| last.to_owned())
    }

    /// Returns the FNV-1a checksum, 64 bits. It detects mistakes; a forged token gains nothing.
    fn check(&self, last: &str) -> u64 {
        let parts = [
            self.operation.name(),
            &self.level.to_string(),
            &self.delimiter,
            last,
        ];
        let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::{Identifier, Operation, Scope};

    #[test]
    fn a_token_is_opened_by_the_listing_that_sealed_it_and_by_no_other() {
        let levels = [
            Identifier::root(),
            Identifier::from_names(["prod"]).unwrap(),
        ];
        let mut scopes = Vec::new();
        for operation in [Operation::ListTables, Operation::ListNamespaces] {
            for level in &levels {
                for delimiter in ["$", "."] {
                    scopes.push(Scope {
                        operation,
                        level,
                        delimiter: delimiter.into(),
                    });
                }
            }
        }
        for last in ["", "a", "caf\u{e9} $/?", &"x".repeat(8000)] {
            for (mine, scope) in scopes.iter().enumerate() {
                let token = scope.seal(last);
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                assert!(token.bytes().all(plain));
                for (theirs, other) in scopes.iter().enumerate() {
                    assert_eq!(other.open(&token).is_ok(), mine == theirs);
                }
                assert_eq!(scope.open(&token).unwrap(), last);
            }
        }
    }

    #[test]
    fn a_garbled_token_is_refused() {
        let level = Identifier::root();
        let scope = Scope {
            operation: Operation::ListAllTables,
            level: &level,
            delimiter: "$".into(),
        };
        let token = scope.seal("prod$t1");
        let mut garbled: Vec<String> = ["", "AQ", "prod$t1", "%%%", "AAAAAAAAAAAA"]
            .map(String::from)
            .to_vec();
        garbled.push(token[1..].to_owned());
        garbled.push(format!("{token}="));
        garbled.push(format!("{token}AA"));
        for place in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            garbled.push(String::from_utf8(bytes).unwrap());
        }
        for token in garbled {
            let error = scope.open(&token).unwrap_err();
            assert_eq!(error.code().number(), 13, "{token}");
        }
    }
}
