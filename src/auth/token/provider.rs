//! Verifies the signatures for jsonwebtoken, by aws-lc and with keys that are parsed once.
//!
//! jsonwebtoken asks its provider for a verifier with every token, and its own providers then parse the key again, which
//! costs as much as half of the signature. This provider finds the parsed key by its bytes.

use std::hash::Hash;
use std::sync::{Arc, LazyLock};

use aws_lc_rs::digest::{self, SHA256, SHA384, SHA512};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, ParsedPublicKey,
    RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512,
    RSA_PSS_2048_8192_SHA256, RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
    RsaPublicKeyComponents, VerificationAlgorithm,
};
use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{self, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use quick_cache::Equivalent;
use quick_cache::sync::Cache;

/// The number of parsed keys that are kept, at about 2 KiB each. A key that is not kept is parsed with every token.
const MOST: usize = 1024;

/// The parsed keys, by algorithm and bytes. They are published by issuers, so strangers cannot fill it.
static PARSED: LazyLock<Cache<Material, Arc<ParsedPublicKey>>> = LazyLock::new(|| Cache::new(MOST));

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| Ok(Box::new(Parsed::find(*algorithm, key)?)),
    key_utils: KeyUtils::new_unimplemented(),
};

type Material = (Algorithm, Box<[u8]>);

#[derive(Hash)]
struct Borrowed<'a>(Algorithm, &'a [u8]);

impl Equivalent<Material> for Borrowed<'_> {
    fn equivalent(&self, (algorithm, bytes): &Material) -> bool {
        self.0 == *algorithm && *self.1 == **bytes
    }
}

/// A parsed key for one algorithm.
struct Parsed {
    algorithm: Algorithm,
    key: Arc<ParsedPublicKey>,
}

/// Parses a key before its first signature, and installs this provider. If the process has installed another one before,
/// that one verifies: with the same result, only slower.
pub(super) fn prepare(algorithm: Algorithm, key: &DecodingKey) -> Result<(), Error> {
    // This fails if it was done before.
    let _ = PROVIDER.install_default();
    Parsed::find(algorithm, key).map(drop)
}

/// Makes an RSA key of its modulus and exponent. Its bytes are DER.
pub(super) fn rsa(n: &[u8], e: &[u8]) -> Result<DecodingKey, Error> {
    let key = RsaPublicKeyComponents { n, e };
    // The DER is the same for each algorithm.
    let key = key.to_parsed_public_key(&RSA_PKCS1_2048_8192_SHA256);
    let key = key.map_err(|_| ErrorKind::InvalidKeyFormat)?;
    Ok(DecodingKey::from_rsa_der(key.as_ref()))
}

impl Parsed {
    fn find(algorithm: Algorithm, key: &DecodingKey) -> Result<Self, Error> {
        let kind = kind(algorithm).ok_or(ErrorKind::UnsupportedAlgorithm)?;
        if key.family() != algorithm.family() {
            return Err(ErrorKind::InvalidAlgorithm.into());
        }
        let bytes = match key.kind() {
            DecodingKeyKind::SecretOrDer(bytes) => &**bytes,
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                return Self::find(algorithm, &rsa(n, e)?);
            }
        };
        if let Some(key) = PARSED.get(&Borrowed(algorithm, bytes)) {
            return Ok(Self { algorithm, key });
        }
        let key = ParsedPublicKey::new(kind, bytes).map_err(|_| ErrorKind::InvalidKeyFormat)?;
        let key = Arc::new(key);
        PARSED.insert((algorithm, bytes.into()), Arc::clone(&key));
        Ok(Self { algorithm, key })
    }
}

impl Verifier<Vec<u8>> for Parsed {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), signature::Error> {
        use Algorithm::{ES256, ES384, PS256, PS384, PS512, RS256, RS384, RS512};
        let digest = match self.algorithm {
            RS256 | PS256 | ES256 => Some(&SHA256),
            RS384 | PS384 | ES384 => Some(&SHA384),
            RS512 | PS512 => Some(&SHA512),
            // EdDSA signs the message itself.
            _ => None,
        };
        let verified = match digest {
            // A digest that is made here stays on the stack. The library's own uses contexts that it allocates and
            // copies.
            Some(digest) => {
                let digest = digest::digest(digest, message);
                self.key.verify_digest_sig(&digest, signature)
            }
            None => self.key.verify_sig(message, signature),
        };
        verified.map_err(|_| signature::Error::new())
    }
}

impl JwtVerifier for Parsed {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

/// Returns aws-lc's name of an algorithm; `None` if it needs a secret that is shared with the issuer, or is unknown.
fn kind(algorithm: Algorithm) -> Option<&'static dyn VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &RSA_PSS_2048_8192_SHA512,
        Algorithm::ES256 => &ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &ED25519,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
