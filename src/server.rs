//! The client side of the gateway: accepts connections, speaks HTTP/1.1 and HTTP/2, and hands each
//! request to the stack.

pub mod connection;
mod connection_state;
pub mod listener;
pub mod refused_peers;
mod service;
mod stream_tasks;
pub mod tls;
