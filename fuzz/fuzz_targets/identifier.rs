#![no_main]

#[path = "../properties/identifier.rs"]
mod identifier;

libfuzzer_sys::fuzz_target!(|data: &[u8]| identifier::check(data));
