//! The cost of a request in instructions and allocations, compared with the recorded cost. `cargo bench --bench
//! instructions [-- NAME…] [--record]`; see benches/README.md.

#![allow(
    clippy::unwrap_used,
    unreachable_pub,
    reason = "a measurement that cannot be made ends; `pub` is for the other files here"
)]

mod case;
mod catalog;
mod count;
#[path = "../../tests/support/forge.rs"]
#[allow(dead_code, reason = "the tests of tokens use all of it")]
mod forge;
mod message;
mod program;
mod recorded;
#[path = "../../tests/support/running_gateway.rs"]
#[allow(dead_code, reason = "the tests use more of it")]
mod running_gateway;

use std::process::{Command, ExitCode, Stdio};

use case::Case;
use count::Count;
use message::Connection;
use program::Program;
use recorded::{Recorded, Verdict};

/// The number of requests before counting begins: connections are then open, memory has grown, and caches are filled.
const WARM_UP: u64 = 40;
/// The number of rounds. Periodic work, such as the look for changed files, is in few of them; the lowest count is
/// used. So is that of the requests for the counts, which differ by a thousand instructions. With six rounds of each,
/// two runs differ by a hundredth.
const ROUNDS: u64 = 12;

fn main() -> ExitCode {
    // Arguments that cargo passes to every benchmark are ignored.
    let words = std::env::args().skip(1).filter(|word| word != "--bench");
    let (options, names): (Vec<_>, Vec<_>) = words.partition(|word| word.starts_with("--"));
    let record = options.iter().any(|option| option == "--record");
    if let Some(unknown) = options.iter().find(|option| *option != "--record") {
        return refuse(&format!("`{unknown}` is not an option; there is --record"));
    }
    let mut valgrind = Command::new("valgrind");
    let there = valgrind.arg("--version").stdout(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        return refuse("valgrind is needed, and not installed");
    }
    let keys = case::Keys::new();
    let mut program = Program::start(&keys.set());
    let cases = case::all(&keys);
    if let Some(unknown) = names
        .iter()
        .find(|name| cases.iter().all(|case| case.name != **name))
    {
        let known: Vec<_> = cases.iter().map(|case| case.name).collect();
        return refuse(&format!("`{unknown}` is none of: {}", known.join(" ")));
    }
    program.hide_a_version(&keys);
    let mut recorded = Recorded::read();
    println!("{}", recorded::HEAD);
    let mut worse = Vec::new();
    for mut case in cases {
        if !names.is_empty() && names.iter().all(|name| *name != case.name) {
            continue;
        }
        let count = measure(&mut program, &mut case);
        let verdict = recorded.judge(case.name, count);
        println!("{}", recorded.line(case.name, count, &verdict));
        if let Verdict::Grew(what) = verdict {
            worse.push(format!("{}: {what}", case.name));
        }
        if record {
            recorded.replace(case.name, count);
        }
    }
    if record {
        recorded.write();
        return ExitCode::SUCCESS;
    }
    conclude(&worse, &recorded)
}

fn conclude(worse: &[String], recorded: &Recorded) -> ExitCode {
    if !recorded.is_comparable() {
        println!("\nRecorded on another kind of processor: nothing is compared.");
        return ExitCode::SUCCESS;
    }
    if worse.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("\n{}\n", worse.join("\n"));
    println!(
        "Requests cost more than recorded. If that is meant, record it, and say in the commit what it buys:"
    );
    println!("    cargo bench --bench instructions -- --record");
    if let Some(other) = recorded.other_compiler() {
        println!("Recorded with {other}, which makes other instructions: see whether that is all.");
    }
    ExitCode::FAILURE
}

fn refuse(words: &str) -> ExitCode {
    eprintln!("{words}");
    ExitCode::from(2)
}

/// Returns the cost of one request of this kind.
fn measure(program: &mut Program, case: &mut Case) -> Count {
    let mut client = Connection::open(program.address);
    for _ in 0..WARM_UP {
        case.ask(&mut client);
    }
    program.so_far();
    // The request for the counts is itself counted, so its cost is measured to be subtracted.
    let questions = (0..ROUNDS).map(|_| program.so_far());
    let asking = questions.fold(Count::MOST, Count::min);
    let mut least = Count::MOST;
    for _ in 0..ROUNDS {
        for _ in 0..case.requests {
            case.ask(&mut client);
        }
        least = least.min(program.so_far());
    }
    least.less(asking).over(case.requests)
}
