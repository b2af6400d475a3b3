//! A real catalog: pylance's REST adapter over a directory.

use tempfile::TempDir;

use super::{Process, Python};

/// A catalog with its tables in a folder of its own. It can be stopped and started again on the same port.
pub struct Catalog {
    python: &'static Python,
    folder: TempDir,
    port: u16,
    process: Option<Process>,
}

impl Catalog {
    pub fn start(python: &'static Python) -> Self {
        let mut catalog = Self {
            python,
            folder: TempDir::new().unwrap(),
            port: 0,
            process: None,
        };
        catalog.again();
        catalog
    }

    pub fn uri(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The folder of its tables.
    pub fn root(&self) -> &str {
        self.folder.path().to_str().unwrap()
    }

    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Kills the catalog (kill -9).
    pub fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    /// Starts the catalog again, with the tables that it had.
    pub fn again(&mut self) {
        let mut command = self.python.script("../../python/nsgate/demo/catalog.py");
        command.args([self.root(), &self.port.to_string()]);
        let process = Process::start(&mut command);
        self.port = process.word_after("port ").parse().unwrap();
        self.process = Some(process);
    }
}
