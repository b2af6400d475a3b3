//! Who may do what: every operation by every kind of caller, and nothing told to whom nothing is to be told.

mod batches;
mod listing;
mod matrix;
mod silence;
mod transactions;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::catalog::store::Store;
use crate::client::Client;
use crate::harness::{Setup, World};

/// `own` goes by scopes, `foreign` by a claim; `lost` has a rule like `own`'s and no mount; `nowhere` has neither.
const RULES: &str = "authorization:
  - { namespace: [own], read: { scope: catalog.read }, write: { scope: catalog.write } }
  - { namespace: [foreign], read: { claim: team, any_of: [theirs] }, write: { claim: team, any_of: [theirs] } }
  - { namespace: [lost], read: { scope: catalog.read }, write: { scope: catalog.write } }";

/// What a caller's token says, and what that lets it do in `own` and `lost`, and in `foreign`.
struct Caller {
    name: &'static str,
    claims: fn() -> Value,
    /// Read and write.
    by_scope: (bool, bool),
    by_claim: bool,
}

const CALLERS: [Caller; 6] = [
    Caller {
        name: "read-only",
        claims: || json!({"scope": "openid catalog.read"}),
        by_scope: (true, false),
        by_claim: false,
    },
    Caller {
        name: "write-only",
        claims: || json!({"scp": ["catalog.write"], "team": "ours"}),
        by_scope: (false, true),
        by_claim: false,
    },
    Caller {
        name: "none",
        claims: || json!({}),
        by_scope: (false, false),
        by_claim: false,
    },
    Caller {
        name: "wrong claim",
        claims: || json!({"scope": "catalog", "team": ["ours", ["theirs"]], "read": "catalog.read"}),
        by_scope: (false, false),
        by_claim: false,
    },
    Caller {
        name: "both scopes",
        claims: || json!({"scp": "catalog.read catalog.write"}),
        by_scope: (true, true),
        by_claim: false,
    },
    Caller {
        name: "right claim",
        claims: || json!({"team": ["x", "theirs"]}),
        by_scope: (false, false),
        by_claim: true,
    },
];

impl Caller {
    /// Whether it may, below this top-level namespace.
    fn may(&self, write: bool, namespace: &str) -> bool {
        match namespace {
            "own" | "lost" if write => self.by_scope.1,
            "own" | "lost" => self.by_scope.0,
            "foreign" => self.by_claim,
            _ => false,
        }
    }

    fn client(&self, world: &World) -> Client {
        world.client_with(&(self.claims)())
    }
}

fn setup() -> Setup {
    let setup = Setup::new()
        .mount("[own]", "own")
        .mount("[foreign]", "foreign");
    setup
        .section(RULES)
        .section("telemetry: { access_log: false }")
}

/// Every catalog with a table `t1` of one version and an empty namespace `n`, and as if nothing had been asked.
fn fresh(world: &World) {
    for (name, catalog) in &world.catalogs {
        let mut store = catalog.store();
        *store = Store::default();
        store.seed(&[name, "t1"], 1);
        store.seed_namespace(&[name, "n"]);
        drop(store);
        catalog.forget();
    }
}

/// What a catalog was asked on a caller's behalf.
fn asked(catalog: &Catalog) -> Vec<&'static str> {
    let seen = catalog.seen().into_iter().filter(|seen| seen.target != "/");
    seen.map(|seen| seen.operation).collect()
}
