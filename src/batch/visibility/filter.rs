//! `version/list` without the hidden versions: a pure filter over the catalog's answer.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Hidden;

/// A page of versions as the catalog answered it.
pub struct Page<'a> {
    /// Each version's number and its own bytes.
    versions: Vec<(u64, &'a RawValue)>,
    /// The list within the body: everything around it is kept as it is.
    list: std::ops::Range<usize>,
    body: &'a [u8],
    /// Where the catalog goes on, if it has more.
    token: Option<String>,
}

/// What a page came to without the hidden versions.
#[derive(Debug, PartialEq, Eq)]
pub enum FilteredPage {
    /// Nothing was hidden: the body as it was.
    Untouched,
    /// The body without them.
    Shown(Vec<u8>),
    /// Too few are left: ask the catalog again for this many more.
    AskFor(u64),
    /// None on this page may be seen, and the catalog has another: ask for the page of this token.
    NextPage(String),
    /// Versions exist, and none of them may be seen: an empty list would make clients look at storage themselves.
    NothingVisible,
}

/// The body is not a list of versions.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalog's answer is not a list of versions")]
pub struct NotAList;

impl<'a> Page<'a> {
    /// Reads a `ListTableVersionsResponse`.
    pub fn parse(body: &'a [u8]) -> Result<Self, NotAList> {
        #[derive(Deserialize)]
        struct Answer<'a> {
            #[serde(borrow)]
            versions: &'a RawValue,
            page_token: Option<String>,
        }
        #[derive(Deserialize)]
        struct Version {
            version: u64,
        }
        let answer: Answer<'a> = serde_json::from_slice(body).map_err(|_| NotAList)?;
        let list = answer.versions.get();
        let start = list.as_ptr() as usize - body.as_ptr() as usize;
        let items: Vec<&'a RawValue> = serde_json::from_str(list).map_err(|_| NotAList)?;
        let versions = items
            .into_iter()
            .map(|raw| {
                let version: Version = serde_json::from_str(raw.get()).map_err(|_| NotAList)?;
                Ok((version.version, raw))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            versions,
            list: start..start + list.len(),
            body,
            token: answer.page_token.filter(|token| !token.is_empty()),
        })
    }

    /// The versions' numbers, in the catalog's order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.versions.iter().map(|(number, _)| *number)
    }

    /// The page without `hidden`, for a client that asked for `limit` versions, when `asked` were asked for.
    pub fn without(&self, hidden: &Hidden, limit: Option<u64>, asked: Option<u64>) -> FilteredPage {
        let wanted = limit.map_or(usize::MAX, |limit| {
            usize::try_from(limit).unwrap_or(usize::MAX)
        });
        let visible: Vec<&str> = self
            .versions
            .iter()
            .filter(|(number, _)| !hidden.contains(*number))
            .map(|(_, raw)| raw.get())
            .collect();
        let removed = self.versions.len() - visible.len();
        let cut = asked.is_some_and(|asked| self.versions.len() as u64 >= asked);
        // A short page with a token is a page; a short one without may hide versions below the limit.
        if removed > 0 && visible.len() < wanted && cut && self.token.is_none() {
            return FilteredPage::AskFor(removed as u64);
        }
        if removed > 0 && visible.is_empty() {
            let next = self.token.clone();
            return next.map_or(FilteredPage::NothingVisible, FilteredPage::NextPage);
        }
        if removed == 0 && visible.len() <= wanted {
            return FilteredPage::Untouched;
        }
        FilteredPage::Shown(self.with(&visible[..visible.len().min(wanted)]))
    }

    /// The page without any version.
    pub fn emptied(&self) -> Vec<u8> {
        self.with(&[])
    }

    fn with(&self, versions: &[&str]) -> Vec<u8> {
        let mut body = Vec::with_capacity(self.body.len());
        body.extend_from_slice(&self.body[..self.list.start]);
        body.push(b'[');
        body.extend_from_slice(versions.join(",").as_bytes());
        body.push(b']');
        body.extend_from_slice(&self.body[self.list.end..]);
        body
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that panics fails")]

    use super::{FilteredPage, Hidden, Page};

    fn filtered(
        body: &str,
        hidden: &[u64],
        limit: Option<u64>,
        asked: Option<u64>,
    ) -> FilteredPage {
        Page::parse(body.as_bytes()).unwrap().without(
            &Hidden(hidden.iter().map(|v| *v..=*v).collect()),
            limit,
            asked,
        )
    }

    fn shown(body: &str) -> FilteredPage {
        FilteredPage::Shown(body.as_bytes().to_vec())
    }

    #[test]
    fn hidden_versions_are_left_out_and_nothing_else_changes() {
        let two = r#"{"x":1.50,"versions":[{"version":2,"z":9007199254740993},{"version":1}] ,"page_token":null}"#;
        let one = r#"{"x":1.50,"versions":[{"version":1}] ,"page_token":null}"#;
        assert_eq!(filtered(two, &[], None, None), FilteredPage::Untouched);
        assert_eq!(filtered(two, &[7], None, None), FilteredPage::Untouched);
        assert_eq!(filtered(two, &[2], None, None), shown(one));
        assert_eq!(filtered(two, &[2], Some(1), Some(2)), shown(one));
    }

    #[test]
    fn a_page_that_came_out_short_asks_for_more() {
        let latest = r#"{"versions":[{"version":2}]}"#;
        assert_eq!(
            filtered(latest, &[2], Some(1), Some(1)),
            FilteredPage::AskFor(1)
        );
        assert_eq!(
            filtered(latest, &[2], Some(1), Some(2)),
            FilteredPage::NothingVisible
        );
        assert_eq!(
            filtered(latest, &[2], None, None),
            FilteredPage::NothingVisible
        );
    }

    #[test]
    fn a_hidden_page_leads_to_the_next_one() {
        let paged = r#"{"versions":[{"version":3},{"version":2}],"page_token":"2"}"#;
        let next = FilteredPage::NextPage("2".into());
        assert_eq!(filtered(paged, &[3, 2], None, None), next);
        assert_eq!(filtered(paged, &[3, 2], Some(2), Some(2)), next);
        let half = r#"{"versions":[{"version":2}],"page_token":"2"}"#;
        assert_eq!(filtered(paged, &[3], Some(2), Some(2)), shown(half));
        let page = Page::parse(paged.as_bytes()).unwrap();
        assert_eq!(page.emptied(), br#"{"versions":[],"page_token":"2"}"#);
    }

    #[test]
    fn a_page_longer_than_asked_for_is_cut() {
        let three = r#"{"versions":[{"version":3},{"version":2},{"version":1}]}"#;
        let two = r#"{"versions":[{"version":2}]}"#;
        assert_eq!(filtered(three, &[3], Some(1), Some(3)), shown(two));
    }

    #[test]
    fn what_is_not_a_list_of_versions_is_said_to_be_none() {
        for body in [
            "",
            "null",
            "[]",
            r#"{"versions":{}}"#,
            r#"{"versions":[{"version":-1}]}"#,
        ] {
            assert!(Page::parse(body.as_bytes()).is_err(), "{body}");
        }
    }
}
