#![no_main]

#[path = "../properties/token.rs"]
mod token;

libfuzzer_sys::fuzz_target!(|data: &[u8]| token::check(data));
