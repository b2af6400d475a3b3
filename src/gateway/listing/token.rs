//! Page tokens: opaque to clients, and the only state that is kept between two pages.
//!
//! A token is the base64url of a version byte, eight bytes of checksum and the position after the page. The checksum
//! covers the parameters of the listing, so that a token of another listing is refused in the same way as a garbled
//! one. A catalog's own page token is part of the position, and can contain a name. So the position of a caller who may
//! not see every name is encrypted, and its length is rounded up; such a caller cannot make one up. Gateways that share a batch log derive the key from the log's random id, so that each
//! reads the tokens of the others. Any other key is this process's own: after a restart its tokens are refused.

use std::borrow::Cow;
use std::sync::OnceLock;

use aws_lc_rs::aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey};
use aws_lc_rs::digest::{Context as Hasher, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Error;
use crate::protocol::identifier::Identifier;
use crate::protocol::operation::Operation;

/// The version byte of a token that can be read by everybody.
const PLAIN: u8 = 2;
/// The version byte of an encrypted token.
const SEALED: u8 = 3;
const KEY_BYTES: usize = 32;
/// The length of an encrypted position is a multiple of this, in bytes: the length of a name cannot be told from it.
const BLOCK: usize = 256;

/// The listing that a token belongs to.
#[derive(Clone, Debug)]
pub(super) struct Scope<'a> {
    pub(super) operation: Operation,
    pub(super) level: &'a Identifier,
    pub(super) delimiter: Cow<'a, str>,
    /// The id of the batch log that this gateway shares with others; `None` if there is none, or it is not known yet.
    pub(super) log: Option<Uuid>,
}

/// The position between two names of a listing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// The key of the segment.
    #[serde(rename = "s")]
    pub(super) segment: String,
    /// The position in the segment's catalog.
    #[serde(flatten)]
    pub(super) place: Place,
}

/// The position between two names of one catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    /// The catalog's token of the page; `None` for its first page.
    #[serde(rename = "t", default, skip_serializing_if = "Option::is_none")]
    pub(super) token: Option<String>,
    /// The name of that page after which the position is; `None` if it is before the page.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    pub(super) last: Option<String>,
    /// The `limit` with which that page was requested.
    #[serde(rename = "l", default, skip_serializing_if = "Option::is_none")]
    pub(super) limit: Option<usize>,
    /// True if the catalog ignored the limit. Then its names are sorted before they are counted.
    #[serde(rename = "o", default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) is_sorted: bool,
}

impl Scope<'_> {
    /// Returns the token of `position`; encrypted if `is_secret`. Fails if the system has no random numbers.
    pub(super) fn seal(&self, position: &Position, is_secret: bool) -> Result<String, Error> {
        let mut text = serde_json::to_vec(position).expect("strings can be written as JSON");
        let token = if is_secret {
            text.resize(text.len().next_multiple_of(BLOCK), b' ');
            let sealed = self.encrypt(&text);
            sealed.ok_or_else(|| Error::unavailable("there is no key for `page_token`"))?
        } else {
            let check = self.check(&text).to_be_bytes();
            [&[PLAIN], &check[..], &text].concat()
        };
        Ok(URL_SAFE_NO_PAD.encode(token))
    }

    /// Returns the position of a token; 400, code 13, if the token is not of this listing. `is_secret`: only an encrypted
    /// one is taken.
    pub(super) fn open(&self, token: &str, is_secret: bool) -> Result<Position, Error> {
        self.read(token, is_secret).ok_or_else(|| {
            Error::invalid("`page_token` does not belong to this listing; start again without it")
        })
    }

    fn read(&self, token: &str, is_secret: bool) -> Option<Position> {
        let token = URL_SAFE_NO_PAD.decode(token).ok()?;
        let text = match token.split_first()? {
            (&PLAIN, rest) if !is_secret => {
                let (check, text) = rest.split_first_chunk()?;
                (*check == self.check(text).to_be_bytes()).then(|| text.to_vec())?
            }
            (&SEALED, rest) => self.decrypt(rest)?,
            _ => return None,
        };
        serde_json::from_slice(&text).ok()
    }

    /// Returns a sealed token; `None` if the process has no key.
    fn encrypt(&self, text: &[u8]) -> Option<Vec<u8>> {
        let mut sealed = text.to_vec();
        let aad = Aad::from(self.check(b"").to_be_bytes());
        let seal = |key: &RandomizedNonceKey, sealed: &mut Vec<u8>| {
            key.seal_in_place_append_tag(aad, sealed).ok()
        };
        let nonce = match self.log {
            Some(log) => seal(&key_of(log)?, &mut sealed)?,
            None => seal(own_key()?, &mut sealed)?,
        };
        Some([&[SEALED], &nonce.as_ref()[..], &sealed].concat())
    }

    fn decrypt(&self, sealed: &[u8]) -> Option<Vec<u8>> {
        let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
        let open = |key: &RandomizedNonceKey| {
            let mut text = sealed.to_vec();
            let aad = Aad::from(self.check(b"").to_be_bytes());
            let nonce = Nonce::assume_unique_for_key(*nonce);
            let length = key.open_in_place(nonce, aad, &mut text).ok()?.len();
            text.truncate(length);
            Some(text)
        };
        let shared = self.log.and_then(key_of);
        // It may be from before this gateway knew the log.
        shared.as_ref().and_then(open).or_else(|| open(own_key()?))
    }

    /// Returns the FNV-1a checksum, 64 bits. It detects mistakes; who may see every name gains nothing by a forged token.
    fn check(&self, text: &[u8]) -> u64 {
        let parts = [
            self.operation.name().as_bytes(),
            self.level.to_string().as_bytes(),
            self.delimiter.as_bytes(),
            text,
        ]
        .map(<[u8]>::to_vec);
        let bytes = parts.iter().flat_map(|part| part.iter().chain(&[0]));
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        })
    }
}

