//! The part of the system that an error comes from.

/// The part of the system that refused or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorOrigin {
    /// The gateway.
    #[default]
    Gateway,
    /// A catalog: the text is its own, and may name tables.
    Catalog,
    /// The batch log, which this gateway cannot reach or has lost. Another gateway may be able to carry the request out.
    BatchLog,
}
