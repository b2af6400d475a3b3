//! Reads what the kernel counts of a process: its memory and its threads.

/// Returns a number of `/proc/ID/status`, such as `VmRSS`, which is in KiB, or `Threads`.
pub fn read(id: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let value = status
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let number = value.unwrap().split_whitespace().next();
    number.unwrap().parse().unwrap()
}

/// Returns a number of KiB in MiB.
pub fn mebibytes(id: u32, name: &str) -> f64 {
    read(id, name) as f64 / 1024.0
}

/// Makes the peak of the resident memory, `VmHWM`, begin anew.
pub fn forget_peak(id: u32) {
    std::fs::write(format!("/proc/{id}/clear_refs"), "5").unwrap();
}
