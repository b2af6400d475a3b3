//! The query string of a request: read like a form (`application/x-www-form-urlencoded`), and changed without touching
//! the bytes of other parameters.

use std::borrow::Cow;

use percent_encoding::{percent_decode, utf8_percent_encode};

use super::identifier::RESERVED;
use crate::error::Error;

/// The delimiter if the query has none.
pub const DEFAULT_DELIMITER: &str = "$";
/// The most parameters of a query; each is read before anything is known about its sender.
const MOST_PARAMETERS: usize = 128;
/// The longest delimiter, in bytes.
pub const MAX_DELIMITER_BYTES: usize = 64;

/// A raw query string, without its `?`.
#[derive(Clone, Copy, Debug)]
pub struct Query<'a> {
    raw: &'a str,
}

/// The reason for which a parameter cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// A repeated parameter: two servers could pick different values.
    #[error("the query parameter `{0}` is given more than once")]
    Repeated(&'static str),
    /// A value that is not UTF-8 once it is decoded.
    #[error("the query parameter `{0}` is not UTF-8")]
    Utf8(&'static str),
    /// A delimiter that is empty, longer than [`MAX_DELIMITER_BYTES`], or contains a NUL.
    #[error(
        "the query parameter `delimiter` must have 1 to {MAX_DELIMITER_BYTES} bytes and no NUL"
    )]
    Delimiter,
    /// More than [`MOST_PARAMETERS`] parameters.
    #[error("the query has more than {MOST_PARAMETERS} parameters")]
    TooMany,
    /// A `;` that is not percent-encoded.
    #[error("the query has a `;`, by which some servers separate parameters: send it as `%3B`")]
    Separator,
    /// A parameter whose name some servers take for the one that is named here.
    #[error(
        "the query parameter {0:?} is `{1}` to some servers and not to others: write `{1}`, or use another name"
    )]
    Misspelled(String, &'static str),
}

/// The length of the longest name in [`KNOWN`].
const LONGEST: usize = "when_not_matched_by_source_delete_filt".len();

/// The parameters that operations of the contract use.
const KNOWN: [&str; 20] = [
    "delimiter",
    "page_token",
    "limit",
    "include_declared",
    "with_table_uri",
    "load_detailed_metadata",
    "check_declared",
    "branch",
    "descending",
    "mode",
    "properties",
    "storage_options",
    "on",
    "when_matched_update_all",
    "when_matched_update_all_filt",
    "when_not_matched_insert_all",
    "when_not_matched_by_source_delete",
    "when_not_matched_by_source_delete_filt",
    "timeout",
    "use_index",
];

impl<'a> Query<'a> {
    /// Wraps a raw query; checks nothing yet.
    pub fn new(raw: Option<&'a str>) -> Self {
        Self {
            raw: raw.unwrap_or(""),
        }
    }

