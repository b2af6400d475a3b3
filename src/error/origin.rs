//! The part of the system that an error comes from.

/// The part of the system that refused or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorOrigin {
    /// The gateway.
    #[default]
    Gateway,
    /// A catalog: the text is its own, and may name tables.
    Catalog,
    /// The batch log: this gateway cannot reach it, or has taken it over from one that did not get as far. Nothing was done
    /// of the request, and it may be sent again, to the gateway that has the log by then.
    BatchLog,
}
