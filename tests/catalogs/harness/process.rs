//! A child process whose lines are kept and can be waited for.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use super::PATIENCE;

/// A child process that is killed when dropped.
pub struct Process {
    child: Child,
    input: Mutex<ChildStdin>,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    said: Mutex<Said>,
    more: Condvar,
}

#[derive(Default)]
struct Said {
    lines: Vec<String>,
    /// The number of its two streams that have ended.
    ended: usize,
}

impl Process {
    /// Starts `command` with an open standard input, and keeps what it prints.
    pub fn start(command: &mut Command) -> Self {
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let started = command.spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = Arc::new(Output::default());
        output.keep(child.stdout.take().unwrap());
        output.keep(child.stderr.take().unwrap());
        let input = Mutex::new(child.stdin.take().unwrap());
        Self {
            child,
            input,
            output,
        }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns how it ended; `None` if it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Writes a line to its standard input.
    pub fn tell(&self, line: &str) {
        writeln!(self.input.lock().unwrap(), "{line}").unwrap();
    }

    /// Waits for the first line that contains `mark`. Returns the word after it.
    pub fn word_after(&self, mark: &str) -> String {
        let rest = self.line_after(mark);
        let end = rest.find(|c: char| c.is_whitespace() || c == '"');
        rest[..end.unwrap_or(rest.len())].to_owned()
    }

    /// Waits for the first line that contains `mark`. Returns what follows it.
    pub fn line_after(&self, mark: &str) -> String {
        self.line_within(mark, PATIENCE)
    }

    /// Waits as `line_after` does, for at most `patience`.
    pub fn line_within(&self, mark: &str, patience: Duration) -> String {
        let rest = |line: &String| Some(line.split_once(mark)?.1.to_owned());
        let waits =
            |said: &mut Said| said.ended < 2 && !said.lines.iter().any(|l| rest(l).is_some());
        let said = self.output.said.lock().unwrap();
        let waited = self.output.more.wait_timeout_while(said, patience, waits);
        let lines = &waited.unwrap().0.lines;
        let found = lines.iter().find_map(rest);
        found.unwrap_or_else(|| panic!("it never said {mark:?}, but:\n{}", lines.join("\n")))
    }

    /// Returns everything that it has printed.
    pub fn said(&self) -> String {
        self.output.said.lock().unwrap().lines.join("\n")
    }

    /// Kills the process (SIGKILL).
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the process with SIGTERM and returns its exit status.
    pub fn terminate(mut self) -> ExitStatus {
        let pid = self.child.id().to_string();
        assert!(Command::new("kill").arg(pid).status().unwrap().success());
        super::eventually("the process to end", || self.child.try_wait().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Output {
    fn keep(self: &Arc<Self>, from: impl Read + Send + 'static) {
        let output = self.clone();
        std::thread::spawn(move || {
            for line in BufReader::new(from).lines().map_while(Result::ok) {
                output.said.lock().unwrap().lines.push(line);
                output.more.notify_all();
            }
            output.said.lock().unwrap().ended += 1;
            output.more.notify_all();
        });
    }
}
