//! Runs the program as an operator does at a shell.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;

use crate::catalog::faults::PATIENCE;
use crate::harness::World;
use crate::running_gateway::program;

/// A command that has ended: its exit code, stdout and stderr.
pub type Ended = (Option<i32>, String, String);

/// A command that runs on, and the lines that it prints.
pub struct Running {
    child: Child,
    lines: Option<mpsc::Receiver<String>>,
}

/// Runs the program in `folder` without an environment, with `input` on standard input.
pub async fn run_with(folder: &Path, arguments: &[&str], input: &str) -> Ended {
    let mut command = command(arguments);
    command.current_dir(folder).stdin(Stdio::piped());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let input = input.to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let mut child = command.spawn().unwrap();
        // A command that fails early does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        child.wait_with_output().unwrap()
    });
    let Output {
        status,
        stdout,
        stderr,
    } = ended.await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

/// Runs the program in the folder of a gateway.
pub async fn run(world: &World, arguments: &[&str]) -> Ended {
    run_with(world.folder(), arguments, "").await
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command.args(arguments).env_clear();
    command
}

impl Running {
    /// Starts the program with its output in a pipe.
    pub fn start(arguments: &[&str]) -> Self {
        let mut command = command(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                let _ = sender.send(line);
            }
        });
        Self {
            child,
            lines: Some(lines),
        }
    }

    /// Waits for the next line that it prints.
    pub async fn line(&mut self) -> String {
        let lines = self.lines.take().unwrap();
        let waited = tokio::task::spawn_blocking(move || {
            let line = lines.recv_timeout(PATIENCE);
            (line, lines)
        });
        let (line, lines) = waited.await.unwrap();
        self.lines = Some(lines);
        line.expect("a line")
    }

    /// Presses Ctrl-C, and returns the exit code.
    pub async fn interrupt(mut self) -> Option<i32> {
        let kill = format!("kill -INT {}", self.child.id());
        let status = Command::new("sh").args(["-c", &kill]).status().unwrap();
        assert!(status.success());
        // It prints nothing more, so the end of its output is its end.
        let lines = self.lines.take().unwrap();
        let last = tokio::task::spawn_blocking(move || lines.recv_timeout(PATIENCE));
        let last = last.await.unwrap();
        assert_eq!(last, Err(mpsc::RecvTimeoutError::Disconnected));
        self.child.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
