//! The part of the system that an error comes from.

/// The part of the system that refused or failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ErrorOrigin {
    /// The gateway.
    #[default]
    Gateway,
    /// A catalog: the text is its own, and may name tables.
    Catalog,
    /// The batch log, which this gateway cannot reach or has lost. Nothing was done; another gateway may be able to.
    BatchLog,
    /// The takeover of the batch log from a process that had not decided the batch. It was aborted: nothing of it stays.
    Takeover,
}