    /// Refuses a query in which other servers could find other parameters, or other values. Returns the delimiter as it
    /// is spelled, for [`read_delimiter`]; `None` if it is the default in its usual spelling, or missing.
    pub fn check(&self) -> Result<Option<&'a str>, QueryError> {
        if self.is_usual() {
            return Ok(None);
        }
        if memchr::memchr_iter(b'&', self.raw.as_bytes()).count() >= MOST_PARAMETERS {
            return Err(QueryError::TooMany);
        }
        if memchr::memchr(b';', self.raw.as_bytes()).is_some() {
            return Err(QueryError::Separator);
        }
        let (mut seen, mut delimiter) = (0_u32, None);
        for pair in self.pairs() {
            // Decoded once, and not for each known name. One that is not UTF-8 is none of them.
            let name = decode_form(pair.name).unwrap_or_default();
            let place = KNOWN.iter().position(|known| name == *known);
            if let Some(place) = place {
                // `on` may be repeated, to match on several columns.
                if seen & 1 << place != 0 && KNOWN[place] != "on" {
                    return Err(QueryError::Repeated(KNOWN[place]));
                }
                seen |= 1 << place;
                if KNOWN[place] == "delimiter" {
                    delimiter = Some(pair.value);
                }
            } else if let Some(known) = pair.resembles() {
                let name = pair.name[..pair.name.floor_char_boundary(64)].to_owned();
                return Err(QueryError::Misspelled(name, known));
            }
        }
        Ok(delimiter)
    }

    /// Returns the request's delimiter; `$` if it has none.
    pub fn delimiter(&self) -> Result<Cow<'a, str>, QueryError> {
        if self.is_usual() {
            return Ok(Cow::Borrowed(DEFAULT_DELIMITER));
        }
        read_delimiter(self.once("delimiter")?)
    }

    /// True if the delimiter is the default of catalogs, however it is spelled.
    pub fn is_default_delimiter(&self) -> bool {
        if self.is_usual() {
            return true;
        }
        let delimiter = self.delimiter();
        delimiter.is_ok_and(|delimiter| delimiter == DEFAULT_DELIMITER)
    }

    /// True if the query is one that most clients send.
    fn is_usual(&self) -> bool {
        matches!(self.raw, "" | "delimiter=%24")
    }

    /// Returns the decoded value of a parameter that may be given once.
    pub fn get(&self, name: &'static str) -> Result<Option<Cow<'a, str>>, QueryError> {
        let value = self.once(name)?.map(decode_form);
        value
            .map(|value| value.ok_or(QueryError::Utf8(name)))
            .transpose()
    }

    /// Returns the value of such a parameter, as it is spelled.
    fn once(&self, name: &'static str) -> Result<Option<&'a str>, QueryError> {
        let mut values = self.pairs().filter(|pair| pair.is(name));
        let first = values.next();
        if first.is_some() && values.next().is_some() {
            return Err(QueryError::Repeated(name));
        }
        Ok(first.map(|pair| pair.value))
    }

    /// Returns the decoded values of a parameter that may be given more than once, in order.
    pub fn all(
        &self,
        name: &'static str,
    ) -> impl Iterator<Item = Result<Cow<'a, str>, QueryError>> + use<'a> {
        let values = self.pairs().filter(move |pair| pair.is(name));
        values.map(move |pair| decode_form(pair.value).ok_or(QueryError::Utf8(name)))
    }

    /// Returns the query with one parameter set; all others keep their bytes and their order.
    #[must_use]
    pub fn with(&self, name: &str, value: &str) -> String {
        let mut query = self.without(name);
        if !query.is_empty() {
            query.push('&');
        }
        query.push_str(name);
        query.push('=');
        query.extend(utf8_percent_encode(value, RESERVED));
        query
    }

    /// Returns the query without one parameter; all others keep their bytes and their order.
    #[must_use]
    pub fn without(&self, name: &str) -> String {
        let mut query = String::with_capacity(self.raw.len());
        for pair in self.pairs().filter(|pair| !pair.is(name)) {
            if !query.is_empty() {
                query.push('&');
            }
            query.push_str(pair.raw);
        }
        query
    }

    fn pairs(&self) -> impl Iterator<Item = Pair<'a>> + use<'a> {
        let mut rest = self.raw;
        let parts = std::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let raw;
            (raw, rest) = cut(rest, b'&');
            Some(raw)
        });
        parts.filter(|raw| !raw.is_empty()).map(|raw| {
            let (name, value) = cut(raw, b'=');
            Pair { raw, name, value }
        })
    }
}

/// Decodes the spelling of a delimiter in a query; the default delimiter for `None`.
pub fn read_delimiter(spelled: Option<&str>) -> Result<Cow<'_, str>, QueryError> {
    let Some(spelled) = spelled else {
        return Ok(Cow::Borrowed(DEFAULT_DELIMITER));
    };
    let delimiter = decode_form(spelled).ok_or(QueryError::Utf8("delimiter"))?;
    let fits = (1..=MAX_DELIMITER_BYTES).contains(&delimiter.len());
    if fits && !delimiter.contains('\0') {
        Ok(delimiter)
    } else {
        Err(QueryError::Delimiter)
    }
}

struct Pair<'a> {
    raw: &'a str,
    name: &'a str,
    value: &'a str,
}

impl Pair<'_> {
    /// True if a server that decodes names would take this pair for `name`.
    fn is(&self, name: &str) -> bool {
        self.name == name
            || is_encoded(self.name)
                && decode_form(self.name).is_some_and(|decoded| decoded == name)
    }

    /// Returns the known parameter that a lenient server could take this one for: in another case, followed by `[]`,
    /// with other characters in it or around it, or encoded twice.
    fn resembles(&self) -> Option<&'static str> {
        let once = percent_decode(self.name.as_bytes());
        let twice: Vec<u8> = percent_decode(&Cow::from(once)).collect();
        let bare = twice.split(|byte| *byte == b'[').next();
        let bare = bare.filter(|bare| !bare.is_empty()).unwrap_or(&twice);
        // Folded once: what is longer than every known name is none of them.
        let folded = bare.iter().filter(|byte| byte.is_ascii_alphanumeric());
        let folded = folded.map(u8::to_ascii_lowercase).take(LONGEST + 1);
        let folded: Vec<u8> = folded.collect();
        KNOWN.into_iter().find(|known| {
            let letters = known.bytes().filter(u8::is_ascii_alphanumeric);
            letters.eq(folded.iter().copied())
        })
    }
}

/// Returns the parts before and after the first `byte`, which is ASCII.
fn cut(text: &str, byte: u8) -> (&str, &str) {
    match memchr::memchr(byte, text.as_bytes()) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, ""),
    }
}

fn is_encoded(raw: &str) -> bool {
    memchr::memchr2(b'%', b'+', raw.as_bytes()).is_some()
}

fn decode_form(raw: &str) -> Option<Cow<'_, str>> {
    if !is_encoded(raw) {
        return Some(Cow::Borrowed(raw));
    }
    // Most clients encode the default delimiter like this.
    if raw == "%24" {
        return Some(Cow::Borrowed("$"));
    }
    if !raw.contains('+') {
        return percent_decode(raw.as_bytes()).decode_utf8().ok();
    }
    let spaced = raw.replace('+', " ");
    let decoded = percent_decode(spaced.as_bytes()).decode_utf8().ok()?;
    Some(Cow::Owned(decoded.into_owned()))
}

