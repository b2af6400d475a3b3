//! Checks `telemetry.audit` against the other keys.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use crate::config::load::reader::Reader;
use crate::config::{AuditTarget, Config};

/// Refuses an audit log that is required and not configured, and warns of one whose folder does not exist.
pub(super) fn audit(config: &Config, reader: &mut Reader<'_>) {
    let is_missing = config.telemetry.audit.is_none();
    if config.telemetry.audit_required && is_missing && reader.has_no_problem_below("telemetry") {
        reader.problem_at(
            "telemetry.audit_required",
            "is true, and there is no audit log; add `audit: PATH`, or remove this key",
        );
    }
    let Some(AuditTarget::File(path)) = &config.telemetry.audit else {
        return;
    };
    if let Some(log) = config.batch.log.file()
        && is_of(path, log)
    {
        reader.problem_at(
            "telemetry.audit",
            "is the batch log, or a file that belongs to it; write the path of another file",
        );
        return;
    }
    let folder = path.parent().unwrap_or(path);
    if !folder.is_dir() && reader.has_no_problem_below("telemetry.audit") {
        let folder = folder.display();
        reader.warn_at(
            "telemetry.audit",
            format!("there is no folder {folder} on this machine, and the gateway does not start without it; create it"),
        );
    }
}

/// True if `path` is `file`, under any name, or a file beside it whose name begins with its name and a dot.
fn is_of(path: &Path, file: &Path) -> bool {
    let inode = |path: &Path| path.metadata().map(|it| (it.dev(), it.ino())).ok();
    let is_same = || inode(path).is_some_and(|one| inode(file) == Some(one));
    let name = |path: &Path| {
        path.file_name()
            .unwrap_or_default()
            .as_encoded_bytes()
            .to_owned()
    };
    let is_beside = || {
        let rest = name(path).strip_prefix(&name(file)[..]).map(<[u8]>::to_vec);
        path.parent() == file.parent() && rest.is_some_and(|rest| rest.starts_with(b"."))
    };
    path == file || is_beside() || is_same()
}
