//! The set-up of the tests that look for messages which another reader understands differently; they are in the files of
//! its folder.

mod bodies;
mod lenient;
mod paths;
mod second_reader;
mod spellings;

use crate::harness::{Setup, World};

/// The rules: `n` may be read and written with scopes, and `n$hr` below it not at all.
const RULES: &str = "authorization:
  - { namespace: [n], read: { scope: catalog.read }, write: { scope: catalog.write }, unlisted: name }
  - { namespace: [n, hr], read: { deny: true }, write: { deny: true } }";

fn setup() -> Setup {
    Setup::new().mount("[n]", "n").section(RULES)
}

/// Returns true if only health checks have reached the catalogs.
fn is_untouched(world: &World) -> bool {
    world.catalogs.iter().all(|(_, catalog)| {
        let seen = catalog.seen();
        seen.iter().all(|seen| seen.target == "/")
    })
}