impl From<QueryError> for Error {
    fn from(why: QueryError) -> Self {
        Self::invalid(why.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

    use super::{Query, QueryError, read_delimiter};

    fn query(raw: &str) -> Query<'_> {
        Query::new(Some(raw))
    }

    #[test]
    fn the_delimiter_is_decoded_as_forms_are() {
        let cases = [
            ("", "$"),
            ("limit=3", "$"),
            ("delimiter=%24", "$"),
            ("a=1&delimiter=.&b=2", "."),
            ("%64elimiter=%2F", "/"),
            ("delimiter=::", "::"),
            ("delimiter=+", " "),
            ("delimiter=%E2%86%92", "→"),
            ("&&delimiter=%2B&", "+"),
        ];
        for (raw, delimiter) in cases {
            assert_eq!(query(raw).delimiter().unwrap(), delimiter, "{raw}");
            let spelled = query(raw).check().unwrap();
            assert_eq!(read_delimiter(spelled).unwrap(), delimiter, "{raw}");
        }
        assert_eq!(Query::new(None).delimiter().unwrap(), "$");
    }

    #[test]
    fn a_delimiter_that_servers_could_read_differently_is_refused() {
        let long = format!("delimiter={}", "x".repeat(65));
        let cases = [
            ("delimiter=a&delimiter=b", QueryError::Repeated("delimiter")),
            (
                "delimiter=a&%64elimiter=a",
                QueryError::Repeated("delimiter"),
            ),
            ("delimiter=", QueryError::Delimiter),
            ("delimiter", QueryError::Delimiter),
            ("delimiter=%00", QueryError::Delimiter),
            (&long, QueryError::Delimiter),
            ("delimiter=%FF", QueryError::Utf8("delimiter")),
        ];
        for (raw, error) in cases {
            let checked = query(raw).check().and_then(read_delimiter);
            assert_eq!(checked, Err(error.clone()), "{raw}");
            assert_eq!(query(raw).delimiter(), Err(error), "{raw}");
        }
    }

    #[test]
    fn what_another_server_takes_for_a_known_parameter_is_refused() {
        for raw in [
            "Delimiter=.",
            "DELIMITER=.",
            "delimiter[]=.",
            "delimiter[0]=.",
            "%44elimiter=.",
            "%2564elimiter=.",
            "delimiter%5B%5D=.",
            "+delimiter=.",
            "delimiter%20=.",
            "delimiter%00=.",
            "limit=1&pageToken=x",
            "page.token=x",
            "page-token=x",
            "Branch=dev",
        ] {
            let error = query(raw).check();
            assert!(matches!(error, Err(QueryError::Misspelled(..))), "{raw}");
        }
        for raw in ["x=1;delimiter=.", "delimiter=%24;", ";"] {
            assert_eq!(query(raw).check(), Err(QueryError::Separator), "{raw}");
        }
        for raw in ["limit=1&limit=2", "branch=a&%62ranch=b", "mode=a&x&mode=a"] {
            let error = query(raw).check();
            assert!(matches!(error, Err(QueryError::Repeated(_))), "{raw}");
        }
        for raw in [
            "",
            "delimiter=%24",
            "limit=1&page_token=x&delimiter=.",
            "%64elimiter=.",
            "on=a&on=b",
            "b=2&a=1&a=3&empty=&flag&plus=a+b%20c&with_table_uri=true",
            "x[]=1&newer=%2F%3B&limits=2",
        ] {
            let checked = query(raw).check().and_then(read_delimiter);
            assert_eq!(checked, query(raw).delimiter(), "{raw}");
        }
    }

    #[test]
    fn a_query_of_more_parameters_than_any_client_sends_is_refused() {
        let most = format!("{}&delimiter=.", vec!["on=a"; 127].join("&"));
        assert_eq!(query(&most).check(), Ok(Some(".")));
        for raw in ["on=a", "+", "%25", ""] {
            let long = vec![raw; 129].join("&");
            assert_eq!(query(&long).check(), Err(QueryError::TooMany), "{raw:?}");
        }
        assert!(
            super::KNOWN
                .iter()
                .all(|known| known.len() <= super::LONGEST)
        );
    }

    #[test]
    fn changing_one_parameter_keeps_the_bytes_of_the_others() {
        let raw = "on=a%20b&page_token=x&on=%41+c&empty=&flag";
        assert_eq!(
            query(raw).with("page_token", "a$b c"),
            "on=a%20b&on=%41+c&empty=&flag&page_token=a%24b%20c"
        );
        assert_eq!(
            query(raw).without("page_token"),
            "on=a%20b&on=%41+c&empty=&flag"
        );
        assert_eq!(query("").with("limit", "1"), "limit=1");
        assert_eq!(query("%6cimit=2").with("limit", "1"), "limit=1");
    }
}
