//! The first line is the delimiter, the rest is a path segment.

use nsgate::protocol::identifier::{Identifier, MAX_BYTES, MAX_NAMES, decode_segment};

pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let (delimiter, segment) = text.split_once('\n').unwrap_or(("$", text));
    let decoded = decode_segment(segment).ok();
    assert_eq!(decoded.as_deref(), decode(segment).as_deref());
    let Ok(id) = Identifier::parse_segment(segment, delimiter) else {
        return;
    };
    legal(&id);
    // An identifier that was split at a delimiter can be joined with it to the same text.
    if !delimiter.is_empty() {
        let joined = id.to_text(delimiter).expect("it was split at it");
        assert_eq!(Some(joined.as_str()), decoded.as_deref());
    }
    for delimiter in [delimiter, "$", ".", "/"] {
        let Ok(printed) = id.to_segment(delimiter) else {
            continue;
        };
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~%".contains(&b);
        assert!(printed.bytes().all(plain), "{printed}");
        assert_eq!(
            Identifier::parse_segment(&printed, delimiter).as_ref(),
            Ok(&id)
        );
    }
    let good = Identifier::delimiter_for(&[&id]);
    let printed = id.to_text(&good).expect("it was chosen for it");
    assert_eq!(Identifier::parse(&printed, &good).as_ref(), Ok(&id));
    family(&id);
}

fn legal(id: &Identifier) {
    let names: Vec<&str> = id.names().collect();
    assert!(names.len() <= MAX_NAMES);
    assert!(names.iter().map(|name| name.len()).sum::<usize>() <= MAX_BYTES);
    assert!(
        names
            .iter()
            .all(|name| !name.is_empty() && !name.contains('\0'))
    );
    assert_eq!(id.len(), names.len());
    assert_eq!(id.is_root(), names.is_empty());
    assert_eq!(id.last(), names.last().copied());
    assert_eq!(Identifier::from_names(&names).as_ref(), Ok(id));
}

/// Checks the parents, the children and other roots of an identifier.
fn family(id: &Identifier) {
    let Some(parent) = id.parent() else {
        assert!(id.is_root());
        return;
    };
    let last = id.last().expect("not the root");
    assert_eq!(parent.join(last).as_ref(), Ok(id));
    assert!(id.starts_with(&parent) && !parent.starts_with(id) && parent < *id);
    assert!(id.below(&parent).expect("its parent").eq([last]));
    let longer = Identifier::from_names(
        id.names()
            .take(id.len() - 1)
            .chain([format!("{last}x").as_str()]),
    );
    if let Ok(longer) = longer {
        assert!(!longer.starts_with(id), "by names, not by characters");
        let names = |id: &Identifier| id.names().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(longer.cmp(id), names(&longer).cmp(&names(id)));
    }
    let elsewhere = Identifier::from_names(["else", "where"]).expect("an identifier");
    for (from, to) in [
        (&parent, &elsewhere),
        (&Identifier::root(), &elsewhere),
        (id, &Identifier::root()),
    ] {
        let Some(moved) = id.rebase(from, to) else {
            let tail = id.names().skip(from.len());
            assert!(Identifier::from_names(to.names().chain(tail)).is_err());
            continue;
        };
        legal(&moved);
        assert!(moved.starts_with(to));
        assert_eq!(moved.rebase(to, from).as_ref(), Some(id));
    }
}

/// Decodes by RFC 3986, section 2.1, as simply as possible.
fn decode(segment: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
                u8::try_from(high * 16 + low).ok()?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).ok()
}
