#![no_main]

#[path = "../properties/configuration.rs"]
mod configuration;

libfuzzer_sys::fuzz_target!(|data: &[u8]| configuration::check(data));
