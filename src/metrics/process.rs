//! The figures of this process: memory, processor time, open files, threads and start.

use std::fs;

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};
use nix::sys::time::TimeValLike as _;

/// The unit of the start time in `/proc/self/stat`: Linux reports 100 ticks a second on every processor that nsgate is
/// built for, whatever the kernel's own rate is.
const TICKS_PER_SECOND: f64 = 100.0;
/// The place of the start time in `/proc/self/stat`, counted from the first field after the program's name.
const START_TIME: usize = 19;

/// The figures of this process at one moment. A figure that the system does not tell is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessFigures {
    /// The memory that is in use and not swapped out, in bytes.
    pub resident_bytes: u64,
    /// The memory that the program has allocated and not freed, in bytes. The rest of `resident_bytes` is the allocator's,
    /// and the program itself. `None` if the allocator does not tell.
    pub allocated_bytes: Option<u64>,
    /// The processor time since the start, of the process and of the kernel for it, in seconds.
    pub cpu_seconds: f64,
    /// The number of open files, connections included.
    pub open_files: u64,
    /// The limit of open files.
    pub max_files: u64,
    /// The start of the process, in seconds since the epoch.
    pub start_time_seconds: f64,
    /// The number of threads.
    pub threads: u64,
}

impl ProcessFigures {
    /// Reads the figures. It takes tens of microseconds, more with thousands of open files, so it is not for the path
    /// of a request.
    pub fn read() -> Self {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let kilobytes = labelled(&status, "VmRSS:").unwrap_or_default();
        let mut figures = Self {
            resident_bytes: kilobytes.saturating_mul(1024),
            allocated_bytes: allocated(),
            threads: labelled(&status, "Threads:").unwrap_or_default(),
            open_files: open_files(),
            start_time_seconds: start_time().unwrap_or_default(),
            ..Self::default()
        };
        if let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) {
            let micros = usage.user_time() + usage.system_time();
            figures.cpu_seconds = seconds(micros.num_microseconds());
        }
        if let Ok((limit, _)) = getrlimit(Resource::RLIMIT_NOFILE) {
            figures.max_files = limit;
        }
        figures
    }
}

fn seconds(micros: i64) -> f64 {
    let micros = u64::try_from(micros).unwrap_or_default();
    std::time::Duration::from_micros(micros).as_secs_f64()
}

/// The number after a label, as `/proc/self/status` and `/proc/stat` write it.
fn labelled(text: &str, label: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(label))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

fn open_files() -> u64 {
    let open = fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    // The folder itself is open while it is read.
    u64::try_from(open.saturating_sub(1)).unwrap_or_default()
}

fn start_time() -> Option<f64> {
    let ticks = start_ticks(&fs::read_to_string("/proc/self/stat").ok()?)?;
    let boot = labelled(&fs::read_to_string("/proc/stat").ok()?, "btime ")?;
    Some(boot as f64 + ticks as f64 / TICKS_PER_SECOND)
}

/// The start in ticks since boot. A program's name may contain spaces and parentheses, so the fields are counted from
/// its last parenthesis.
fn start_ticks(stat: &str) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields
        .split_ascii_whitespace()
        .nth(START_TIME)?
        .parse()
        .ok()
}

#[cfg(feature = "jemalloc")]
fn allocated() -> Option<u64> {
    use tikv_jemalloc_ctl::{epoch, stats};

    // The figures are as old as the last epoch.
    epoch::advance().ok()?;
    stats::allocated::read().ok()?.try_into().ok()
}

#[cfg(not(feature = "jemalloc"))]
fn allocated() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn the_figures_of_this_process_are_plausible() {
        let _one_more = fs::File::open("/proc/self/status").expect("Linux has this file");
        let figures = ProcessFigures::read();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.expect("after 1970").as_secs_f64();
        assert!(figures.resident_bytes > 1 << 20, "{figures:?}");
        assert!(figures.cpu_seconds > 0.0, "{figures:?}");
        assert!(figures.open_files >= 4, "{figures:?}");
        assert!(figures.max_files >= figures.open_files, "{figures:?}");
        assert!(figures.threads >= 2, "{figures:?}");
        let age = now - figures.start_time_seconds;
        assert!((-2.0..86_400.0).contains(&age), "started {age} s ago");
    }

    #[test]
    fn a_program_name_with_parentheses_does_not_shift_the_start_time() {
        let stat = "1 (a) b) S 0 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 777 9 10";
        assert_eq!(start_ticks(stat), Some(777));
        assert_eq!(start_ticks("1 (a) S 0"), None);
    }

    #[test]
    fn a_label_is_found_at_the_start_of_its_line() {
        let status = "Name:\tThreads: 9\nThreads:\t12\nVmRSS:\t  2048 kB\n";
        assert_eq!(labelled(status, "Threads:"), Some(12));
        assert_eq!(labelled(status, "VmRSS:"), Some(2048));
        assert_eq!(labelled(status, "VmSwap:"), None);
    }
}
