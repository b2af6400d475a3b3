//! nsgate: one front door for many table catalogs that speak the namespace REST contract.
//!
//! Requests pass the modules of this map from top to bottom. Imports go the same way, never upwards.
//!
//! ```text
//! client ── server ── stack ── gateway ── backend ── catalog
//!                       │         ├ forward   one catalog owns it
//!    trace · metrics    │         ├ listing   above or across mounts
//!      · rescue         │         └ batch     all or nothing over several
//!      · recognize      │
//!      · authenticate   │
//!      · limits · rate  │
//!      · share · context│
//!      · authorize      ┘
//! ```
//!
//! What each file is about stands in `src/FILES.md`, one line a file.
//!
//! The table is in the order of imports: a module may import those below it, never one above.
//! `tests/layers.rs` checks that.
//!
//! | module | role |
//! |---|---|
//! | [`app`] | builds everything from a [`config::Config`], binds, serves, reloads, drains; alone sees the whole configuration |
//! | [`admin`] | the pages for operators, on an address of their own; also the words of `nsgate batches` about a batch |
//! | [`server`] | listener, connections and their limits, timeouts, HTTP/1.1 and HTTP/2, TLS towards clients |
//! | [`stack`] | the ordered list of layers, with a reason for each place |
//! | [`layer`] | one middleware a file; layers do not import each other, only what they share: `guard.rs`, `refused.rs` |
//! | [`gateway`] | the innermost service: forwards, lists over catalogs, renames, commits batches, answers snapshots |
//! | [`batch`] | atomic batches over catalogs that cannot prepare; `batch::step` is the protocol, pure. In the order of a batch: `api`, `plan`, `run`, `participant` (requests to catalogs), `log`. `batch::fleet` is what several gateways agree on |
//! | [`backend`] | the connection to one catalog; reports exactly whether a catalog can have acted |
//! | [`auth`] | tokens, issuers' keys, access rules |
//! | [`route`] | the immutable table of mounts; pure |
//! | [`telemetry`] | the log and the spans |
//! | [`request`] | the record of one request, and the context that layers add to it |
//! | `http1` | the HTTP/1.1 messages that the gateway reads and writes itself, for both ends; all others are hyper's |
//! | [`body`] | the one body type |
//! | [`metrics`] | every counter, by name |
//! | [`config`] | the validated configuration, and how it is read |
//! | [`pem`] | certificates and keys in files |
//! | [`protocol`] | the contract as pure values: operations, identifiers, JSON bodies; no clock, socket or disk |
//! | [`error`] | the one error that reaches a client, with the contract's code |
//! | [`util`] | helpers that know nothing of catalogs or HTTP |
//! | [`build`] | version, commit, features and compiler of this build |
//! | [`dev_token`] | keys and tokens for trying things out; used by the program only |
//!
//! # To change something, open …
//!
//! Only what more than one file could hold; for the rest see `src/FILES.md`.
//!
//! | to change | open |
//! |---|---|
//! | the life of the process, from the start to a second signal | `app.rs` |
//! | what a reload does, and when it is refused | `app/reload.rs`; which keys keep their old value until a restart, `config/reload/difference.rs` |
//! | any number that an operator can set (its default, its range), or a new key | the file of its section: `config/listen.rs` (also `admin`), `limits.rs` (also `context`), `auth.rs`, `backend.rs`, `mount.rs` (also `authorization`), `batch.rs`, `telemetry.rs`; what it does is elsewhere |
//! | times of client connections | configured ones `config/limits.rs`, fixed ones (keep-alive, drain) `server/listener.rs` |
//! | when a client's connection rests or closes | `server/connection_state.rs` |
//! | `Expect`, chunks, upgrades of clients | `server/connection.rs`; what hyper would let pass and must not, `server/connection/request_scanner.rs` |
//! | which requests are refused before they have a caller | `protocol/operation/recognize.rs` |
//! | one operation: its path, whether it reads or writes, its lock | `protocol/operation/table.rs` |
//! | a rule for tokens, and which claims become context | `auth/token/policy.rs`; how a claim is read, `auth/token/claims.rs`; the tolerance for clocks (`leeway`), `config/auth.rs` |
//! | a signature algorithm | which exist and which is the default, `config/auth.rs`; which fit a key, `auth/token/jwk.rs`; how one is verified, `auth/token/provider.rs` |
//! | issuers' keys: when they are fetched | `auth/keys/pace.rs`; who waits for it, and what stays in use if it fails, `auth/keys/issuer.rs` |
//! | context: its limits, which source wins, which keys only a claim may set | `protocol/context.rs`; headers that look like context (`x_ns_ctx_team`), `backend/rest/headers.rs` |
//! | which mount or access rule covers a name (the longest prefix) | `protocol/prefixes.rs` |
//! | who may do what | what a rule grants, `auth/access.rs`; when a scope or a claim's value fits a rule, `protocol/principal.rs`; which permission an operation needs, `layer/authorize.rs`; where the path does not tell, `gateway/catalog_scope.rs` |
//! | the size or speed of request bodies | `gateway/request_body.rs` |
//! | identifiers in bodies, from and to the catalog's spelling | requests `protocol/rewrite/request.rs`; responses: how a value is rewritten, `protocol/rewrite/response.rs`, and in which fields, a column of `protocol/operation/table.rs` |
//! | whether a listing may lack the names of a catalog | `gateway/listing/page.rs`; how one catalog is read, `gateway/listing/read_catalog.rs` |
//! | which requests are sent to a catalog again | `backend/rest/dispatch.rs`; after which answers, `backend/endpoints/verdict.rs`; how often and after which wait, `backend/endpoints/retry_budget.rs` |
//! | headers towards catalogs and clients | removed: `backend/rest/headers.rs`; added: `backend/rest/injected.rs` |
//! | what an answer of a catalog means to a batch | creates, describes and lists `batch/participant/answers.rs`, removals `batch/participant/remove.rs` |
//! | how an undo or a removal is repeated, and when an entry is left to an operator (hazard) | `batch/step/settle.rs` |
//! | which creates of a batch are sent at once | `batch/step/prepare.rs`; how many to one catalog, and the pause before one is retried, `batch/run/calls.rs` |
//! | what a client is told about a batch | `batch/api/answer.rs`; about a locked table, `batch/api/table_lock.rs` |
//! | what operators see of a batch | words `admin/batches/words.rs`, facts `batch/run/open.rs`; what survives a restart, `batch/log/intent.rs` and `batch/log/verdict.rs` |
//! | a log in a file that cannot be written | `batch/log/disk.rs`: it ends the process |
//! | how long anyone waits for a PostgreSQL that is away | a batch `batch/log/postgres.rs`, a write `batch/log/postgres/writer.rs`, a connection `batch/log/postgres/connect.rs` |
//! | after how long a silent gateway is taken for dead, and its batches taken over | `lease` in `config/batch.rs`, its bounds by other keys in `config/check.rs`; how silence is measured, `batch/log/postgres/observer.rs` |
//! | what a reader gets while a batch is on a table: the version before, a wait, a 503 | which reads wait, `gateway/forward.rs`; `version/describe` `batch/visibility/reads.rs`, describe of a table `reads/described.rs`, `version/list` `reads/listed.rs`, tables of one catalog `batch/visibility/names/reads.rs`; requests that wait for the lock, and for how long, `batch/api/table_lock.rs` |
//! | what a reader is told about a table that a batch hides | `gateway/forward.rs`; which tables are hidden, `batch/visibility/names.rs`; which versions, `batch/visibility/filter.rs` |
//! | which operations cannot be in one batch | `batch/plan/conflicts.rs` |
//! | the status page in the browser | what it says, `admin/status.rs`; tables and tiles, `admin/status/script.js`; curves, `admin/status/chart.js` |
//! | a command of `nsgate` | a new option `bin/nsgate/cli.rs`; what it does and prints, the file of the command in `bin/nsgate/`; exit codes `bin/nsgate/main.rs` |
//! | a request that another gateway has to serve | `layer/share/pass_on.rs`; which are passed on, `batch/fleet/passage.rs` |
//! | a metric's name, labels or buckets | `metrics/families.rs`; the values of the labels, the file of what is counted in `metrics/` |
//! | an error: its code, the values of `Retry-After`, its response | `error/code.rs`, `error/retry_after.rs`, `layer/rescue.rs`; which `Retry-After` a refusal gets, the file that refuses; of admin pages, `admin/problem.rs` |
//!
//! Rules that hold everywhere:
//!
//! - A configuration makes a whole new stack ([`stack::Current`]); a request stays in the one that it entered, and
//!   keeps its routes ([`gateway::RoutingSnapshot`]).
//! - Layers pass on what they learn in the request's [`request::context::RequestContext`] or in the
//!   [`request::RequestRecord`], never as a header.
//! - Modules fail with their own error types, which become [`error::Error`], with their headers (challenge,
//!   `Retry-After`, `Allow`), at their edge, and a response in [`layer::rescue`], nowhere else. Only the pages of
//!   [`admin`] have errors of their own (`admin/problem.rs`).
//! - Bodies stream; only JSON that must be inspected is held in memory, never more than `limits.json_body` of it, and
//!   `limits.json_bodies` of all requests.
//! - [`protocol`], [`route`] and `batch::step` know no clock, socket or disk.
//!
//! [`decisions`] says why it is built like this.
//!
//! # Glossary
//!
//! - **owner**: the one of several gateways that has the batch log, runs all batches, and serves all guarded tables.
//! - **guard**: the mark on a table that a batch is on: other gateways than the owner pass requests for it on.
//! - **lease**: the time for which a gateway may serve tables without a new heartbeat in the batch log.
//! - **mount**: a prefix of names that clients see, and the backend that serves everything below it.
//! - **batch**: changes of several tables that happen together or not at all.
//! - **reveal**: all versions of a committed batch become visible to readers in one step.
//! - **rest** (`batch.undone_rest`, 0.5 s): the time after a rollback in which nobody makes the same version number again.
//! - **cool-down** (`batch.slot_cooldown`, 60 s): the time after a rollback in which versions above that number are refused,
//!   because they may have been built on what is gone.
//! - **watch** (15 minutes): checking for a create, and waiting for a delete, that got no clear answer and may still arrive.
//! - **hazard**: a version that cannot be proven to be the batch's own; it stays hidden and locked for an operator.
//! - **stranded**: a batch whose backend is no longer in the configuration.
//! - **contested**: a version number that another writer has requested, too; only its e_tag proves whose it is.
//! - **share**: the entries of a batch that concern one branch of one table, in their order.
//! - **outcome**: the result of a batch, kept for requests that repeat its `Idempotency-Key`.
//! - **snapshot**: the versions of several tables that were all the latest at one moment.
//! - **breaker**: stops requests to an address of a catalog after consecutive failures.
//! - **context**: the `x-ns-ctx-*` headers of a request, as string pairs.

pub mod admin;
pub mod app;
pub mod auth;
pub mod backend;
pub mod batch;
pub mod body;
pub mod build;
pub mod config;
#[doc = include_str!("decisions.md")]
pub mod decisions {}
pub mod dev_token;
pub mod error;
pub mod gateway;
mod http1;
pub mod layer;
pub mod metrics;
pub mod pem;
pub mod protocol;
pub mod request;
pub mod route;
pub mod server;
pub mod stack;
pub mod telemetry;
pub mod util;
