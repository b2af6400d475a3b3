//! Filters hidden versions from the answer to `version/list`; pure.

use serde::Deserialize;
use serde_json::value::RawValue;

use super::Hidden;

/// A page of versions in a catalog's answer.
pub struct Page<'a> {
    /// The number and the bytes of each version.
    versions: Vec<(u64, &'a RawValue)>,
    /// The range of the list within the body. Everything around it is kept as it is.
    list: std::ops::Range<usize>,
    body: &'a [u8],
    /// The catalog's token for the next page; `None` on the last one.
    token: Option<String>,
}

/// The result of filtering a page.
#[derive(Debug, PartialEq, Eq)]
pub enum FilteredPage {
    /// The body is unchanged, because nothing was hidden.
    Untouched,
    /// The body without the hidden versions.
    Shown(Vec<u8>),
    /// Too few versions are left: repeat the request with a limit that is higher by this number.
    AskFor(u64),
    /// No version of this page may be seen, and the catalog has more: request the page of this token.
    NextPage(String),
    /// Versions exist, and none of them may be seen. An empty list would make clients list the storage themselves.
    NothingVisible,
}

/// The numbers of the versions in an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// The versions of the catalog's list.
    pub listed: u64,
    /// The listed versions that are hidden.
    pub hidden: u64,
    /// The catalog's token for the next page; `None` on the last one.
    pub token: Option<String>,
}

/// The decision on a page, by the numbers of its versions. The cases are those of [`FilteredPage`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A page with nothing hidden that is not too long.
    Untouched,
    /// The versions that are left, up to the client's limit, can be shown.
    Shown,
    /// Too few versions are left.
    AskFor(u64),
    /// No version is left, and the catalog has more.
    NextPage(String),
    /// No version is left.
    NothingVisible,
}

/// The error for a body that is not a list of versions.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("the catalog's answer is not a list of versions")]
pub struct NotAList;

impl<'a> Page<'a> {
    /// Parses a `ListTableVersionsResponse`.
    ///
    /// # Errors
    ///
    /// The body is no such response.
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

    /// The numbers of the versions, in the catalog's order.
    pub fn numbers(&self) -> impl Iterator<Item = u64> + '_ {
        self.versions.iter().map(|(number, _)| *number)
    }

    /// Removes the `hidden` versions. `limit` is the client's limit; `asked` is the limit that was sent to the catalog.
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
        let tally = Tally {
            listed: self.versions.len() as u64,
            hidden: (self.versions.len() - visible.len()) as u64,
            token: self.token.clone(),
        };
        match tally.verdict(limit, asked) {
            Verdict::Untouched => FilteredPage::Untouched,
            Verdict::Shown => FilteredPage::Shown(self.with(&visible[..visible.len().min(wanted)])),
            Verdict::AskFor(more) => FilteredPage::AskFor(more),
            Verdict::NextPage(token) => FilteredPage::NextPage(token),
            Verdict::NothingVisible => FilteredPage::NothingVisible,
        }
    }

    /// The body without any version.
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

impl Tally {
    /// Decides on the page. `limit` is the client's limit; `asked` is the limit that was sent to the catalog.
    pub fn verdict(&self, limit: Option<u64>, asked: Option<u64>) -> Verdict {
        let wanted = limit.unwrap_or(u64::MAX);
        let visible = self.listed - self.hidden;
        let is_cut = asked.is_some_and(|asked| self.listed >= asked);
        // A short page with a token is a valid page. Without a token, the catalog's limit may have cut off visible
        // versions.
        if self.hidden > 0 && visible < wanted && is_cut && self.token.is_none() {
            return Verdict::AskFor(self.hidden);
        }
        if self.hidden > 0 && visible == 0 {
            let next = self.token.clone();
            return next.map_or(Verdict::NothingVisible, Verdict::NextPage);
        }
        if self.hidden == 0 && visible <= wanted {
            return Verdict::Untouched;
        }
        Verdict::Shown
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
