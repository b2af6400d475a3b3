//! Plain requests, one for each way in which a table may be locked: not at all, shared, or by its versions.

use bytes::Bytes;

/// The number of requests at a time.
pub const CLIENTS: usize = 64;
/// The number of versions of every table.
pub const VERSIONS: u64 = 3;

/// A kind of plain request.
#[derive(Clone, Copy)]
pub enum Plain {
    Describe,
    Insert,
    ListVersions,
}

impl Plain {
    pub const ALL: [Self; 3] = [Self::Describe, Self::Insert, Self::ListVersions];

    pub fn name(self) -> &'static str {
        match self {
            Self::Describe => "describe",
            Self::Insert => "insert",
            Self::ListVersions => "list-versions",
        }
    }

    /// Returns the request's path for a client's table in the first catalog.
    pub fn target(self, client: usize) -> String {
        let what = match self {
            Self::Describe => "describe",
            Self::Insert => "insert?mode=append",
            Self::ListVersions => "version/list",
        };
        format!("/v1/table/c0%24{}/{what}", table(client))
    }

    pub fn content_type(self) -> &'static str {
        match self {
            Self::Insert => "application/vnd.apache.arrow.stream",
            Self::Describe | Self::ListVersions => "application/json",
        }
    }

    pub fn body(self) -> Bytes {
        match self {
            Self::Insert => Bytes::from_static(&[0xff; 512]),
            Self::Describe => Bytes::from_static(b"{}"),
            Self::ListVersions => Bytes::new(),
        }
    }
}

/// Returns the name of a client's table.
pub fn table(client: usize) -> String {
    format!("plain{client}")
}
