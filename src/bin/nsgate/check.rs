//! `nsgate check`: every problem of a configuration, as text, as JSON, or as marks in a pull request.

use std::fmt::Write as _;
use std::io::Write as _;

use nsgate::app::{self, OnlineAnswer};
use nsgate::config::load::{self, Loaded, Problem};
use serde_json::{Value, json};

use crate::Failure;
use crate::cli::{Check, CheckFormat};

/// The most problems that are printed as text.
const PRINTED: usize = 100;
/// The most errors, and the most warnings, that GitHub shows of one step.
const MARKED: usize = 10;

/// The findings of a check.
#[derive(Default)]
struct Findings {
    /// The problems, warnings included.
    problems: Vec<Problem>,
    /// The answers of catalogs and batch log; empty if they were not asked.
    answers: Vec<OnlineAnswer>,
}

/// Checks a configuration, and returns the text to print.
///
/// # Errors
/// The gateway would not start with it, or a catalog cannot do its part.
pub(crate) fn run(arguments: &Check) -> Result<String, Failure> {
    let found = findings(arguments)?;
    let is_sound = found.is_sound();
    let format = if arguments.json {
        CheckFormat::Json
    } else {
        arguments.format
    };
    let output = match format {
        CheckFormat::Text => return text(&found),
        CheckFormat::Json => format!("{:#}", document(&found, arguments.online)),
        CheckFormat::Github => commands(&found),
    };
    if is_sound {
        Ok(output)
    } else {
        Err(Failure::printed(output))
    }
}

fn findings(arguments: &Check) -> Result<Findings, Failure> {
    let loaded = match load::from_path(&arguments.file.config) {
        Ok(loaded) => loaded,
        Err(found) => {
            let mut problems = found.errors;
            problems.extend(found.warnings);
            problems.sort_by_key(|problem| problem.place);
            return Ok(Findings {
                problems,
                answers: Vec::new(),
            });
        }
    };
    let mut problems = loaded.warnings.clone();
    problems.extend(app::check(&loaded).map_err(Failure::bad_input)?);
    problems.extend(app::missing_here(&loaded));
    let mut found = Findings {
        problems,
        answers: Vec::new(),
    };
    if arguments.online && found.is_sound() {
        found.answers = app::check_online(&loaded).map_err(Failure::bad_input)?;
        found.problems.extend(unsound(&loaded, &found.answers));
    }
    Ok(found)
}

/// Returns the bad answers as problems of the keys that name their servers.
fn unsound(loaded: &Loaded, answers: &[OnlineAnswer]) -> Vec<Problem> {
    let bad = answers.iter().filter(|answer| !answer.is_sound);
    bad.map(|answer| loaded.origin.problem(&answer.key, &*answer.words))
        .collect()
}

impl Findings {
    fn is_sound(&self) -> bool {
        self.problems.iter().all(|problem| problem.warning)
    }
}

/// Prints the problems, a line each, and returns the rest of the text.
fn text(found: &Findings) -> Result<String, Failure> {
    // A bad answer is a line among the answers.
    let is_answer = |problem: &&Problem| {
        found
            .answers
            .iter()
            .any(|answer| !problem.warning && answer.key == problem.key)
    };
    let told: Vec<&Problem> = found
        .problems
        .iter()
        .filter(|problem| !is_answer(problem))
        .collect();
    let mut lines = problem_lines(told);
    let answers = found.answers.iter();
    let answers: Vec<_> = answers
        .map(|answer| format!("{}: {}", answer.name, answer.words))
        .collect();
    if found.is_sound() {
        let _ = std::io::stderr().write_all(lines.as_bytes());
        let answers = answers.into_iter().chain(["ok".to_owned()]);
        return Ok(answers.collect::<Vec<_>>().join("\n"));
    }
    lines.push_str(&answers.join("\n"));
    Err(Failure::bad_input(lines.trim_end()))
}

/// Returns a line for each problem, and the number of those beyond the bound, from which errors come first.
fn problem_lines(mut problems: Vec<&Problem>) -> String {
    let more = problems.len().saturating_sub(PRINTED);
    if more > 0 {
        problems.sort_by_key(|problem| problem.warning);
    }
    let mut lines = String::new();
    for problem in problems.iter().take(PRINTED) {
        let _ = writeln!(lines, "{problem}");
    }
    if more > 0 {
        let rest = problems[PRINTED..].iter();
        let errors = rest.filter(|problem| !problem.warning).count();
        let _ = writeln!(
            lines,
            "and {more} more, {errors} of them errors; `--json` prints all"
        );
    }
    lines
}

