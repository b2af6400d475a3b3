#![no_main]

#[path = "../properties/answer.rs"]
mod answer;
#[path = "../properties/grammar.rs"]
mod grammar;

// Behind a byte that no message begins with, the input is the choices of the grammar.
libfuzzer_sys::fuzz_target!(|data: &[u8]| match data {
    [0xff, choices @ ..] => answer::check(&grammar::answers(choices)),
    message => answer::check(message),
});
