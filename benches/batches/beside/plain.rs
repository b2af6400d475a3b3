//! Requests that are no batches, one of each way in which a table may be held: not at all, shared, by its versions.

use bytes::Bytes;

/// As many as are asked at a time.
pub const CLIENTS: usize = 64;
/// What every table has.
pub const VERSIONS: u64 = 3;

/// One of them.
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

    /// Its path for a client's table in the first catalog.
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

/// The table that a client asks about.
pub fn table(client: usize) -> String {
    format!("plain{client}")
}
