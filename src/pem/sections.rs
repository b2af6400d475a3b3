//! Reads the sections of a PEM file (RFC 7468): all of them, or none with the line of the one that cannot be read.
//!
//! A section that is passed over in silence is an authority that is missing without anybody's notice. No error holds
//! what the file contains: what is no certificate in the wrong file may be a key.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use memchr::memmem;
use rustls::pki_types::pem::{Error, PemObject as _, SectionKind};

use crate::util::bom;

/// The largest file, in bytes. The authorities of a whole system are 250 KiB.
const MAX_FILE: u64 = 16 << 20;

const DASHES: &str = "-----";

/// Sections beside a key that say how it was made, and are not needed.
const PARAMETERS: [&str; 2] = ["EC PARAMETERS", "DH PARAMETERS"];

/// A section, and its contents.
pub(super) type Section = (SectionKind, Vec<u8>);

/// Reads all sections of `file` that hold a certificate or a private key.
///
/// # Errors
/// The file cannot be read, or a part of it would not be; the error is the end of a sentence about the file.
pub(super) fn read(file: &Path) -> Result<Vec<Section>, String> {
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(|error| format!("cannot be read ({error})"))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err("is larger than 16MiB, which no PEM file needs to be".to_owned());
    }
    sections(bom::without(&bytes))
}

fn sections(bytes: &[u8]) -> Result<Vec<Section>, String> {
    let begins: Vec<usize> = marks(bytes, b"BEGIN ").collect();
    let mut read = Vec::new();
    for (index, &at) in begins.iter().enumerate() {
        let end = begins.get(index + 1).copied().unwrap_or(bytes.len());
        let section = section(bytes, at, end).map_err(|wrong| {
            let line = 1 + memchr::memchr_iter(b'\n', &bytes[..at]).count();
            format!("has in line {line} a section that {wrong}")
        })?;
        read.extend(section);
    }
    let (begun, ended) = (begins.len(), marks(bytes, b"END ").count());
    if begun != ended {
        return Err(format!(
            "has {begun} lines `-----BEGIN …` and {ended} lines `-----END …`; a part of it is missing"
        ));
    }
    Ok(read)
}

/// Returns the places of a word that follows two dashes, or one that is not ASCII. One alone is in names: `FRONT-END`.
fn marks<'a>(bytes: &'a [u8], word: &'a [u8]) -> impl Iterator<Item = usize> + 'a {
    let follows_dash = |at: &usize| {
        let before = &bytes[..*at];
        before.ends_with(b"--") || before.last().is_some_and(|before| !before.is_ascii())
    };
    memmem::find_iter(bytes, word).filter(follows_dash)
}

/// Reads the section whose word BEGIN is at `at`, and which ends before the next one at `end`. Returns nothing for one
/// that is not needed.
fn section(bytes: &[u8], at: usize, end: usize) -> Result<Option<Section>, &'static str> {
    const UNKNOWN: &str =
        "is neither a certificate nor a private key, and would not be used; remove it";
    let is_break = |byte: &u8| matches!(byte, b'\n' | b'\r');
    let start = bytes[..at].iter().rposition(is_break);
    let start = start.map_or(0, |before| before + 1);
    if bytes[start..at] != *DASHES.as_bytes() {
        return Err(
            "does not begin with `-----BEGIN` at the start of a line; put a line break before it, and no space or other character",
        );
    }
    let length = bytes[at..end].iter().position(is_break);
    let line = &bytes[at..length.map_or(end, |length| at + length)];
    let label = line.trim_ascii_end().strip_prefix(b"BEGIN ");
    let label = label.and_then(|rest| rest.strip_suffix(DASHES.as_bytes()));
    let label = str::from_utf8(label.unwrap_or_default()).unwrap_or_default();
    // One line from BEGIN to END: line breaks became spaces, or the two characters `\n`.
    if label.is_empty() || label.contains('-') {
        return Err(
            "has more in the line of `-----BEGIN …-----`; put line breaks where they belong (the two characters `\\n` are none)",
        );
    }
    if PARAMETERS.contains(&label) {
        return Ok(None);
    }
    let lines = &bytes[start..end];
    let is_encrypted = label == "ENCRYPTED PRIVATE KEY"
        || memmem::find(lines, b"Proc-Type: 4,ENCRYPTED").is_some();
    if is_encrypted {
        return Err("is an encrypted key; decrypt it: openssl pkey -in FILE -out NEW");
    }
    match label {
        "TRUSTED CERTIFICATE" | "X509 CERTIFICATE" | "X.509 CERTIFICATE" => {
            return Err(
                "is a certificate under another name than CERTIFICATE, and would not be used; convert it: openssl x509 -in FILE -out NEW",
            );
        }
        "X509 CRL" => {
            return Err("is a list of revoked certificates, which is not used; remove it");
        }
        _ => {}
    }
    match Section::from_pem_slice(lines) {
        Ok(read) if is_used(read.0) => Ok(Some(read)),
        Ok(_) => Err(UNKNOWN),
        Err(Error::NoItemsFound) => Err(UNKNOWN),
        Err(_) => Err("is cut, or not base64 up to its `-----END …-----`; write the whole section"),
    }
}

fn is_used(kind: SectionKind) -> bool {
    use SectionKind as Kind;
    matches!(
        kind,
        Kind::Certificate | Kind::PrivateKey | Kind::RsaPrivateKey | Kind::EcPrivateKey
    )
}
