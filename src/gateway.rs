//! The innermost service: finds who owns what a request names, and has it done.

use std::sync::Arc;

use crate::backend::Backend;
use crate::route;

/// What requests are routed by. Immutable: a request takes one snapshot and keeps it.
pub struct World {
    /// Which mount owns which identifier.
    pub routes: route::Table,
    /// The backends in the order of their names, as [`route::Mount::backend`] counts them.
    pub backends: Vec<Arc<Backend>>,
}
