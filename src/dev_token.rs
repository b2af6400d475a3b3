//! Tokens for trials: a key pair and `jwks.json` in a folder, made once, and signed tokens.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value, json};

const KEY: &str = "dev-key.pkcs8";
const JWKS: &str = "jwks.json";
/// The longest lifetime of a token.
const MAX_TTL: Duration = Duration::from_secs(366 * 24 * 3600);
/// Claims that have an option of their own, or that no option may set.
const OWN: [&str; 7] = ["iss", "aud", "sub", "scope", "exp", "iat", "nbf"];

/// The contents of a token, and the folder of its key.
#[derive(Clone, Debug)]
pub struct DevToken {
    /// The folder of the key pair and of `jwks.json`.
    pub dir: PathBuf,
    /// The claim `iss`.
    pub issuer: String,
    /// The claim `aud`.
    pub audience: String,
    /// The claim `sub`.
    pub subject: String,
    /// The claim `scope`, words separated by spaces; `None` for a token without it.
    pub scope: Option<String>,
    /// Further claims. A value that is JSON is taken as JSON, any other as text.
    pub claims: Vec<(String, String)>,
    /// The lifetime of the token.
    pub ttl: Duration,
}

/// The reason why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum DevTokenError {
    /// A file or folder cannot be read or written.
    #[error("{path}: {cause}")]
    File {
        /// The path of the file or folder.
        path: String,
        /// The error of the system.
        cause: std::io::Error,
    },
    /// The key file does not hold a P-256 key.
    #[error("{0} is not a P-256 key that this command made; remove it, and a new one is made")]
    Key(String),
    /// A claim has an option of its own, or is set by the command.
    #[error("--claim {0}: this claim has an option of its own, or is set by the command")]
    Claim(String),
    /// The lifetime is less than 1 second or more than 366 days.
    #[error("--ttl: a token lives for 1 second to 366 days")]
    Ttl,
    /// The random number generator or the signature failed.
    #[error("the token cannot be signed")]
    Signing,
}

/// Makes the key pair and `jwks.json` if they are missing, and returns a signed token.
///
/// # Errors
/// A file cannot be read or written, or an option has a wrong value.
pub fn run(args: &DevToken) -> Result<String, DevTokenError> {
    if args.ttl < Duration::from_secs(1) || args.ttl > MAX_TTL {
        return Err(DevTokenError::Ttl);
    }
    let claims = claims(args)?;
    let key = key(&args.dir)?;
    let header = json!({ "alg": "ES256", "typ": "JWT", "kid": kid(&key) });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(&header), part(&claims));
    let signature = key
        .sign(&SystemRandom::new(), signed.as_bytes())
        .map_err(|_| DevTokenError::Signing)?;
    Ok(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(signature)))
}

fn claims(args: &DevToken) -> Result<Value, DevTokenError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.map_or(0, |now| now.as_secs());
    let mut claims = Map::new();
    for (name, value) in &args.claims {
        if OWN.contains(&name.as_str()) {
            return Err(DevTokenError::Claim(name.clone()));
        }
        let value = serde_json::from_str(value).unwrap_or_else(|_| value.as_str().into());
        claims.insert(name.clone(), value);
    }
    claims.insert("iss".into(), args.issuer.as_str().into());
    claims.insert("aud".into(), args.audience.as_str().into());
    claims.insert("sub".into(), args.subject.as_str().into());
    claims.insert("iat".into(), now.into());
    claims.insert("exp".into(), (now + args.ttl.as_secs()).into());
    if let Some(scope) = &args.scope {
        claims.insert("scope".into(), scope.as_str().into());
    }
    Ok(Value::Object(claims))
}

/// Reads or makes the key pair of the folder. Writes `jwks.json` if it is missing or differs.
fn key(dir: &Path) -> Result<EcdsaKeyPair, DevTokenError> {
    let path = dir.join(KEY);
    let file = |path: &Path, cause| DevTokenError::File {
        path: path.display().to_string(),
        cause,
    };
    fs::create_dir_all(dir).map_err(|cause| file(dir, cause))?;
    if !path.exists() {
        let made =
            EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        let made = made.map_err(|_| DevTokenError::Signing)?;
        write_secret(&path, made.as_ref()).map_err(|cause| file(&path, cause))?;
    }
    let bytes = fs::read(&path).map_err(|cause| file(&path, cause))?;
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &bytes)
        .map_err(|_| DevTokenError::Key(path.display().to_string()))?;
    let jwks = dir.join(JWKS);
    let expected = format!("{:#}\n", json!({ "keys": [jwk(&key)] }));
    if fs::read_to_string(&jwks).ok().as_ref() != Some(&expected) {
        fs::write(&jwks, expected).map_err(|cause| file(&jwks, cause))?;
    }
    Ok(key)
}

/// Writes a new file that only its owner may read.
fn write_secret(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}

/// Returns the public key as a JWK (RFC 7518, section 6.2).
fn jwk(key: &EcdsaKeyPair) -> Value {
    // SEC 1 uncompressed: 0x04, then x and y of 32 bytes each.
    let (x, y) = key.public_key().as_ref()[1..].split_at(32);
    json!({
        "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": kid(key),
        "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y),
    })
}

/// Returns a key id that is derived from the public key, so that a new key is never taken for an old
/// one.
fn kid(key: &EcdsaKeyPair) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, key.public_key().as_ref());
    format!("dev-{}", URL_SAFE_NO_PAD.encode(&digest.as_ref()[..6]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]
    use super::*;

    fn args(dir: &Path) -> DevToken {
        DevToken {
            dir: dir.to_owned(),
            issuer: "https://dev.test".into(),
            audience: "catalog".into(),
            subject: "ada".into(),
            scope: None,
            claims: vec![
                ("teams".into(), r#"["a"]"#.into()),
                ("n".into(), "x y".into()),
            ],
            ttl: Duration::from_secs(60),
        }
    }

    fn part(token: &str, number: usize) -> Value {
        let part = token.split('.').nth(number).unwrap();
        serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).unwrap()).unwrap()
    }

    #[test]
    fn the_key_pair_is_made_once_and_signs_what_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (
            run(&args(folder.path())).unwrap(),
            run(&args(folder.path())).unwrap(),
        );
        let jwks: Value =
            serde_json::from_slice(&fs::read(folder.path().join(JWKS)).unwrap()).unwrap();
        assert_eq!(part(&one, 0)["kid"], part(&two, 0)["kid"]);
        assert_eq!(part(&one, 0)["kid"], jwks["keys"][0]["kid"]);
        let claims = part(&one, 1);
        assert_eq!(claims["teams"], json!(["a"]));
        assert_eq!(claims["n"], "x y");
        let life = claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap();
        assert_eq!(life, 60);
    }

    #[test]
    fn what_makes_no_sense_is_refused_and_names_the_option() {
        let folder = tempfile::tempdir().unwrap();
        let cases = [
            (
                DevToken {
                    ttl: Duration::ZERO,
                    ..args(folder.path())
                },
                "--ttl",
            ),
            (
                DevToken {
                    claims: vec![("exp".into(), "1".into())],
                    ..args(folder.path())
                },
                "--claim exp",
            ),
        ];
        for (args, expected) in cases {
            assert!(run(&args).unwrap_err().to_string().contains(expected));
        }
        fs::write(folder.path().join(KEY), "something else").unwrap();
        assert!(matches!(
            run(&args(folder.path())),
            Err(DevTokenError::Key(_))
        ));
    }
}
