#![no_main]

#[path = "../properties/log_record.rs"]
mod log_record;

libfuzzer_sys::fuzz_target!(|data: &[u8]| log_record::check(data));
