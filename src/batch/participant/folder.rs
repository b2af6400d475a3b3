//! The folder of a table, as the paths of its manifests show it. A name may have been given to another table since a
//! change was staged: with the same number of versions, only the folder tells.

use percent_encoding::percent_decode_str;
use serde::Deserialize;

use crate::batch::plan::Entry;
use crate::batch::step::Refusal;

/// The folder in which Lance keeps the manifests of a table, the staged ones too. Their data is found relative to the
/// folder around it.
const VERSIONS: &str = "/_versions/";

/// Refuses (409) an entry whose manifest was staged for another table than the one that has its name now. `latest` is the
/// path of the manifest of the table's latest version.
pub(super) fn check(entry: &Entry, latest: &str) -> Result<(), Refusal> {
    #[derive(Deserialize)]
    struct Request {
        manifest_path: String,
    }
    let request: Result<Request, _> = serde_json::from_slice(&entry.body);
    let staged = request.ok().map(|request| request.manifest_path);
    let branch = entry.line.branch.as_deref();
    let of = |manifest| folder(manifest, branch);
    match (staged.as_deref().and_then(of), of(latest)) {
        (Some(of), Some(now)) if of != now => Err(Refusal::conflict(format!(
            "the version was staged for the table in folder `{of}`, and the table of this name is in `{now}`: the name was given to another table since; open the table again and begin again"
        ))),
        _ => Ok(()),
    }
}

/// Returns the last name of the folder of a table, by the path of a manifest of its branch; `None` if the path is not as
/// Lance makes them. What is before it differs between a catalog and its clients, where storage is mounted elsewhere.
fn folder(manifest: &str, branch: Option<&str>) -> Option<String> {
    let (folder, _) = manifest.rsplit_once(VERSIONS)?;
    let table = match branch {
        Some(branch) => folder.strip_suffix(branch)?.strip_suffix("/tree/")?,
        None => folder,
    };
    let name = table.rsplit('/').next().filter(|name| !name.is_empty())?;
    let decoded = percent_decode_str(name).decode_utf8_lossy();
    Some(decoded.into_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test says what it expects")]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_the_tables_own_whatever_is_before_it() {
        for (path, branch) in [
            ("store/1f_a$t/_versions/2.manifest", None),
            ("1f_a$t/_versions/2.manifest-9a7f", None),
            ("/mnt/tree/1f_a%24t/_versions/2.manifest", None),
            (
                "s3://bucket/1f_a$t/tree/dev/_versions/2.manifest",
                Some("dev"),
            ),
            ("/tree/x/1f_a$t/tree/a/b/_versions/2.manifest", Some("a/b")),
        ] {
            assert_eq!(folder(path, branch).unwrap(), "1f_a$t", "{path}");
        }
        for (path, branch) in [
            ("staged", None),
            ("store/staged/2.manifest", None),
            ("/_versions/2.manifest", None),
            ("store/1f_a$t/_versions/2.manifest", Some("dev")),
        ] {
            assert_eq!(folder(path, branch), None, "{path}");
        }
    }
}
