//! The properties of `fuzz/`, checked with its seeds and with all inputs that differ from a seed in a byte or two.
//!
//! `fuzz/` checks them with millions of inputs. These tests see to it that the properties hold as the code changes,
//! and that the seeds stay good starting points.
#![allow(
    clippy::expect_used,
    missing_docs,
    unreachable_pub,
    reason = "tests say what they expect; nobody links against them"
)]

use std::path::{Path, PathBuf};

#[path = "../fuzz/properties/answer.rs"]
mod answer;
#[path = "../fuzz/properties/batch_request.rs"]
mod batch_request;
#[path = "../fuzz/properties/configuration.rs"]
mod configuration;
#[path = "../fuzz/properties/grammar.rs"]
mod grammar;
#[path = "../fuzz/properties/identifier.rs"]
mod identifier;
#[path = "../fuzz/properties/log_record.rs"]
mod log_record;
#[path = "../fuzz/properties/path.rs"]
mod path;
#[path = "../fuzz/properties/request.rs"]
mod request;
#[path = "../fuzz/properties/rewrite.rs"]
mod rewrite;
#[path = "../fuzz/properties/token.rs"]
mod token;

/// The bytes that are likely to have a meaning where they are inserted.
const BYTES: &[u8] = b"\0\n\r \"$%,./:0=[\\]{}\x80\xff";

fn seeds(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    let files = std::fs::read_dir(folder.join(target)).expect("a folder of seeds");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    files.sort();
    assert!(files.len() >= 4, "{target} has {} seeds", files.len());
    let read = |file: PathBuf| std::fs::read(file).expect("a seed");
    files.into_iter().map(read).collect()
}

fn hold(target: &str, step: usize, check: impl Fn(&[u8])) {
    for seed in seeds(target) {
        check(&seed);
        for at in (0..seed.len()).step_by(step) {
            check(&seed[..at]);
            let mut cut = seed.clone();
            cut.remove(at);
            check(&cut);
            let mut changed = seed.clone();
            for byte in BYTES {
                changed[at] = *byte;
                check(&changed);
            }
        }
    }
}

#[test]
fn identifiers_hold() {
    hold("identifier", 1, identifier::check);
}

#[test]
fn paths_hold() {
    hold("path", 1, path::check);
}

#[test]
fn tokens_hold() {
    hold("token", 7, token::check);
}

#[test]
fn configurations_hold() {
    hold("configuration", 11, configuration::check);
}

#[test]
fn requests_hold() {
    hold("request", 1, request::check);
}

#[test]
fn answers_hold() {
    hold("answer", 3, answer::check);
}

/// Checks messages that a grammar makes of random choices.
fn generated(count: u64, check: impl Fn(&[u8])) {
    for seed in 0..count {
        let mut random = fastrand::Rng::with_seed(seed);
        let choices: Vec<u8> = std::iter::repeat_with(|| random.u8(..)).take(40).collect();
        check(&choices);
    }
}

#[test]
fn generated_requests_hold() {
    generated(20_000, |choices| {
        request::check(&grammar::requests(choices))
    });
}

#[test]
fn generated_answers_hold() {
    generated(2_000, |choices| answer::check(&grammar::answers(choices)));
}

#[test]
fn rewriting_holds() {
    hold("rewrite", 1, rewrite::check);
}

#[test]
fn batch_requests_hold() {
    hold("batch_request", 1, batch_request::check);
}

#[test]
fn log_records_hold() {
    hold("log_record", 1, log_record::check);
}
