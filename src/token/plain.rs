//! The JSON of most tokens: one object of few members, none of them an object, and no escapes.
//!
//! It is read in one go. Whatever is anything else is left to the reader of all JSON, also what is wrong.

use super::json::Claim;

/// So many members are compared each with each.
const MOST: usize = 16;
/// Integers of so many digits are the same for everybody.
const DIGITS: usize = 15;

/// The members of the object that is all of `text`; `None` when it is not as plain as that.
pub(super) fn members(text: &str) -> Option<Vec<(&str, Claim<'_>)>> {
    let mut rest = Rest { text, at: 0 };
    let mut members = Vec::with_capacity(MOST);
    rest.skip_space();
    rest.eat(b'{')?;
    loop {
        rest.skip_space();
        let name = rest.string()?;
        if members.len() == MOST || members.iter().any(|(other, _)| *other == name) {
            return None;
        }
        rest.skip_space();
        rest.eat(b':')?;
        rest.skip_space();
        members.push((name, rest.value()?));
        if !rest.goes_on(b'}')? {
            break;
        }
    }
    rest.skip_space();
    (rest.at == text.len()).then_some(members)
}

/// What is left to read.
struct Rest<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Rest<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\t' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    /// Whether a comma comes, and not the `end`.
    fn goes_on(&mut self, end: u8) -> Option<bool> {
        self.skip_space();
        let byte = self.peek()?;
        self.at += 1;
        match byte {
            b',' => Some(true),
            byte if byte == end => Some(false),
            _ => None,
        }
    }

    fn value(&mut self) -> Option<Claim<'a>> {
        match self.peek()? {
            b'"' => Some(Claim::Text(self.string()?.into())),
            b'0'..=b'9' => self.integer(),
            b'[' => self.strings(),
            _ => self.word(),
        }
    }

    fn string(&mut self) -> Option<&'a str> {
        self.eat(b'"')?;
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => break,
                b'\\' | ..b' ' => return None,
                _ => self.at += 1,
            }
        }
        let text = self.text.get(start..self.at)?;
        self.at += 1;
        Some(text)
    }

    fn integer(&mut self) -> Option<Claim<'a>> {
        let (start, mut number) = (self.at, 0);
        while let Some(digit @ b'0'..=b'9') = self.peek() {
            number = number * 10 + u64::from(digit - b'0');
            self.at += 1;
            if self.at - start > DIGITS {
                return None;
            }
        }
        // A fraction or an exponent is no end of a member, nor is a digit after a leading zero.
        let leads = number != 0 && self.text.as_bytes()[start] == b'0';
        let zeros = number == 0 && self.at - start > 1;
        (!leads && !zeros).then(|| Claim::Number(number.into()))
    }

    fn strings(&mut self) -> Option<Claim<'a>> {
        self.eat(b'[')?;
        let mut texts = Vec::new();
        loop {
            self.skip_space();
            texts.push(self.string()?.into());
            if !self.goes_on(b']')? {
                return Some(Claim::Texts(texts));
            }
        }
    }

    fn word(&mut self) -> Option<Claim<'a>> {
        let rest = self.text.get(self.at..)?;
        let mut words = ["true", "false", "null"].into_iter();
        self.at += words.find(|word| rest.starts_with(word))?.len();
        Some(Claim::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::token::json::read;

    const PLAIN: [&str; 6] = [
        r#"{"alg":"RS256","typ":"JWT","kid":"k1"}"#,
        r#"{"iss":"https://a.test","aud":["a","b"],"sub":"é","exp":1800000000,"iat":0,"x":true}"#,
        " {\t\"a\" :\n[ \"b\" , \"c\" ] , \"d\" : null,\r\"e\": false } ",
        r#"{"a":999999999999999,"b":"","":10}"#,
        r#"{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1,"o":1,"p":1}"#,
        r#"{"a":"}","b":"{","c":",","d":["]","["]}"#,
    ];

    /// Whether it is read here; if so, the reader of all JSON must say the same.
    fn agree(text: &str) -> bool {
        let Some(members) = members(text) else {
            return false;
        };
        let mut all = Vec::new();
        let read = read(text, |name, value: Claim<'_>| {
            all.push(format!("{name:?} {value:?}"));
        });
        assert!(read.is_some(), "{text}");
        let here = members
            .iter()
            .map(|(name, value)| format!("{name:?} {value:?}"));
        assert!(here.eq(all), "{text}");
        true
    }

    #[test]
    fn what_is_plain_is_read_as_everywhere() {
        for text in PLAIN {
            assert!(agree(text), "{text}");
        }
    }

    #[test]
    fn what_differs_in_a_byte_is_read_as_everywhere_or_not_here() {
        let bytes = b"\0\n\" $%,./:0159=[\\]{}aetEx-+\x7f";
        for text in PLAIN {
            for at in (0..=text.len()).filter(|at| text.is_char_boundary(*at)) {
                let (head, tail) = text.split_at(at);
                let rest = tail
                    .chars()
                    .next()
                    .map_or("", |one| &tail[one.len_utf8()..]);
                agree(&format!("{head}{rest}"));
                for &byte in bytes {
                    let byte = char::from(byte);
                    agree(&format!("{head}{byte}{rest}"));
                    agree(&format!("{head}{byte}{tail}"));
                }
            }
        }
    }

    #[test]
    fn what_is_not_plain_is_not_read_here() {
        let many: Vec<_> = (0..=MOST)
            .map(|number| format!(r#""m{number}":0"#))
            .collect();
        let cases = [
            "{}",
            "",
            "[]",
            r#"{"a":1,"a":1}"#,
            r#"{"a":{}}"#,
            r#"{"a":[1]}"#,
            r#"{"a":[]}"#,
            r#"{"a":-1}"#,
            r#"{"a":1.5}"#,
            r#"{"a":1e5}"#,
            r#"{"a":01}"#,
            r#"{"a":00}"#,
            r#"{"a":1000000000000000}"#,
            r#"{"a":"\u0061"}"#,
            r#"{"\u0061":1}"#,
            "{\"a\":\"\n\"}",
            r#"{"a":1,}"#,
            r#"{"a":1} {}"#,
            r#"{"a":truex}"#,
            &format!("{{{}}}", many.join(",")),
        ];
        for text in cases {
            assert!(members(text).is_none(), "{text}");
        }
    }
}
