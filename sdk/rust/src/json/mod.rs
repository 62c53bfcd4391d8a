//! JSON for configs and payloads: strict, of bounded depth, and with numbers
//! kept as they are written.
//!
//! ```
//! let v = pawl::json::parse(br#"{"spec": {"replicas": 1.50, "names": ["a"]}}"#).unwrap();
//! assert_eq!(v.at("/spec/names/0").and_then(|n| n.as_str()), Some("a"));
//! assert_eq!(v.at("/spec/replicas").unwrap().to_string(), "1.50");
//! ```

mod read;
mod write;

use std::fmt;

pub use read::{parse, Error, MAX_DEPTH};

/// A JSON value. Two are equal by value: the order of an object's members does
/// not count, numbers are compared as they are written.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number as it is written, so that none loses digits.
    Number(Number),
    /// A string, unescaped.
    String(String),
    /// An array.
    Array(Vec<Value>),
    /// An object: its members in the order in which they are written, no name twice.
    Object(Vec<(String, Value)>),
}

/// A number's text, which is valid JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Number(String);

impl Number {
    /// The number as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Value {
    /// The member of that name, of an object that has it.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.members()?.iter().find(|(n, _)| n == name).map(|(_, v)| v)
    }

    /// What a JSON Pointer (RFC 6901) leads to: "/a/0" is the first element of member a.
    pub fn at(&self, pointer: &str) -> Option<&Value> {
        if pointer.is_empty() {
            return Some(self);
        }
        let mut value = self;
        for step in pointer.strip_prefix('/')?.split('/') {
            value = match value {
                Value::Object(_) => value.get(&step.replace("~1", "/").replace("~0", "~"))?,
                Value::Array(items) if step == "0" || !step.starts_with(['0', '+']) => items.get(step.parse::<usize>().ok()?)?,
                _ => return None,
            };
        }
        Some(value)
    }

    /// The text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    /// A bool.
    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    /// A number that is written as a whole one and fits.
    pub fn as_i64(&self) -> Option<i64> {
        self.number()?.as_str().parse().ok()
    }

    /// A number that is written as a whole one and fits.
    pub fn as_u64(&self) -> Option<u64> {
        self.number()?.as_str().parse().ok()
    }

    /// The nearest floating-point number.
    pub fn as_f64(&self) -> Option<f64> {
        self.number()?.as_str().parse().ok()
    }

    /// A number as it is written.
    pub fn number(&self) -> Option<&Number> {
        match self {
            Value::Number(n) => Some(n),
            _ => None,
        }
    }

    /// The elements of an array.
    pub fn items(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members of an object.
    pub fn members(&self) -> Option<&[(String, Value)]> {
        match self {
            Value::Object(members) => Some(members),
            _ => None,
        }
    }

    /// An error unless the value is an object that has no members but those: for
    /// configs, in which a misspelt name must not pass for a default.
    pub fn only(&self, names: &[&str]) -> Result<(), Error> {
        let members = self.members().ok_or_else(|| Error::of("an object is needed".to_owned()))?;
        match members.iter().find(|(n, _)| !names.contains(&n.as_str())) {
            None => Ok(()),
            Some((n, _)) if names.is_empty() => Err(Error::of(format!("{:?} is not known; nothing can be set here", n))),
            Some((n, _)) => Err(Error::of(format!("{:?} is not known; there is {}", n, names.join(", ")))),
        }
    }

    /// What sort of value it is; for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a bool",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Number(a), Value::Number(b)) => a == b,
            (Value::String(a), Value::String(b)) => a == b,
            (Value::Array(a), Value::Array(b)) => a == b,
            (Value::Object(a), Value::Object(b)) => same_members(a, b),
            _ => false,
        }
    }
}

/// Sorts rather than searches, so that objects with very many members don't
/// take time by the square.
fn same_members(a: &[(String, Value)], b: &[(String, Value)]) -> bool {
    fn sorted(members: &[(String, Value)]) -> Vec<&(String, Value)> {
        let mut refs: Vec<_> = members.iter().collect();
        refs.sort_by(|x, y| x.0.cmp(&y.0));
        refs
    }
    a.len() == b.len() && sorted(a) == sorted(b)
}

impl fmt::Display for Value {
    /// The value as compact JSON.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write::value(self, f)
    }
}

impl From<&str> for Value {
    fn from(s: &str) -> Value {
        Value::String(s.to_owned())
    }
}

impl From<String> for Value {
    fn from(s: String) -> Value {
        Value::String(s)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Number(Number(n.to_string()))
    }
}

impl From<u64> for Value {
    fn from(n: u64) -> Value {
        Value::Number(Number(n.to_string()))
    }
}

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Value {
        Value::Array(items)
    }
}

impl From<Error> for crate::Error {
    /// No later try will mend the text: rejected.
    fn from(e: Error) -> crate::Error {
        crate::Error::rejected(e.to_string())
    }
}

#[cfg(test)]
mod tests;