/// Returns the findings as one JSON document.
fn document(found: &Findings, online: bool) -> Value {
    let problem = |problem: &Problem| {
        json!({
            "severity": severity(problem),
            "file": problem.file,
            "line": problem.place.map(|place| place.line),
            "column": problem.place.map(|place| place.column),
            "key": problem.key,
            "message": problem.message,
        })
    };
    let mut document = json!({
        "ok": found.is_sound(),
        "problems": found.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    if online {
        let answer = |answer: &OnlineAnswer| json!({ "name": answer.name, "ok": answer.is_sound, "message": answer.words });
        document["online"] = found.answers.iter().map(answer).collect();
    }
    document
}

/// Returns a workflow command of GitHub Actions for each of the first problems, the number of those that GitHub would not
/// show, and a line with the result.
fn commands(found: &Findings) -> String {
    let mut said = String::new();
    let (mut errors, mut warnings) = (0, 0);
    for problem in &found.problems {
        let of_kind = if problem.warning {
            &mut warnings
        } else {
            &mut errors
        };
        *of_kind += 1;
        if *of_kind <= MARKED {
            mark(problem, &mut said);
        }
    }
    let more = [errors, warnings].map(|all: usize| all.saturating_sub(MARKED));
    if more != [0, 0] {
        // GitHub shows ten notices as well.
        let _ = writeln!(
            said,
            "::notice title=nsgate check::and {} more errors, {} more warnings; `nsgate check --json` prints all",
            more[0], more[1]
        );
    }
    match errors {
        0 => said.push_str("ok"),
        _ => {
            let _ = write!(said, "errors: {errors}, warnings: {warnings}");
        }
    }
    said
}

fn mark(problem: &Problem, to: &mut String) {
    let _ = write!(
        to,
        "::{} file={}",
        severity(problem),
        escaped(&problem.file, true)
    );
    if let Some(place) = problem.place {
        let _ = write!(to, ",line={},col={}", place.line, place.column);
    }
    let key = if problem.key.is_empty() {
        String::new()
    } else {
        format!("{}: ", problem.key)
    };
    let message = format!("{key}{}", problem.message);
    let _ = writeln!(to, ",title=nsgate check::{}", escaped(&message, false));
}

fn severity(problem: &Problem) -> &'static str {
    if problem.warning { "warning" } else { "error" }
}

/// Escapes what would end a workflow command, or one of its properties.
fn escaped(text: &str, is_property: bool) -> String {
    let text = text
        .replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A");
    if is_property {
        text.replace(':', "%3A").replace(',', "%2C")
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use nsgate::config::load::Position;

    use super::*;

    #[test]
    fn of_many_problems_a_hundred_are_printed_errors_first_and_the_rest_is_counted() {
        let problem = |number: u32| Problem {
            file: "gateway.yaml".to_owned(),
            place: Some(Position {
                line: number,
                column: 1,
            }),
            key: format!("backends.b{number}"),
            message: "is wrong; write another".to_owned(),
            warning: number < 3000,
        };
        let all: Vec<Problem> = (1..=5000).map(problem).collect();
        let lines = problem_lines(all.iter().collect());
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 101);
        assert!(lines[0].contains("backends.b3000: "), "{}", lines[0]);
        assert_eq!(
            lines[100],
            "and 4900 more, 1901 of them errors; `--json` prints all"
        );
        let few = problem_lines(all.iter().take(100).collect());
        assert_eq!(few.lines().count(), 100);
        let problems = all;
        let found = Findings {
            problems,
            answers: Vec::new(),
        };
        let json = document(&found, false);
        assert_eq!(json["problems"].as_array().map(Vec::len), Some(5000));
    }

    #[test]
    fn a_pull_request_gets_as_many_marks_as_github_shows_and_the_number_of_the_others() {
        let problem = |number: usize| Problem {
            file: "gateway.yaml".to_owned(),
            place: None,
            key: format!("k{number}"),
            message: "is wrong; write another".to_owned(),
            warning: number.is_multiple_of(3),
        };
        let said = |all: usize| {
            let problems = (1..=all).map(problem).collect();
            let answers = Vec::new();
            commands(&Findings { problems, answers })
        };
        let many = said(60);
        let starting = |start: &str| many.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((starting("::error "), starting("::warning ")), (10, 10));
        assert!(many.contains("::k1: ") && many.contains("::k30: ") && !many.contains("::k16: "));
        let mut last = many.lines().rev();
        assert_eq!(last.next(), Some("errors: 40, warnings: 20"));
        let more = "::notice title=nsgate check::and 30 more errors, 10 more warnings; `nsgate check --json` prints all";
        assert_eq!(last.next(), Some(more));
        let few = said(15);
        assert!(few.lines().count() == 16 && !few.contains("more"), "{few}");
    }

    #[test]
    fn a_workflow_command_is_one_line_whatever_the_message_holds() {
        let problem = Problem {
            file: "a,b:c%.yaml".to_owned(),
            place: Some(Position { line: 3, column: 7 }),
            key: "backends.x".to_owned(),
            message: "100 % wrong: a\nb; write c".to_owned(),
            warning: false,
        };
        let warning = Problem {
            place: None,
            key: String::new(),
            warning: true,
            ..problem.clone()
        };
        let found = Findings {
            problems: vec![problem, warning],
            answers: Vec::new(),
        };
        let expected = "::error file=a%2Cb%3Ac%25.yaml,line=3,col=7,title=nsgate check::backends.x: 100 %25 wrong: a%0Ab; write c
::warning file=a%2Cb%3Ac%25.yaml,title=nsgate check::100 %25 wrong: a%0Ab; write c
errors: 1, warnings: 1";
        assert_eq!(commands(&found), expected);
    }
}
