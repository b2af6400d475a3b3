//! nsgate: one front door for many table catalogs that speak the namespace REST contract.
//!
//! Requests pass the modules of this map from top to bottom. Imports go the same way, never upwards.
//!
//! ```text
//! client ── server ── stack ── gateway ── backend ── catalog
//!                       │         ├ forward   one catalog owns it
//!    trace · metrics    │         ├ listing   above or across mounts
//!      · rescue · limits│         └ batch     all or nothing over several
//!      · recognize      │
//!      · authenticate   │
//!      · rate · context │
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
//! | [`app`] | builds everything from a [`config::Config`], binds, serves, reloads, drains; alone sees the whole configuration. `app.rs` is the life of the process, from the start to a second signal |
//! | [`admin`] | the pages for operators, on an address of their own; also the words of `nsgate batches` about a batch; the facts about an open batch are in `batch/run/open.rs`, and those that survive a restart in `batch/log.rs` |
//! | [`server`] | listener, connections and their limits, timeouts, HTTP/1.1 and HTTP/2, TLS towards clients. What each connection counts, and when it rests or closes: `server/connection_state.rs`; fixed times (keep-alive): `server/listener.rs`, configured ones: `config/limits.rs` |
//! | [`stack`] | the ordered list of layers, with a reason for each place |
//! | [`layer`] | one middleware a file; layers do not import each other, only what they share: `guard.rs`, `refused.rs` |
//! | [`gateway`] | the innermost service: forwards, lists over catalogs, renames, commits batches, answers snapshots. `listing/page.rs` decides whether the names of a catalog may be missing, `listing/read_catalog.rs` reads one catalog |
//! | [`batch`] | atomic batches over catalogs that cannot prepare; `batch::step` is the protocol, pure. In the order of a batch: `plan`, `run`, `participant` (requests to catalogs), `log`; `locks` only locks, which creates are sent at once is in `step/prepare.rs`, how many to one catalog, and the pause before one is retried, in `run/calls.rs`, and `api` has every answer to a client about batches (a locked table: `api/table_lock.rs`). How long anyone waits for a PostgreSQL that is away: `log/postgres.rs` and `log/postgres/writer.rs`; the settings of its connections: `log/postgres/connect.rs`; heartbeats: `log/postgres/owner.rs`. `batch::fleet` is what several gateways agree on, `layer/share` passes requests on to the one that runs batches. A log in a file that cannot be written ends the process (`batch/log/disk.rs`) |
//! | [`backend`] | the connection to one catalog; reports exactly whether a catalog can have acted. `rest/dispatch.rs` alone decides what is sent again, by the verdict of `endpoints/verdict.rs`; every answer of a REST catalog passes it, `rest/headers.rs` only removes headers |
//! | [`auth`] | tokens, issuers' keys, access rules. A claim as a value of the context: `token/claims.rs` |
//! | [`route`] | the immutable table of mounts; pure |
//! | [`telemetry`] | the log and the spans |
//! | [`request`] | the record of one request, and the context that layers add to it |
//! | `http1` | which HTTP/1.1 messages take the fast path; the cache of their headers. All else (`Expect`, chunks, upgrades) is hyper's, in `server/connection.rs` and `backend/transport/connection.rs`; what hyper would let pass and must not is refused in `server/connection/request_scanner.rs` |
//! | [`body`] | the one body type |
//! | [`metrics`] | every counter, by name; names, labels and buckets are in `metrics/families.rs` |
//! | [`config`] | the validated configuration, and how it is read. The keys that wait for a restart: `reload/difference.rs`; the steps of a reload: `app/reload.rs` |
//! | [`pem`] | certificates and keys in files |
//! | [`protocol`] | the contract as pure values: operations, identifiers, JSON bodies; no clock, socket or disk |
//! | [`error`] | the one error that reaches a client, with the contract's code |
//! | [`util`] | helpers that know nothing of catalogs or HTTP |
//! | [`dev_token`] | keys and tokens for trying things out; used by the program only |
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
//! - Bodies stream; only JSON that must be inspected is held in memory, and never more than `limits.json_body` of it.
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
//! - **cool-down**, or rest: the time after a rollback in which the same version number is not created again.
//! - **watch**: checking, for 15 minutes, for a create or a delete that got no clear answer and may still arrive.
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
