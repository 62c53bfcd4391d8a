use std::collections::BTreeSet;
use std::fmt;

use super::{Number, Value};

/// How deep arrays and objects may be nested.
pub const MAX_DEPTH: usize = 128;

/// What is wrong with a JSON text. It never repeats values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Offset of the byte at which reading stopped; None where the text as such was right.
    pub offset: Option<usize>,
    /// What is wrong there.
    pub message: String,
}

impl Error {
    pub(super) fn of(message: String) -> Error {
        Error { offset: None, message }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(at) => write!(f, "no valid JSON: {} at byte {}", self.message, at),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for Error {}

/// Reads one JSON text (RFC 8259). Refused are, beside what is no JSON, bytes
/// that are no UTF-8, half a surrogate pair, a name that comes twice in one
/// object, nesting beyond [`MAX_DEPTH`], and anything after the value.
pub fn parse(text: &[u8]) -> Result<Value, Error> {
    let text = std::str::from_utf8(text).map_err(|e| Error { offset: Some(e.valid_up_to()), message: "bytes that are no UTF-8".to_owned() })?;
    let mut r = Reader { text, at: 0 };
    r.space();
    let value = r.value(0)?;
    r.space();
    match r.peek() {
        None => Ok(value),
        Some(_) => r.fail("something after the value"),
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize, // on a character's border wherever text is cut
}

impl Reader<'_> {
    fn fail<T>(&self, message: &str) -> Result<T, Error> {
        Err(Error { offset: Some(self.at), message: message.to_owned() })
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.peek() {
            self.at += 1;
        }
    }

    fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn value(&mut self, depth: usize) -> Result<Value, Error> {
        match self.peek() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => self.fail("arrays and objects nested too deep"),
            Some(b'{') => self.object(depth + 1),
            Some(b'[') => self.array(depth + 1),
            Some(b'"') => Ok(Value::String(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", Value::Bool(true)),
            Some(b'f') => self.word("false", Value::Bool(false)),
            Some(b'n') => self.word("null", Value::Null),
            Some(_) => self.fail("a character that begins no value"),
            None => self.fail("an unexpected end"),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Error> {
        if !self.text[self.at..].starts_with(word) {
            return self.fail("a character that begins no value");
        }
        self.at += word.len();
        Ok(value)
    }

    fn array(&mut self, depth: usize) -> Result<Value, Error> {
        let mut items = Vec::new();
        self.at += 1;
        self.space();
        if self.eat(b']') {
            return Ok(Value::Array(items));
        }
        loop {
            self.space();
            items.push(self.value(depth)?);
            self.space();
            if self.eat(b']') {
                return Ok(Value::Array(items));
            }
            if !self.eat(b',') {
                return self.fail("neither a comma nor the end of the array");
            }
        }
    }

    fn object(&mut self, depth: usize) -> Result<Value, Error> {
        let mut members: Vec<(String, Value)> = Vec::new();
        self.at += 1;
        self.space();
        if self.eat(b'}') {
            return Ok(Value::Object(members));
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return self.fail("no name of a member");
            }
            let name = self.string()?;
            self.space();
            if !self.eat(b':') {
                return self.fail("no colon after a name");
            }
            self.space();
            members.push((name, self.value(depth)?));
            self.space();
            if self.eat(b'}') {
                break;
            }
            if !self.eat(b',') {
                return self.fail("neither a comma nor the end of the object");
            }
        }
        let names: BTreeSet<&str> = members.iter().map(|(n, _)| n.as_str()).collect();
        if names.len() < members.len() {
            return self.fail("a name that comes twice in the object that ends");
        }
        Ok(Value::Object(members))
    }

    fn number(&mut self) -> Result<Value, Error> {
        let start = self.at;
        self.eat(b'-');
        if !self.eat(b'0') {
            self.digits()?;
        }
        if self.eat(b'.') {
            self.digits()?;
        }
        if self.eat(b'e') || self.eat(b'E') {
            let _sign = self.eat(b'+') || self.eat(b'-');
            self.digits()?;
        }
        Ok(Value::Number(Number(self.text[start..self.at].to_owned())))
    }

    fn digits(&mut self) -> Result<(), Error> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            return self.fail("a number without a digit");
        }
        Ok(())
    }

    fn string(&mut self) -> Result<String, Error> {
        let mut out = String::new();
        self.at += 1;
        loop {
            let start = self.at;
            while matches!(self.peek(), Some(b) if b >= 0x20 && b != b'"' && b != b'\\') {
                self.at += 1;
            }
            out.push_str(&self.text[start..self.at]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(out);
                }
                Some(b'\\') => out.push(self.escape()?),
                Some(_) => return self.fail("a control character in a string"),
                None => return self.fail("an unexpected end"),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Error> {
        self.at += 1;
        let c = match self.peek() {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode(),
            _ => return self.fail("an unknown escape"),
        };
        self.at += 1;
        Ok(c)
    }

    fn unicode(&mut self) -> Result<char, Error> {
        let first = self.hex4()?;
        let code = match first {
            0xd800..=0xdbff => {
                if !self.text[self.at..].starts_with("\\u") {
                    return self.fail("half a surrogate pair");
                }
                self.at += 1;
                let second = self.hex4()?;
                if !(0xdc00..=0xdfff).contains(&second) {
                    return self.fail("half a surrogate pair");
                }
                0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
            }
            _ => first,
        };
        match char::from_u32(code) {
            Some(c) => Ok(c),
            None => self.fail("half a surrogate pair"),
        }
    }

    /// Reads four digits behind the "u" that it stands on.
    fn hex4(&mut self) -> Result<u32, Error> {
        self.at += 1;
        let mut code = 0;
        for _ in 0..4 {
            match self.peek().and_then(|b| char::from(b).to_digit(16)) {
                Some(digit) => code = code << 4 | digit,
                None => return self.fail("an unknown escape"),
            }
            self.at += 1;
        }
        Ok(code)
    }
}
