#![allow(clippy::unwrap_used, reason = "tests say what they expect")]

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair,
    EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RSA_PKCS1_SHA384,
    RSA_PKCS1_SHA512, RSA_PSS_SHA256, RSA_PSS_SHA384, RSA_PSS_SHA512, RsaKeyPair,
};
use jsonwebtoken::EncodingKey;
use jsonwebtoken::crypto::{self, aws_lc};

use super::*;
use crate::config::ALGORITHMS;

const MESSAGE: &[u8] = b"a message";

/// Returns a key of the algorithm's type, and its signature of the message.
fn signed(algorithm: Algorithm, rsa: &RsaKeyPair) -> (DecodingKey, Vec<u8>) {
    let encoding = match algorithm {
        Algorithm::RS256 => &RSA_PKCS1_SHA256,
        Algorithm::RS384 => &RSA_PKCS1_SHA384,
        Algorithm::RS512 => &RSA_PKCS1_SHA512,
        Algorithm::PS256 => &RSA_PSS_SHA256,
        Algorithm::PS384 => &RSA_PSS_SHA384,
        Algorithm::PS512 => &RSA_PSS_SHA512,
        Algorithm::ES256 => return ec(&ECDSA_P256_SHA256_FIXED_SIGNING),
        Algorithm::ES384 => return ec(&ECDSA_P384_SHA384_FIXED_SIGNING),
        _ => {
            let pair = Ed25519KeyPair::generate().unwrap();
            let key = DecodingKey::from_ed_der(pair.public_key().as_ref());
            return (key, pair.sign(MESSAGE).as_ref().to_vec());
        }
    };
    let mut signature = vec![0; rsa.public_modulus_len()];
    rsa.sign(encoding, &SystemRandom::new(), MESSAGE, &mut signature)
        .unwrap();
    (
        DecodingKey::from_rsa_der(rsa.public_key().as_ref()),
        signature,
    )
}

fn ec(algorithm: &'static EcdsaSigningAlgorithm) -> (DecodingKey, Vec<u8>) {
    let pair = EcdsaKeyPair::generate(algorithm).unwrap();
    let key = DecodingKey::from_ec_der(pair.public_key().as_ref());
    let signature = pair.sign(&SystemRandom::new(), MESSAGE).unwrap();
    (key, signature.as_ref().to_vec())
}

/// Another provider that the process has installed verifies the same.
#[test]
fn signatures_are_judged_as_by_the_provider_of_jsonwebtoken() {
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let all = ALGORITHMS.map(|(_, algorithm)| (algorithm, signed(algorithm, &rsa)));
    for (one, (key, _)) in &all {
        prepare(*one, key).unwrap();
        let judges = [&PROVIDER, &aws_lc::DEFAULT_PROVIDER]
            .map(|provider| (provider.verifier_factory)(one, key).unwrap());
        for (other, (_, signature)) in &all {
            let mut wrong = signature.clone();
            wrong[7] ^= 1;
            let verdicts = judges.each_ref().map(|judge| {
                assert_eq!(judge.algorithm(), *one);
                [
                    judge.verify(MESSAGE, signature).is_ok(),
                    judge.verify(b"another one", signature).is_ok(),
                    judge.verify(MESSAGE, &wrong).is_ok(),
                    judge.verify(MESSAGE, &Vec::new()).is_ok(),
                ]
            });
            let expected = [one == other, false, false, false];
            assert_eq!(verdicts, [expected; 2], "{one:?} {other:?}");
        }
    }
}

#[test]
fn a_key_is_of_one_family_and_no_secret() {
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    for (algorithm, other) in ALGORITHMS.iter().flat_map(|(_, one)| {
        let others = ALGORITHMS.iter().map(|(_, other)| (*one, *other));
        others.filter(|(one, other)| one != other && one.family() != other.family())
    }) {
        let (key, _) = signed(algorithm, &rsa);
        assert!(prepare(other, &key).is_err(), "{algorithm:?} {other:?}");
    }
    let (p384, _) = signed(Algorithm::ES384, &rsa);
    assert!(prepare(Algorithm::ES256, &p384).is_err());
    let public = rsa.public_key().as_ref();
    let bytes = [public, b"secret", b""];
    for algorithm in [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512] {
        for bytes in bytes {
            assert!(prepare(algorithm, &DecodingKey::from_secret(bytes)).is_err());
        }
    }
    assert!(prepare(Algorithm::RS256, &DecodingKey::from_secret(public)).is_err());
    for bytes in [&public[..public.len() - 1], b"secret", b""] {
        assert!(prepare(Algorithm::RS256, &DecodingKey::from_rsa_der(bytes)).is_err());
    }
    let even = DecodingKey::from_rsa_raw_components(&[0xfe; 256], &[1, 0, 1]);
    assert!(prepare(Algorithm::RS256, &even).is_err());
}

/// jsonwebtoken makes such keys of published ones.
#[test]
fn an_rsa_key_may_come_in_its_parts() {
    let rsa = RsaKeyPair::generate(KeySize::Rsa2048).unwrap();
    let (_, signature) = signed(Algorithm::PS384, &rsa);
    let parts = RsaPublicKeyComponents::<Vec<u8>>::from(rsa.public_key());
    let key = DecodingKey::from_rsa_raw_components(&parts.n, &parts.e);
    let found = Parsed::find(Algorithm::PS384, &key).unwrap();
    assert!(found.verify(MESSAGE, &signature).is_ok());
    assert!(found.verify(b"another one", &signature).is_err());
}

#[test]
fn parsed_keys_are_found_again_and_bounded() {
    let pairs: Vec<_> = (0..3 * MOST)
        .map(|_| Ed25519KeyPair::generate().unwrap())
        .collect();
    let key = |pair: &Ed25519KeyPair| DecodingKey::from_ed_der(pair.public_key().as_ref());
    for pair in &pairs {
        let key = key(pair);
        prepare(Algorithm::EdDSA, &key).unwrap();
        let bytes = key.try_get_as_bytes().unwrap();
        assert!(PARSED.get(&Borrowed(Algorithm::RS256, bytes)).is_none());
        assert!(PARSED.len() <= MOST);
    }
    let known = pairs.iter().filter(|pair| {
        let known = Borrowed(Algorithm::EdDSA, pair.public_key().as_ref());
        PARSED.get(&known).is_some()
    });
    assert!((1..=MOST).contains(&known.count()));
    for pair in &pairs {
        let found = Parsed::find(Algorithm::EdDSA, &key(pair)).unwrap();
        let signature = pair.sign(MESSAGE).as_ref().to_vec();
        assert!(found.verify(MESSAGE, &signature).is_ok());
    }
}

/// The provider in force signs nothing; the stock one would sign.
#[test]
fn the_provider_in_force_is_this_one() {
    prepare(
        Algorithm::EdDSA,
        &DecodingKey::from_ed_der(Ed25519KeyPair::generate().unwrap().public_key().as_ref()),
    )
    .unwrap();
    let signed = crypto::sign(MESSAGE, &EncodingKey::from_secret(b"x"), Algorithm::HS256);
    assert_eq!(*signed.unwrap_err().kind(), ErrorKind::UnsupportedAlgorithm);
}
