#![no_main]

#[path = "../properties/request.rs"]
mod request;
#[path = "../properties/grammar.rs"]
mod grammar;

// Behind a byte that no message begins with, the input is the choices of the grammar.
libfuzzer_sys::fuzz_target!(|data: &[u8]| match data {
    [0xff, choices @ ..] => request::check(&grammar::requests(choices)),
    message => request::check(message),
});
