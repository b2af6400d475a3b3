#![no_main]

#[path = "../properties/rewrite.rs"]
mod rewrite;

libfuzzer_sys::fuzz_target!(|data: &[u8]| rewrite::check(data));
