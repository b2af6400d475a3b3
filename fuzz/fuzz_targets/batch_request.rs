#![no_main]

#[path = "../properties/batch_request.rs"]
mod batch_request;

libfuzzer_sys::fuzz_target!(|data: &[u8]| batch_request::check(data));
