//! Tests that the codec agrees with the golden vectors of the ABI, which
//! `sdk/abi/README.md` describes. They stand beside the SDK in Pawl's checkout;
//! `PAWL_VECTORS` names another folder.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::fs;

use crate::hex;
use crate::json::{self, Value};
use crate::message::{Answer, BatchAnswer, BatchRequest, Config, HttpAnswer, HttpRequest, Manifest, Op, Request, Sleep};
use crate::whole::{CompareAnswer, Comparison, PollAnswer, PollRequest};
use crate::wire::{Enum, Malformed, Message};

type Members = Vec<(String, Value)>;

/// Adds a field to what a message says; nothing for its default.
pub(crate) trait Show {
    fn show(&self, name: &str, to: &mut Members);
}

/// A message as the vectors have it.
pub(crate) trait Fields {
    fn fields(&self) -> Value;
}

/// An enum whose values the vectors call by their names in the schema.
pub(crate) trait Named: Enum + Debug + 'static {
    fn name(&self) -> Value {
        let mut name = String::new();
        if std::any::TypeId::of::<Self>() == std::any::TypeId::of::<Op>() {
            name.push_str("OP");
        }
        for c in format!("{:?}", self).chars() {
            if c.is_uppercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(c.to_ascii_uppercase());
        }
        name.into()
    }
}

fn put(to: &mut Members, name: &str, value: impl Into<Value>) {
    let name = if name == "reference" { "ref" } else { name }; // a keyword
    to.push((name.to_owned(), value.into()));
}

impl Show for u64 {
    fn show(&self, name: &str, to: &mut Members) {
        if *self != 0 {
            put(to, name, self.to_string());
        }
    }
}

impl Show for i64 {
    fn show(&self, name: &str, to: &mut Members) {
        if *self != 0 {
            put(to, name, self.to_string());
        }
    }
}

impl Show for u32 {
    fn show(&self, name: &str, to: &mut Members) {
        if *self != 0 {
            put(to, name, u64::from(*self));
        }
    }
}

impl Show for bool {
    fn show(&self, name: &str, to: &mut Members) {
        if *self {
            put(to, name, true);
        }
    }
}

impl Show for String {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, self.as_str());
        }
    }
}

impl Show for Vec<u8> {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, hex(self));
        }
    }
}

impl Show for Option<Vec<u8>> {
    fn show(&self, name: &str, to: &mut Members) {
        if let Some(bytes) = self {
            bytes.show(name, to);
            put(to, &format!("has_{}", name), true);
        }
    }
}

impl Show for Vec<String> {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, self.iter().map(|s| s.as_str().into()).collect::<Vec<_>>());
        }
    }
}

impl Show for Vec<Vec<u8>> {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, self.iter().map(|b| hex(b).into()).collect::<Vec<_>>());
        }
    }
}

impl Show for BTreeMap<String, String> {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, Value::Object(self.iter().map(|(k, v)| (k.clone(), v.as_str().into())).collect()));
        }
    }
}

impl<M: Fields> Show for Option<M> {
    fn show(&self, name: &str, to: &mut Members) {
        if let Some(message) = self {
            put(to, name, message.fields());
        }
    }
}

impl<M: Fields> Show for Vec<M> {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, self.iter().map(M::fields).collect::<Vec<_>>());
        }
    }
}

impl<E: Named> Show for E {
    fn show(&self, name: &str, to: &mut Members) {
        if self.number() != 0 {
            put(to, name, self.name());
        }
    }
}

/// Repeated enums; a trait of its own would be needed to fit them in above.
impl Show for Vec<Op> {
    fn show(&self, name: &str, to: &mut Members) {
        if !self.is_empty() {
            put(to, name, self.iter().map(Op::name).collect::<Vec<_>>());
        }
    }
}

fn reason(e: Malformed) -> &'static str {
    match e {
        Malformed::Truncated => "truncated",
        Malformed::Varint => "varint",
        Malformed::Tag => "tag",
        Malformed::Group => "group",
        Malformed::WireType => "wire-type",
        Malformed::Utf8 => "utf-8",
        Malformed::Enum => "enum",
    }
}

