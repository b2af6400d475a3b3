//! The harness of all tests: real catalogs, the gateway binary in front of them, Python clients.

mod catalog;
mod clients;
mod fleet;
mod gateway;
mod process;
mod python;
mod relay;

use std::path::PathBuf;
use std::time::{Duration, Instant};

pub use catalog::Catalog;
pub use clients::Clients;
pub use fleet::SharedLog;
pub use gateway::{Behind, Gateway};
pub use process::Process;
pub use python::Python;
pub use relay::{Caught, Delay, Fault, Message, Relay};

/// The limit of every wait. Only a failing test reaches it.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Returns the path of a file of this suite.
pub fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "catalogs", name]
        .iter()
        .collect()
}

/// Runs a client's future to its end.
pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().unwrap().block_on(future)
}

/// Calls `ask` until the answer is `Some`; panics with `what` if it never is.
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < PATIENCE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
