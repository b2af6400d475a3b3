//! The known cost of requests: a file that is changed on purpose only.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use crate::count::Count;

const FILE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/benches/instructions/recorded.tsv"
);
/// The head of the printed table.
pub const HEAD: &str = "\
what                      instructions   recorded   by      allocations   recorded
──────────────────────────────────────────────────────────────────────────────────────────";
/// The default margins, for instructions in percent and for allocations in number: some memory grows once in many
/// requests.
const MARGINS: (f64, f64) = (2.0, 0.5);

/// The content of the file.
pub struct Recorded {
    compiler: String,
    lines: Vec<Line>,
}

struct Line {
    name: String,
    count: Count,
    /// The margins, for instructions in percent and for allocations in number.
    margins: (f64, f64),
}

/// The result of comparing a count with the recorded one.
pub enum Verdict {
    Kept,
    Grew(String),
    Shrank,
}

impl Recorded {
    pub fn read() -> Self {
        let text = fs::read_to_string(FILE).unwrap_or_default();
        let mut recorded = Self {
            compiler: String::new(),
            lines: Vec::new(),
        };
        for line in text.lines() {
            if let Some(compiler) = line.strip_prefix("# ") {
                compiler.clone_into(&mut recorded.compiler);
                continue;
            }
            let mut fields = line.split('\t');
            let name = fields.next().unwrap().to_owned();
            let mut number = || fields.next().unwrap().parse().expect("a number");
            let (instructions, margin) = (number(), number());
            let count = Count {
                instructions,
                allocations: number(),
            };
            let margins = (margin, number());
            recorded.lines.push(Line {
                name,
                count,
                margins,
            });
        }
        recorded
    }

    pub fn judge(&self, name: &str, now: Count) -> Verdict {
        let Some(Line { count, margins, .. }) = self.find(name) else {
            return Verdict::Grew("nothing is recorded of it".to_owned());
        };
        let mut words = String::new();
        let change = percent(count.instructions, now.instructions);
        if change > margins.0 {
            let _ = write!(
                words,
                "{} instructions a request, {change:.1} % more than the recorded {} (margin {} %). ",
                now.instructions, count.instructions, margins.0
            );
        }
        if now.allocations > count.allocations + margins.1 {
            let _ = write!(
                words,
                "{} allocations a request instead of {}.",
                now.allocations, count.allocations
            );
        }
        let fewer = now.allocations < count.allocations - margins.1;
        match () {
            () if !words.is_empty() => Verdict::Grew(words),
            () if change < -margins.0 || fewer => Verdict::Shrank,
            () => Verdict::Kept,
        }
    }

    pub fn line(&self, name: &str, now: Count, verdict: &Verdict) -> String {
        let mut line = format!("{name:<24} {:>13}", now.instructions);
        let verdict = match verdict {
            Verdict::Kept => "",
            Verdict::Grew(_) => "MORE",
            Verdict::Shrank => "less: record it",
        };
        let (before, change, allocations) = match self.find(name) {
            None => ("–".to_owned(), String::new(), "–".to_owned()),
            Some(Line { count, .. }) => (
                count.instructions.to_string(),
                format!("{:+.1} %", percent(count.instructions, now.instructions)),
                count.allocations.to_string(),
            ),
        };
        let _ = write!(
            line,
            " {before:>10} {change:>8} {:>10} {allocations:>10}   {verdict}",
            now.allocations
        );
        line
    }

    pub fn replace(&mut self, name: &str, count: Count) {
        match self.lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.count = count,
            None => self.lines.push(Line {
                name: name.to_owned(),
                count,
                margins: MARGINS,
            }),
        }
    }

    pub fn write(&self) {
        let mut text = format!("# {}\n", compiler());
        for line in &self.lines {
            let (count, margins) = (line.count, line.margins);
            let _ = writeln!(
                text,
                "{}\t{}\t{}\t{}\t{}",
                line.name, count.instructions, margins.0, count.allocations, margins.1
            );
        }
        fs::write(FILE, text).unwrap();
    }

    /// True if it was recorded on this kind of processor.
    pub fn is_comparable(&self) -> bool {
        self.compiler.is_empty() || self.compiler.ends_with(std::env::consts::ARCH)
    }

    /// Returns the compiler that it was recorded with; `None` if that is the present one.
    pub fn other_compiler(&self) -> Option<&str> {
        let other = !self.compiler.is_empty() && self.compiler != compiler();
        other.then_some(&*self.compiler)
    }

    fn find(&self, name: &str) -> Option<&Line> {
        self.lines.iter().find(|line| line.name == name)
    }
}

fn percent(before: f64, now: f64) -> f64 {
    (now / before - 1.0) * 100.0
}

fn compiler() -> String {
    let said = Command::new("rustc").arg("--version").output().unwrap();
    let version = String::from_utf8_lossy(&said.stdout);
    format!("{}, {}", version.trim(), std::env::consts::ARCH)
}
