//! The rules and callers of the tests of authorization, which are in the files of its folder.

mod batches;
mod listing;
mod matrix;
mod silence;
mod storage_keys;
mod transactions;

use serde_json::{Value, json};

use crate::catalog::Catalog;
use crate::catalog::store::Store;
use crate::client::Client;
use crate::harness::{Setup, World};

/// The rules: `own` goes by scopes and `foreign` by a claim; `lost` has a rule like `own`'s and no mount. A fourth
/// namespace, `nowhere`, has neither.
const RULES: &str = "authorization:
  - { namespace: [own], read: { scope: catalog.read }, write: { scope: catalog.write } }
  - { namespace: [foreign], read: { claim: team, any_of: [theirs] }, write: { claim: team, any_of: [theirs] } }
  - { namespace: [lost], read: { scope: catalog.read }, write: { scope: catalog.write } }";

/// A kind of caller: the claims of its token, and its permissions in `own` and `lost`, and in `foreign`.
struct Caller {
    name: &'static str,
    claims: fn() -> Value,
    /// The permissions to read and to write that its scopes give.
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
    /// Returns true if the caller has the permission below this top-level namespace.
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

/// Resets every catalog to a table `t1` of one version and an empty namespace `n`, and forgets its requests.
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

/// The operations that a catalog received, without health checks.
fn asked(catalog: &Catalog) -> Vec<&'static str> {
    let seen = catalog.seen().into_iter().filter(|seen| seen.target != "/");
    seen.map(|seen| seen.operation).collect()
}
