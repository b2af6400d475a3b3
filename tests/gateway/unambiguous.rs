//! What goes to a catalog is what the gateway understood, and nothing that another reader could take for something else.

mod bodies;
mod lenient;
mod paths;
mod second_reader;

use crate::harness::{Setup, World};

/// `pub` may be written, `hr` by nobody.
const RULES: &str = "authorization:
  - { namespace: [n], read: { scope: catalog.read }, write: { scope: catalog.write }, unlisted: name }
  - { namespace: [n, hr], read: { deny: true }, write: { deny: true } }";

fn setup() -> Setup {
    Setup::new().mount("[n]", "n").section(RULES)
}

/// Whether nothing has reached the catalog but health checks.
fn is_untouched(world: &World) -> bool {
    world.catalogs.iter().all(|(_, catalog)| {
        let seen = catalog.seen();
        seen.iter().all(|seen| seen.target == "/")
    })
}
