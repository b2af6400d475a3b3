//! nsgate.
