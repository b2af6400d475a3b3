//! Where JSON values begin and end (RFC 8259): one pass over the bytes, nothing is built, nothing recurses.

/// What was read is no JSON.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken;

/// Goes through a text.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

/// A string as it is spelled.
#[derive(Clone, Copy)]
pub(super) struct Spelled<'a> {
    /// Without its quotes.
    pub(super) inner: &'a str,
    /// Whether it has escapes.
    pub(super) escaped: bool,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Passes `byte` if it comes next, white space before it or not.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        self.space();
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    /// Passes the string that comes next.
    pub(super) fn string(&mut self) -> Result<Spelled<'a>, Broken> {
        if !self.take(b'"') {
            return Err(Broken);
        }
        let start = self.at;
        let mut escaped = false;
        loop {
            self.plain();
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                _ => return Err(Broken),
            }
            escaped = true;
        }
        let inner = &self.text[start..self.at];
        self.at += 1;
        Ok(Spelled { inner, escaped })
    }

    /// Passes the value that comes next, and answers with it as it is spelled.
    pub(super) fn value(&mut self) -> Result<&'a str, Broken> {
        self.space();
        let start = self.at;
        match self.peek() {
            Some(open @ (b'{' | b'[')) => self.nested(open)?,
            _ => self.single()?,
        }
        Ok(&self.text[start..self.at])
    }

    /// That nothing but white space is left.
    pub(super) fn end(&mut self) -> Result<(), Broken> {
        self.space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(Broken),
        }
    }

    /// An object or array, whatever is in it.
    fn nested(&mut self, open: u8) -> Result<(), Broken> {
        self.at += 1;
        // What ends the innermost one, and what ends those around it.
        let mut closing = closing(open);
        let mut outer = Vec::new();
        let mut fresh = true;
        loop {
            let mut closed = fresh && self.take(closing);
            if !closed {
                if closing == b'}' {
                    self.string()?;
                    self.expect(b':')?;
                }
                self.space();
                if let Some(open @ (b'{' | b'[')) = self.peek() {
                    self.at += 1;
                    outer.push(closing);
                    closing = self::closing(open);
                    fresh = true;
                    continue;
                }
                self.single()?;
            }
            loop {
                if closed {
                    match outer.pop() {
                        Some(around) => closing = around,
                        None => return Ok(()),
                    }
                }
                if self.take(b',') {
                    fresh = false;
                    break;
                }
                self.expect(closing)?;
                closed = true;
            }
        }
    }

    /// A value with no others in it.
    fn single(&mut self) -> Result<(), Broken> {
        match self.peek() {
            Some(b'"') => self.string().map(drop),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => Err(Broken),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), Broken> {
        if !self.rest().starts_with(word.as_bytes()) {
            return Err(Broken);
        }
        self.at += word.len();
        Ok(())
    }

    fn number(&mut self) -> Result<(), Broken> {
        self.pass(|byte| byte == b'-');
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.pass(|byte| byte == b'.') {
            self.digits()?;
        }
        if self.pass(|byte| matches!(byte, b'e' | b'E')) {
            self.pass(|byte| matches!(byte, b'+' | b'-'));
            self.digits()?;
        }
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Broken> {
        let start = self.at;
        while self.pass(|byte| byte.is_ascii_digit()) {}
        match self.at > start {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    /// The escape that comes next. Which character it is, is of no concern.
    fn escape(&mut self) -> Result<(), Broken> {
        let rest = self.rest();
        self.at += match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') => match rest.get(2..6) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => 6,
                _ => return Err(Broken),
            },
            _ => return Err(Broken),
        };
        Ok(())
    }

    /// What a string is made of up to its end, an escape, or what it may not have.
    fn plain(&mut self) {
        let (words, _) = self.rest().as_chunks::<8>();
        for word in words {
            let other = others(u64::from_le_bytes(*word));
            if other != 0 {
                self.at += other.trailing_zeros() as usize / 8;
                return;
            }
            self.at += 8;
        }
        while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..0x20)) {
            self.at += 1;
        }
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8) -> Result<(), Broken> {
        match self.take(byte) {
            true => Ok(()),
            false => Err(Broken),
        }
    }

    /// Passes a byte that is such a one, if it comes next.
    fn pass(&mut self, is_such: impl Fn(u8) -> bool) -> bool {
        let passes = self.peek().is_some_and(is_such);
        self.at += usize::from(passes);
        passes
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }
}

fn closing(open: u8) -> u8 {
    match open {
        b'{' => b'}',
        _ => b']',
    }
}

/// The highest bit of each byte that is a quote, a backslash or a control character; those after the first may be wrong.
fn others(word: u64) -> u64 {
    const ONES: u64 = u64::from_le_bytes([1; 8]);
    let below = |word: u64, bound: u8| word.wrapping_sub(ONES * u64::from(bound)) & !word;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (below(word, 0x20) | is(b'"') | is(b'\\')) & (ONES << 7)
}

#[cfg(test)]
mod tests;
