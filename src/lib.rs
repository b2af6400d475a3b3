//! nsgate: one front door for many table catalogs that speak the namespace REST contract.

pub mod backend;
pub mod batch;
pub mod body;
pub mod config;
pub mod connection;
pub mod dev_token;
pub mod error;
pub mod exchange;
pub mod gateway;
pub mod layer;
pub mod listener;
pub mod listing;
pub mod metrics;
pub mod protocol;
pub mod route;
pub mod telemetry;
