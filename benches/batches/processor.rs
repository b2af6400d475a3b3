//! Processor time as the kernel counts it, to the nanosecond.

use std::path::Path;
use std::time::Duration;

/// Returns the processor time of this thread.
pub fn of_this_thread() -> Duration {
    // Yielding makes the kernel update its count.
    std::thread::yield_now();
    used(Path::new("/proc/thread-self/schedstat"))
}

/// Returns the processor time of all threads of a process that still exist.
pub fn of_process(id: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).unwrap();
    let tasks = tasks.map(|task| task.unwrap().path().join("schedstat"));
    tasks.map(|task| used(&task)).sum()
}

/// Returns the time for which the main thread of a process was ready to run, and had no processor.
pub fn waited_by_main_thread(id: u32) -> Duration {
    field(Path::new(&format!("/proc/{id}/task/{id}/schedstat")), 1)
}

fn used(schedstat: &Path) -> Duration {
    field(schedstat, 0)
}

fn field(schedstat: &Path, at: usize) -> Duration {
    let text = std::fs::read_to_string(schedstat).unwrap();
    let nanos = text.split_whitespace().nth(at).unwrap();
    Duration::from_nanos(nanos.parse().unwrap())
}
