//! nsgate.
fn main() {}
