//! Connections to one catalog: pools, dialing, TLS, HTTP/1.1, HTTP/2 and deadlines.

pub(in crate::backend) mod coarse_clock;
pub(in crate::backend) mod connect;
pub(in crate::backend) mod connection;
pub(in crate::backend) mod deadline;
pub(in crate::backend) mod driver_waker;
pub(in crate::backend) mod http2;
pub(in crate::backend) mod pool;
pub(in crate::backend) mod request_copy;
pub(in crate::backend) mod rewind;
pub(in crate::backend) mod tls;
pub(in crate::backend) mod upstream_timer;