/// What the bytes say, and the bytes that this codec writes for it.
fn pass<M: Message + Fields>(bytes: &[u8]) -> Result<(Value, Vec<u8>), Malformed> {
    let message = M::decode(bytes)?;
    Ok((message.fields(), message.encode()))
}

fn pass_by_name(message: &str, bytes: &[u8]) -> Result<(Value, Vec<u8>), Malformed> {
    match message {
        "Configure" => pass::<Config>(bytes),
        "Request" => pass::<Request>(bytes),
        "Result" => pass::<Answer>(bytes),
        "BatchRequest" => pass::<BatchRequest>(bytes),
        "BatchResult" => pass::<BatchAnswer>(bytes),
        "PollRequest" => pass::<PollRequest>(bytes),
        "PollResult" => pass::<PollAnswer>(bytes),
        "CompareRequest" => pass::<Comparison>(bytes),
        "CompareResult" => pass::<CompareAnswer>(bytes),
        "Manifest" => pass::<Manifest>(bytes),
        "HTTPRequest" => pass::<HttpRequest>(bytes),
        "HTTPResponse" => pass::<HttpAnswer>(bytes),
        "Sleep" => pass::<Sleep>(bytes),
        _ => panic!("no codec for {}", message),
    }
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|i| u8::from_str_radix(&text[i..i + 2], 16).unwrap()).collect()
}

fn vectors() -> Vec<(String, Value)> {
    let dir = std::env::var("PAWL_VECTORS").unwrap_or_else(|_| "../abi/vectors".to_owned());
    let files = match fs::read_dir(&dir) {
        Ok(files) => files,
        Err(e) => panic!("the golden vectors are not in {}: {}; say by PAWL_VECTORS where they are", dir, e),
    };
    let vectors = files.map(|file| {
        let path = file.unwrap().path();
        let vector = json::parse(&fs::read(&path).unwrap()).unwrap_or_else(|e| panic!("{}: {}", path.display(), e));
        (path.display().to_string(), vector)
    });
    vectors.collect()
}

#[test]
fn the_codec_agrees_with_the_golden_vectors() {
    let vectors = vectors();
    assert!(vectors.len() >= 70, "only {} vectors", vectors.len());
    for (path, vector) in vectors {
        let text = |name| vector.get(name).and_then(Value::as_str).unwrap_or_default();
        let is = |name| vector.get(name).and_then(Value::as_bool).unwrap_or(false);
        let got = pass_by_name(text("message"), &unhex(text("hex")));
        if !is("valid") {
            assert_eq!(got.err().map(reason), Some(text("error")), "{}", path);
            continue;
        }
        let (value, encoded) = got.unwrap_or_else(|e| panic!("{}: {}", path, e));
        assert_eq!(&value, vector.get("value").unwrap_or(&Value::Object(Vec::new())), "{}", path);
        if is("canonical") {
            assert_eq!(hex(&encoded), text("hex"), "{}", path);
        }
    }
}

/// Every cut and every changed byte of a valid message is decoded or refused,
/// and what is decoded says the same after it was encoded.
#[test]
fn no_bytes_make_the_codec_panic() {
    for (path, vector) in vectors() {
        let name = vector.get("message").and_then(Value::as_str).unwrap();
        let bytes = unhex(vector.get("hex").and_then(Value::as_str).unwrap());
        let again = |bytes: &[u8]| {
            if let Ok((value, encoded)) = pass_by_name(name, bytes) {
                assert_eq!(pass_by_name(name, &encoded), Ok((value, encoded.clone())), "{}: {}", path, hex(bytes));
            }
        };
        for end in 0..bytes.len().min(300) {
            again(&bytes[..end]);
            let mut changed = bytes.clone();
            for bit in 0..8 {
                changed[end] = bytes[end] ^ 1 << bit;
                again(&changed);
            }
        }
    }
}
