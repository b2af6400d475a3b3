//! nsgate: one front door for many table catalogs that speak the namespace REST contract.
//!
//! This page is the map. A request goes down it; so do imports, and never up.
//!
//! ```text
//! client ── listener ── connection ── stack ── gateway ── backend ── catalog
//!                                       │         ├ forward   one catalog owns it
//!    trace · metrics · rescue · limits  │         ├ listing   above or across mounts
//!      · recognize · authenticate       │         └ batch     all or nothing over several
//!      · rate · context · authorize     ┘
//! ```
//!
//! In reading order:
//!
//! | module | role |
//! |---|---|
//! | [`app`] | the composition root: builds everything from a [`config::Config`], binds, serves, drains. Alone it may import everything, and alone it sees the whole configuration |
//! | [`listener`] | accepts connections, bounds their number and patience, stops |
//! | [`tls`] | what clients are shown and asked for; the handshake |
//! | [`connection`] | one connection: HTTP/1.1 or HTTP/2, its bounds, its requests |
//! | [`stack`] | THE ordered list of layers, with a reason for each place |
//! | [`layer`] | one file a middleware; layers do not import each other |
//! | [`token`] | what a signed token must be to be believed; pure |
//! | [`keys`] | the issuers' keys: fetched, refreshed, kept while an issuer is down |
//! | [`gateway`] | the innermost service: who owns it, and have it done |
//! | [`access`] | who may do what: the rules of `authorization`; pure |
//! | [`listing`] | one tree of namespaces and tables over many catalogs |
//! | [`batch`] | batches of table versions over catalogs that cannot prepare: `batch::step` is the protocol, pure |
//! | [`route`] | the immutable table of mounts; pure |
//! | [`backend`] | the configured connection to one catalog; says exactly whether a catalog can have acted |
//! | [`admin`] | the pages for operators, on an address of their own |
//! | [`protocol`] | what the contract says, as pure values: operations, identifiers, errors, bodies |
//! | [`config`] | the validated configuration, and how it is read |
//! | [`dev_token`] | makes keys and tokens for trying things out |
//!
//! Leaves, which everything may import and which import no module above: [`protocol`], [`config`], [`error`]
//! (what a client may be told), [`body`] (the one body type), [`exchange`] (the record of one request, written by
//! whoever learns something), [`metrics`] (every counter), [`pem`] (certificates and keys in files), [`telemetry`] (the
//! log), [`worker`] (the threads that serve), `gather` (small writes in one piece), `plain` (which HTTP/1.1 needs no
//! hyper), `wake` (wakers that can be held back).
//!
//! What holds throughout:
//!
//! - A configuration makes a whole new stack ([`stack::Current`]); a request stays in the one that it entered, and
//!   keeps its routes ([`gateway::World`]).
//! - What one layer learns reaches the next in the request's [`exchange::learned::Learned`] or in the
//!   [`exchange::Exchange`], never as a header.
//! - Parts fail with their own error types, which become [`error::Error`] at their edge and a response in
//!   [`layer::rescue`], nowhere else.
//! - Bodies stream; only JSON that must be looked at is held, and never more than `limits.json_body` of it.
//! - [`protocol`], [`route`] and `batch::step` know no clock, socket or disk.

pub mod access;
pub mod admin;
pub mod app;
pub mod backend;
pub mod batch;
pub mod body;
pub mod config;
pub mod connection;
pub mod dev_token;
pub mod error;
pub mod exchange;
pub mod gateway;
mod gather;
pub mod keys;
pub mod layer;
pub mod listener;
pub mod listing;
pub mod metrics;
pub mod pem;
mod plain;
pub mod protocol;
pub mod route;
pub mod stack;
pub mod telemetry;
pub mod tls;
pub mod token;
mod wake;
pub mod worker;
