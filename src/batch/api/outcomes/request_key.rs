//! The key by which a repeated request for a batch is recognized.

use aws_lc_rs::digest::{Context as Hasher, SHA256};

use super::{Admission, Arc, Outcome};

/// The identity of a request for a batch, by which a repetition is recognized.
pub struct RequestKey {
    /// The fingerprint of the caller and its `Idempotency-Key` or, without one, the entries.
    pub(super) key: String,
    /// True if the request came with an `Idempotency-Key`.
    pub(super) has_key: bool,
    /// The fingerprint of the entries.
    pub(super) fingerprint: Fingerprint,
}

/// A fingerprint of the entries of a batch: the same for all spellings of the same values.
pub struct Fingerprint {
    pub(super) canonical: String,
    /// The fingerprint of the entries as they were spelled, which older versions of the gateway wrote into the log.
    spelled: Option<String>,
}

impl RequestKey {
    /// Returns the identity of a request by this caller with these entries.
    pub fn new(caller: &str, idempotency_key: Option<&str>, fingerprint: Fingerprint) -> Self {
        let mut hasher = Hasher::new(&SHA256);
        let (kind, key) = match idempotency_key {
            Some(key) => ("key", key),
            None => ("entries", fingerprint.canonical.as_str()),
        };
        // The key is hashed, because the log keeps it.
        for part in [caller, kind, key] {
            hasher.update(&(part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Self {
            key: hex(hasher),
            has_key: idempotency_key.is_some(),
            fingerprint,
        }
    }

    /// Returns the name by which the log remembers the request; `None` without an `Idempotency-Key`.
    pub fn idempotency(&self) -> Option<String> {
        self.has_key.then(|| self.key.clone())
    }

    /// Returns the name of the request, and whether it came with an `Idempotency-Key`.
    pub fn into_parts(self) -> (String, bool) {
        (self.key, self.has_key)
    }

    /// Returns the fingerprint of the entries.
    pub fn fingerprint(&self) -> &str {
        &self.fingerprint.canonical
    }

    /// Joins a batch if its entries are the same; otherwise the request is [`Admission::Different`].
    pub(super) fn join(&self, outcome: &Arc<Outcome>) -> Admission {
        if self.fingerprint.is(&outcome.fingerprint) {
            Admission::Join(Arc::clone(outcome))
        } else {
            Admission::Different
        }
    }
}

impl Fingerprint {
    /// Returns the fingerprint of what was hashed in its canonical form and, for logs of older versions, as it was
    /// spelled.
    pub fn new(canonical: Hasher, spelled: Option<Hasher>) -> Self {
        Self {
            canonical: hex(canonical),
            spelled: spelled.map(hex),
        }
    }

    fn is(&self, remembered: &str) -> bool {
        remembered == self.canonical || self.spelled.as_deref() == Some(remembered)
    }
}

fn hex(hasher: Hasher) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(64);
    for byte in hasher.finish().as_ref() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}