/// Returns the key of the gateways that share a batch log.
fn key_of(log: Uuid) -> Option<RandomizedNonceKey> {
    let mut hasher = Hasher::new(&SHA256);
    hasher.update(b"nsgate page token");
    hasher.update(log.as_bytes());
    RandomizedNonceKey::new(&AES_256_GCM, hasher.finish().as_ref()).ok()
}

/// Returns the key of this process; `None` if the system has no random numbers.
fn own_key() -> Option<&'static RandomizedNonceKey> {
    static KEY: OnceLock<Option<RandomizedNonceKey>> = OnceLock::new();
    let new = || {
        let mut bytes = [0; KEY_BYTES];
        aws_lc_rs::rand::fill(&mut bytes).ok()?;
        RandomizedNonceKey::new(&AES_256_GCM, &bytes).ok()
    };
    KEY.get_or_init(new).as_ref()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::*;

    fn position(last: &str) -> Position {
        Position {
            segment: "prod".to_owned(),
            place: Place {
                token: Some("of-the-catalog".to_owned()),
                last: Some(last.to_owned()),
                limit: Some(10),
                is_sorted: true,
            },
        }
    }

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
                        log: None,
                    });
                }
            }
        }
        let lasts = ["", "a", "caf\u{e9} $/?", &"x".repeat(8000)];
        for (last, is_secret) in lasts.iter().flat_map(|last| [(last, false), (last, true)]) {
            let position = position(last);
            for (mine, scope) in scopes.iter().enumerate() {
                let token = scope.seal(&position, is_secret).unwrap();
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
                assert!(token.bytes().all(plain));
                for (theirs, other) in scopes.iter().enumerate() {
                    assert_eq!(other.open(&token, is_secret).is_ok(), mine == theirs);
                    assert_eq!(other.open(&token, false).is_ok(), mine == theirs);
                    assert!(
                        is_secret || other.open(&token, true).is_err(),
                        "anybody can make one"
                    );
                }
                assert_eq!(scope.open(&token, is_secret).unwrap(), position);
                let bytes = URL_SAFE_NO_PAD.decode(&token).unwrap();
                let is_shown = String::from_utf8_lossy(&bytes).contains("of-the-catalog");
                assert_eq!(is_shown, !is_secret);
            }
        }
    }

    /// Each `Scope` stands for a gateway; those of this test have one process in common, and so its own key.
    #[test]
    fn gateways_that_share_a_log_open_each_others_tokens() {
        let level = Identifier::root();
        let with = |log: Option<u128>| Scope {
            operation: Operation::ListTables,
            level: &level,
            delimiter: "$".into(),
            log: log.map(Uuid::from_u128),
        };
        let position = position("t");
        let sealed = with(Some(1)).seal(&position, true).unwrap();
        assert_eq!(with(Some(1)).open(&sealed, true).unwrap(), position);
        for other in [None, Some(2)] {
            assert!(with(other).open(&sealed, true).is_err());
        }
        let before = with(None).seal(&position, true).unwrap();
        assert_eq!(with(Some(1)).open(&before, true).unwrap(), position);
    }

    #[test]
    fn the_length_of_a_secret_token_says_nothing_of_a_name() {
        let level = Identifier::root();
        let scope = Scope {
            operation: Operation::ListTables,
            level: &level,
            delimiter: "$".into(),
            log: None,
        };
        let length = |last: &str| scope.seal(&position(last), true).unwrap().len();
        let shortest = length("");
        for count in 1..100 {
            assert_eq!(length(&"x".repeat(count)), shortest);
        }
    }

    #[test]
    fn a_garbled_token_is_refused() {
        let level = Identifier::root();
        let scope = Scope {
            operation: Operation::ListAllTables,
            level: &level,
            delimiter: "$".into(),
            log: None,
        };
        for is_secret in [false, true] {
            refuses_garbled(
                &scope,
                &scope.seal(&position("prod$t1"), is_secret).unwrap(),
            );
        }
    }

    fn refuses_garbled(scope: &Scope<'_>, token: &str) {
        let mut garbled: Vec<String> = ["", "AQ", "prod$t1", "%%%", "AAAAAAAAAAAA"]
            .map(String::from)
            .to_vec();
        garbled.push(token[1..].to_owned());
        garbled.push(format!("{token}="));
        garbled.push(format!("{token}AA"));
        for place in 0..token.len() {
            let mut bytes = token.to_owned().into_bytes();
            bytes[place] = if bytes[place] == b'A' { b'B' } else { b'A' };
            garbled.push(String::from_utf8(bytes).unwrap());
        }
        for token in garbled {
            let error = scope.open(&token, false).unwrap_err();
            assert_eq!(error.code().number(), 13, "{token}");
        }
    }
}
