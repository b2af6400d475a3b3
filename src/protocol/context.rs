//! Request context: ordered string pairs that accompany a request.

/// The entries of one request, in order.
#[derive(Clone, Debug, Default)]
pub struct Context {
    entries: Vec<(String, String)>,
}

impl Context {
    /// The entries: key in lower case, value. Both are fit for a header.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.entries
            .iter()
            .map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// Adds an entry of the body; false when a header or a claim has set its key.
    pub fn add_body(&mut self, key: &str, value: &str) -> Result<bool, crate::error::Error> {
        let known = self.entries.iter().any(|(known, _)| known == key);
        if !known {
            self.entries.push((key.to_owned(), value.to_owned()));
        }
        Ok(!known)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
