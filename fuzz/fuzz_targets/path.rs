#![no_main]

#[path = "../properties/path.rs"]
mod path;

libfuzzer_sys::fuzz_target!(|data: &[u8]| path::check(data));
