//! The addresses of a catalog, each in one form, by which the same catalog under another name is found.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use http::{HeaderName, HeaderValue, Uri};

use super::{BackendConfig, DirConfig, Implementation, RestConfig};

/// Parts of the names of headers that carry credentials. Any other header may select a database.
const CREDENTIALS: [&str; 7] = [
    "authorization",
    "cookie",
    "credential",
    "key",
    "password",
    "secret",
    "token",
];

impl BackendConfig {
    /// Returns the addresses of the catalog, that of `uri` or `root` first, then `endpoints`. Two backends that
    /// have one in common lead to one catalog. No address holds a user, a password, a query or the value of a
    /// header.
    pub fn addresses(&self) -> Vec<String> {
        match &self.implementation {
            Implementation::Rest(rest) => rest.addresses(),
            Implementation::Dir(dir) => dir.address().into_iter().collect(),
        }
    }
}

impl RestConfig {
    fn addresses(&self) -> Vec<String> {
        let database = self.database();
        let uris = std::iter::once(&self.uri).chain(&self.endpoints);
        uris.map(|uri| format!("{}{database}", normal(uri)))
            .collect()
    }

    /// Returns a hash of the headers that may select a database at the address; empty if there are none.
    fn database(&self) -> String {
        let mut selecting: Vec<&(HeaderName, HeaderValue)> = self.headers.iter().collect();
        selecting.retain(|(name, _)| !CREDENTIALS.iter().any(|part| name.as_str().contains(part)));
        if selecting.is_empty() {
            return String::new();
        }
        selecting.sort_by_key(|(name, _)| name.as_str());
        let mut hasher = Context::new(&SHA256);
        for (name, value) in selecting {
            for part in [name.as_str().as_bytes(), value.as_bytes()] {
                hasher.update(&(part.len() as u64).to_be_bytes());
                hasher.update(part);
            }
        }
        let mut text = "#".to_owned();
        for byte in &hasher.finish().as_ref()[..16] {
            // Writing to a String cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
        text
    }
}

impl DirConfig {
    fn address(&self) -> Option<String> {
        let root = self.properties.get("root")?;
        let root = Path::new(root.strip_prefix("file://").unwrap_or(root));
        Some(format!("file://{}", canonical(root).display()))
    }
}

/// Returns the scheme, the host in lower case, the port, and the path without a `/` at its end. All names of this
/// machine become one.
fn normal(uri: &Uri) -> String {
    let scheme = uri.scheme_str().unwrap_or("http");
    let host = uri.host().unwrap_or_default().to_ascii_lowercase();
    let host = match host.trim_end_matches('.') {
        "127.0.0.1" | "[::1]" => "localhost",
        host => host,
    };
    let default = if scheme == "https" { 443 } else { 80 };
    let port = uri.port_u16().unwrap_or(default);
    let path = unescaped(uri.path());
    format!("{scheme}://{host}:{port}{}", path.trim_end_matches('/'))
}

/// Returns the path with only the necessary characters percent-encoded, in capitals.
fn unescaped(path: &str) -> String {
    let mut parts = path.split('%');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = part
            .get(..2)
            .map(|code| (code, u8::from_str_radix(code, 16)));
        match code {
            Some((_, Ok(byte)))
                if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') =>
            {
                text.push(char::from(byte));
                text.push_str(&part[2..]);
            }
            Some((code, Ok(_))) => {
                text.push('%');
                text.push_str(&code.to_ascii_uppercase());
                text.push_str(&part[2..]);
            }
            _ => {
                text.push('%');
                text.push_str(part);
            }
        }
    }
    text
}

/// Returns the folder without links, as far as it exists.
fn canonical(folder: &Path) -> PathBuf {
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let found = folder
        .ancestors()
        .find_map(|above| Some((above, above.canonicalize().ok()?)));
    match found {
        Some((above, found)) => match folder.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => found,
            Ok(rest) => found.join(rest),
            Err(_) => folder,
        },
        None => folder,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test says what it expects")]
    use super::*;

    fn rest(uri: &str, headers: &[(&'static str, &'static str)]) -> BackendConfig {
        let mut config = RestConfig::new(uri.parse().unwrap());
        let headers = headers.iter();
        config.headers = headers
            .map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            })
            .collect();
        BackendConfig::new("lake", Implementation::Rest(Box::new(config)))
    }

    fn address(uri: &str) -> String {
        rest(uri, &[]).addresses().remove(0)
    }

    #[test]
    fn one_address_has_one_form() {
        let alike = [
            ["http://Catalog.Example", "http://catalog.example:80/"],
            ["https://catalog.example.", "https://catalog.example:443"],
            ["http://localhost:2333/base/", "http://127.0.0.1:2333/base"],
            ["http://[::1]:2333", "http://LOCALHOST:2333//"],
            ["http://c/%7eteam/a%2fb", "http://c/~team/a%2Fb"],
        ];
        for [one, other] in alike {
            assert_eq!(address(one), address(other));
        }
        let other = [
            ["http://c:1", "http://c:2"],
            ["http://c/a", "http://c/b"],
            ["http://c/a%2Fb", "http://c/a/b"],
            ["http://127.0.0.1:1", "http://127.0.0.2:1"],
        ];
        for [one, other] in other {
            assert_ne!(address(one), address(other));
        }
    }

    #[test]
    fn a_header_selects_a_database_and_a_credential_does_not() {
        let of = |headers: &[_]| rest("http://c", headers).addresses().remove(0);
        let (team, other) = (
            ("x-lancedb-database", "team"),
            ("x-lancedb-database", "lab"),
        );
        assert_ne!(of(&[team]), of(&[other]));
        assert_ne!(of(&[team]), of(&[]));
        for credential in ["authorization", "x-api-key", "x-auth-token", "cookie"] {
            assert_eq!(of(&[(credential, "s3cret"), team]), of(&[team]));
            assert_eq!(of(&[(credential, "s3cret")]), of(&[]));
        }
        assert!(!of(&[team]).contains("team"));
    }

    #[test]
    fn no_password_is_part_of_an_address() {
        let with_user = address("http://user:s3cret@catalog.example/base");
        assert_eq!(with_user, "http://catalog.example:80/base");
    }

    #[cfg(unix)]
    #[test]
    fn a_link_leads_to_the_same_folder_even_where_that_is_not_there_yet() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        let at = |path: &Path| BackendConfig::dir("lab", path.to_str().unwrap()).addresses();
        assert_eq!(at(&real), at(&link));
        assert_eq!(at(&real.join("lab/a")), at(&link.join("lab/a/")));
        let uri = format!("file://{}", link.display());
        assert_eq!(at(&real), at(Path::new(&uri)));
        assert_ne!(at(&real), at(&real.join("lab")));
    }
}
