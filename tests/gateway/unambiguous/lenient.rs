//! The different ways in which lenient catalogs read a request, and what each of them would act on.

use percent_encoding::percent_decode_str;
use serde::Deserializer as _;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::catalog::operations::find;
use crate::hostile::wire::Message;

/// The forged value in a request.
pub const FORGED: &str = "evil";

/// Checks a request that reached a catalog whose permitted identifiers begin with `permitted`; returns what is wrong,
/// if anything is.
pub fn judge(request: &Message, permitted: &[&str]) -> Option<String> {
    let line: Vec<&str> = request.start.split(' ').collect();
    let (method, target) = (line[0], line[1]);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let strict = find(method, path);
    if strict.name == "health" {
        return None;
    }
    if let Some(header) = forged_header(request) {
        return Some(format!("header {header}"));
    }
    for (reader, text, is_decoded) in paths(path) {
        let read = find(method, &text);
        if read.name != strict.name && !matches!(read.name, "unlisted" | "health") {
            return Some(format!(
                "{reader} does {} and not {}",
                read.name, strict.name
            ));
        }
        if read.name == "unlisted" && strict.name != "unlisted" {
            continue;
        }
        let Some(id) = read.id else { continue };
        let id = if is_decoded { id } else { decode(&id) };
        for delimiter in delimiters(query) {
            let names: Vec<&str> = id
                .split(&*delimiter)
                .filter(|name| !name.is_empty())
                .collect();
            let lists = strict.name.starts_with("list_") || strict.name.ends_with("_exists");
            let is_above = lists && permitted.starts_with(&names);
            if !names.starts_with(permitted) && !is_above {
                return Some(format!("{reader} with {delimiter:?} acts on {names:?}"));
            }
        }
    }
    let body = std::str::from_utf8(&request.body).ok()?;
    object(body, permitted, 0)
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

/// Returns the path as each kind of reader sees it, with its name and whether the path is decoded.
fn paths(path: &str) -> Vec<(&'static str, String, bool)> {
    let once = decode(path);
    let twice = decode(&once);
    vec![
        ("a raw-path router", path.to_owned(), false),
        (
            "one that takes + for a space",
            path.replace('+', " "),
            false,
        ),
        ("one that overlooks case", lowered(path), false),
        ("a decoded-path router", once.clone(), true),
        ("a proxy that resolves dots", resolved(&once), true),
        ("a double decoder", twice.clone(), true),
        (
            "a double decoder that resolves dots",
            resolved(&twice),
            true,
        ),
    ]
}

/// Returns the path in lower case, except for the identifier.
fn lowered(path: &str) -> String {
    let parts = path
        .split('/')
        .enumerate()
        .map(|(place, part)| match place {
            3 => part.to_owned(),
            _ => part.to_ascii_lowercase(),
        });
    parts.collect::<Vec<_>>().join("/")
}

/// Returns the path without the parameters of segments, what follows `?` or `#`, and empty segments; `.` and `..` are
/// resolved.
fn resolved(path: &str) -> String {
    let path = path.split(['?', '#']).next().unwrap_or_default();
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split(['/', '\\']) {
        match part.split(';').next().unwrap_or_default() {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

/// Returns the delimiters that servers may find in a query, where the first or the last counts in any spelling, and
/// the default one.
fn delimiters(query: &str) -> Vec<String> {
    let mut found = vec!["$".to_owned()];
    for pair in query.split(['&', ';']) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let name = decode(&decode(&name.replace('+', " ")));
        let name: String = name.chars().filter(char::is_ascii_alphanumeric).collect();
        let value = decode(&value.replace('+', " "));
        if name.eq_ignore_ascii_case("delimiter") && !value.is_empty() {
            found.extend([decode(&value), value]);
        }
    }
    found
}

/// Finds a forged value under a name that a server which folds names would believe.
fn forged_header(request: &Message) -> Option<String> {
    const BELIEVED: [&str; 8] = [
        "x-ns-ctx-tenant",
        "x-lance-ctx-tenant",
        "x-forwarded-for",
        "x-forwarded-host",
        "remote-user",
        "x-auth-request-user",
        "x-original-uri",
        "true-client-ip",
    ];
    let folded = |name: &str| name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let mut headers = request.headers.iter();
    let found = headers.find(|(name, value)| {
        value.contains(FORGED) && BELIEVED.contains(&folded(&name.to_ascii_lowercase()).as_str())
    });
    found.map(|(name, value)| format!("{name}: {value}"))
}

/// Returns the members of an object in order, including duplicates.
fn members(text: &str) -> Option<Vec<(String, &str)>> {
    struct All;
    impl<'a> Visitor<'a> for All {
        type Value = Vec<(String, &'a str)>;

        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut all = Vec::new();
            while let Some(name) = map.next_key::<String>()? {
                all.push((name, map.next_value::<&RawValue>()?.get()));
            }
            Ok(all)
        }
    }
    // Like Go's decoder, this reads one value and ignores the rest.
    serde_json::Deserializer::from_str(text)
        .deserialize_map(All)
        .ok()
}

/// Folds a name as Go does to compare names, and as servers do that ignore the separators between words.
fn folded(name: &str) -> String {
    let letters = name.chars().filter_map(|letter| match letter {
        '\u{17f}' => Some('s'),
        '\u{212a}' => Some('k'),
        '\u{130}' | '\u{131}' => Some('i'),
        _ => letter
            .is_ascii_alphanumeric()
            .then(|| letter.to_ascii_lowercase()),
    });
    letters.collect()
}

/// Checks an object that names the targets of an operation; returns what is wrong, if anything is. Servers differ in
/// which of several members counts, so each must be permitted.
fn object(text: &str, permitted: &[&str], depth: usize) -> Option<String> {
    let members = members(text)?;
    let named = |name: &str| {
        let of = members.iter().filter(|(known, _)| folded(known) == name);
        of.map(|(_, value)| *value).collect::<Vec<_>>()
    };
    for name in ["id", "newid", "tableid"] {
        let ids = named(name).into_iter().filter_map(list);
        // Some catalog obeys `table_id` and `new_id` where only the body names the targets.
        let counts =
            name == "id" || depth > 0 || members.iter().any(|(n, _)| folded(n) == "newtablename");
        for id in ids.filter(|id| counts && !id.is_empty()) {
            let cut: Vec<&str> = id.iter().flat_map(|name| name.split('$')).collect();
            let whole: Vec<&str> = id.iter().map(String::as_str).collect();
            if !cut.starts_with(permitted) || !whole.starts_with(permitted) {
                return Some(format!("member {name} acts on {id:?}"));
            }
        }
    }
    for namespace in named("newnamespaceid").into_iter().filter_map(list) {
        let namespace: Vec<&str> = namespace.iter().map(String::as_str).collect();
        if !namespace.starts_with(permitted) {
            return Some(format!("a rename into {namespace:?}"));
        }
    }
    if !named("identity").is_empty() {
        return Some("an identity".to_owned());
    }
    if named("context")
        .iter()
        .any(|context| context.contains(FORGED))
    {
        return Some("a forged context".to_owned());
    }
    if depth > 2 {
        return None;
    }
    let lists = [named("entries"), named("operations")].concat();
    let elements = lists
        .into_iter()
        .filter_map(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok());
    let mut elements = elements.flatten().map(RawValue::get);
    elements.find_map(|element| {
        object(element, permitted, depth + 1).or_else(|| {
            let kinds = self::members(element)?;
            let mut kinds = kinds.into_iter();
            kinds.find_map(|(_, value)| object(value, permitted, depth + 1))
        })
    })
}

fn list(text: &str) -> Option<Vec<String>> {
    serde_json::from_str(text).ok()
}
