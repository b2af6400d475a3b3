//! Room for open files in the kernel's table of this process.

use std::fs::File;
use std::io;

use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::resource::{Resource, getrlimit};
use nix::unistd::close;

/// The most open files that there is room for from the start; eight bytes each, in the kernel.
const MOST: u64 = 1 << 16;

/// The files that are open besides connections of clients, at least: those to catalogs, the log, listeners.
const OTHERS: u64 = 64;

/// Returns what to do if this process may not have so many connections of clients; `None` if it may.
pub(super) fn shortage(connections: usize) -> Option<String> {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let wanted = (connections as u64).saturating_add(OTHERS);
    (wanted > limit).then(|| {
        format!(
            "is more than this process may have: its limit of open files is {limit}; raise that to {wanted} and more (`LimitNOFILE` of the unit, `ulimits` of a container, `ulimit -n`), or lower limits.connections"
        )
    })
}

/// Makes the table as large as the limit of open files, up to [`MOST`]. Must be called before there are threads.
///
/// The table doubles when it is full, and in a process with threads the kernel lets the one that opens a file wait until
/// every processor has turned to something else (`synchronize_rcu`): while 1,000 clients connected, a worker stood still for
/// up to 16 ms each time (`growth over-connections`).
pub(super) fn make_room() -> io::Result<()> {
    let (limit, _) = getrlimit(Resource::RLIMIT_NOFILE)?;
    let last = limit.min(MOST).saturating_sub(1);
    let last = i32::try_from(last).map_err(io::Error::other)?;
    let any = File::open("/dev/null")?;
    Ok(close(fcntl(&any, FcntlArg::F_DUPFD_CLOEXEC(last))?)?)
}
