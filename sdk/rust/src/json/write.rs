use std::fmt::{Formatter, Result, Write};

use super::Value;

pub(super) fn value(v: &Value, f: &mut Formatter<'_>) -> Result {
    match v {
        Value::Null => f.write_str("null"),
        Value::Bool(b) => f.write_str(if *b { "true" } else { "false" }),
        Value::Number(n) => f.write_str(n.as_str()),
        Value::String(s) => string(s, f),
        Value::Array(items) => {
            f.write_char('[')?;
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_char(',')?;
                }
                value(item, f)?;
            }
            f.write_char(']')
        }
        Value::Object(members) => {
            f.write_char('{')?;
            for (i, (name, member)) in members.iter().enumerate() {
                if i > 0 {
                    f.write_char(',')?;
                }
                string(name, f)?;
                f.write_char(':')?;
                value(member, f)?;
            }
            f.write_char('}')
        }
    }
}

fn string(s: &str, f: &mut Formatter<'_>) -> Result {
    f.write_char('"')?;
    let mut plain = 0; // start of what needs no escape
    for (i, byte) in s.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        f.write_str(&s[plain..i])?;
        plain = i + 1;
        match byte {
            b'"' => f.write_str("\\\"")?,
            b'\\' => f.write_str("\\\\")?,
            b'\n' => f.write_str("\\n")?,
            b'\r' => f.write_str("\\r")?,
            b'\t' => f.write_str("\\t")?,
            _ => write!(f, "\\u{:04x}", byte)?,
        }
    }
    f.write_str(&s[plain..])?;
    f.write_char('"')
}
