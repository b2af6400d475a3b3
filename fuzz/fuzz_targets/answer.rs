#![no_main]

#[path = "../properties/answer.rs"]
mod answer;

libfuzzer_sys::fuzz_target!(|data: &[u8]| answer::check(data));
