//! Random answers to listings, for tests that compare a reader of pieces with a parser.

use crate::util::dice::Dice;

/// The bytes with which answers are garbled.
const BYTES: &[u8] = b"{}[]\",:\\ \x00\xff\xc3nu0e-.";

/// Writes answers at random.
pub(crate) struct Author(pub(crate) Dice);

impl Author {
    fn space(&mut self) -> &'static str {
        self.0.one_of(&["", "", "", " ", "\r\n\t "])
    }

    fn string(&mut self) -> String {
        let parts = [
            "a",
            "t1",
            "$",
            "\\u0041",
            "\\n",
            "\\\"",
            "\\\\",
            "\u{e9}",
            "\\ud83d\\ude00",
            "\u{1f600}",
            "]",
            ",",
            "}",
            "\\ud83d",
            "\\x",
            "\t",
        ];
        // The last three are not allowed in a string.
        let most = if self.0.below(60) == 0 {
            parts.len()
        } else {
            parts.len() - 3
        };
        let count = self.0.below(5);
        let text: String = (0..count).map(|_| parts[self.0.below(most)]).collect();
        format!("\"{text}\"")
    }

    fn value(&mut self, depth: usize) -> String {
        let count = self.0.below(4);
        match self.0.below(if depth > 3 { 3 } else { 5 }) {
            0 => self.string(),
            1 => self
                .0
                .one_of(&[
                    "null", "true", "0", "-1.5e+3", "7", "01", "1.", "nul", "-", "1e999",
                ])
                .to_owned(),
            2 => self.0.one_of(&["[]", "{}", "[ ]"]).to_owned(),
            3 => {
                let values: Vec<_> = (0..count).map(|_| self.value(depth + 1)).collect();
                format!("[{}]", values.join(","))
            }
            _ => {
                let (a, b) = (self.space(), self.space());
                let members = (0..count).map(|_| {
                    let (name, value) = (self.string(), self.value(depth + 1));
                    format!("{a}{name}{b}:{value}")
                });
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }
        }
    }

    fn list(&mut self) -> String {
        match self.0.below(20) {
            0 => return "null".to_owned(),
            1 => return self.value(0),
            _ => {}
        }
        let count = self.0.below(6);
        let names = (0..count).map(|_| {
            let (a, b) = (self.space(), self.space());
            let name = if self.0.below(100) == 0 {
                self.value(0)
            } else {
                self.string()
            };
            format!("{a}{name}{b}")
        });
        format!("[{}]", names.collect::<Vec<_>>().join(","))
    }

    /// Returns an answer, which a parser may refuse.
    pub(crate) fn answer(&mut self) -> String {
        let count = 1 + self.0.below(5);
        let members = (0..count).map(|_| {
            let (a, b, c) = (self.space(), self.space(), self.space());
            let (name, value) = match self.0.below(5) {
                0 => ("\"namespaces\"".to_owned(), self.list()),
                1 => ("\"tables\"".to_owned(), self.list()),
                2 => ("\"t\\u0061bles\"".to_owned(), self.list()),
                3 if self.0.below(10) == 0 => ("\"page_token\"".to_owned(), self.value(0)),
                3 => {
                    let token = if self.0.below(2) == 0 {
                        self.string()
                    } else {
                        "null".to_owned()
                    };
                    ("\"page_token\"".to_owned(), token)
                }
                _ => (self.string(), self.value(0)),
            };
            format!("{a}{name}{b}:{c}{value}{a}")
        });
        let members = members.collect::<Vec<_>>().join(",");
        format!("{}{{{members}}}{}", self.space(), self.space())
    }

    /// Changes some bytes.
    pub(crate) fn garble(&mut self, body: &mut Vec<u8>) {
        for _ in 0..=self.0.below(3) {
            let at = self.0.below(body.len());
            let byte = BYTES[self.0.below(BYTES.len())];
            match self.0.below(4) {
                0 => drop(body.remove(at)),
                1 => body.insert(at, byte),
                2 => body[at] = byte,
                _ => body.truncate(at),
            }
            if body.is_empty() {
                return;
            }
        }
    }
}
