//! The protobuf wire format, as far as the ABI uses it, and the tables by which
//! messages and enums are written and read.
//!
//! A message is declared once, by [`message!`], with its fields in ascending
//! order of their numbers; what a field's bytes are is known by its type.

use std::collections::BTreeMap;

/// Why bytes are no message. The reasons are those of `sdk/abi/README.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    Truncated,
    Varint,
    Tag,
    Group,
    WireType,
    Utf8,
    Enum,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Malformed::Truncated => "the message ends in the middle of a field",
            Malformed::Varint => "a number is longer than 64 bits",
            Malformed::Tag => "a field number or wire type is invalid",
            Malformed::Group => "groups are not allowed",
            Malformed::WireType => "a known field has another wire type",
            Malformed::Utf8 => "a string is not valid UTF-8",
            Malformed::Enum => "an enum has an unknown value",
        })
    }
}

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// Reads one message's fields.
pub(crate) struct Decoder<'a> {
    rest: &'a [u8],
    wire: u8, // of the field that next returned
}

impl<'a> Decoder<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Decoder { rest: bytes, wire: 0 }
    }

    /// The next field's number; its value is to be read or skipped.
    fn next(&mut self) -> Result<Option<u32>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        self.wire = (tag & 7) as u8;
        match tag >> 3 {
            0 => Err(Malformed::Tag),
            number if number >= 1 << 29 => Err(Malformed::Tag),
            number => match self.wire {
                3 | 4 => Err(Malformed::Group),
                6 | 7 => Err(Malformed::Tag),
                _ => Ok(Some(number as u32)),
            },
        }
    }

    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (i, &byte) in self.rest.iter().enumerate() {
            if i == 9 && byte > 1 {
                return Err(Malformed::Varint);
            }
            value |= u64::from(byte & 0x7f) << (7 * i);
            if byte < 0x80 {
                self.rest = &self.rest[i + 1..];
                return Ok(value);
            }
        }
        Err(Malformed::Truncated)
    }

    fn take(&mut self, n: u64) -> Result<&'a [u8], Malformed> {
        if n > self.rest.len() as u64 {
            return Err(Malformed::Truncated);
        }
        let (taken, rest) = self.rest.split_at(n as usize);
        self.rest = rest;
        Ok(taken)
    }

    fn delimited(&mut self) -> Result<&'a [u8], Malformed> {
        let n = self.varint()?;
        self.take(n)
    }

    fn expect(&self, wire: u8) -> Result<(), Malformed> {
        if self.wire == wire {
            Ok(())
        } else {
            Err(Malformed::WireType)
        }
    }

    fn uint(&mut self) -> Result<u64, Malformed> {
        self.expect(VARINT)?;
        self.varint()
    }

    fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        self.expect(BYTES)?;
        self.delimited()
    }

    fn string(&mut self) -> Result<String, Malformed> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(s) => Ok(s.to_owned()),
            Err(_) => Err(Malformed::Utf8),
        }
    }

    pub(crate) fn skip(&mut self) -> Result<(), Malformed> {
        match self.wire {
            VARINT => self.varint().map(drop),
            FIXED64 => self.take(8).map(drop),
            FIXED32 => self.take(4).map(drop),
            _ => self.delimited().map(drop),
        }
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_uint(out: &mut Vec<u8>, number: u32, value: u64) {
    if value != 0 {
        put_varint(out, u64::from(number) << 3 | u64::from(VARINT));
        put_varint(out, value);
    }
}

/// Writes a field of bytes, an empty one too.
fn put_bytes(out: &mut Vec<u8>, number: u32, value: &[u8]) {
    put_varint(out, u64::from(number) << 3 | u64::from(BYTES));
    put_varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Writes an embedded message, whose length is known only once it is written.
fn put_nested(out: &mut Vec<u8>, number: u32, write: impl FnOnce(&mut Vec<u8>)) {
    put_varint(out, u64::from(number) << 3 | u64::from(BYTES));
    let start = out.len();
    write(out);
    let mut length = Vec::with_capacity(5);
    put_varint(&mut length, (out.len() - start) as u64);
    out.splice(start..start, length);
}

/// A message of the schema.
pub(crate) trait Message: Default {
    fn write_fields(&self, out: &mut Vec<u8>);
    fn read_field(&mut self, number: u32, d: &mut Decoder<'_>) -> Result<(), Malformed>;

    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write_fields(&mut out);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut message = Self::default();
        let mut d = Decoder::new(bytes);
        while let Some(number) = d.next()? {
            message.read_field(number, &mut d)?;
        }
        Ok(message)
    }
}

/// An enum of the schema.
pub(crate) trait Enum: Copy {
    fn number(self) -> u64;
    fn from_number(number: u64) -> Option<Self>;

    fn known(number: u64) -> Result<Self, Malformed> {
        Self::from_number(number).ok_or(Malformed::Enum)
    }
}

/// What a field of this type looks like. write leaves out what is the default;
/// read is called for each time that the field comes.
pub(crate) trait Field {
    fn write(&self, number: u32, out: &mut Vec<u8>);
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed>;
}

impl Field for u64 {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_uint(out, number, *self);
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = d.uint()?;
        Ok(())
    }
}

impl Field for i64 {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_uint(out, number, *self as u64);
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = d.uint()? as i64;
        Ok(())
    }
}

impl Field for u32 {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_uint(out, number, u64::from(*self));
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = d.uint()? as u32;
        Ok(())
    }
}

impl Field for bool {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        put_uint(out, number, u64::from(*self));
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = d.uint()? != 0;
        Ok(())
    }
}

impl Field for String {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(out, number, self.as_bytes());
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = d.string()?;
        Ok(())
    }
}

impl Field for Vec<u8> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        if !self.is_empty() {
            put_bytes(out, number, self);
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = d.bytes()?.to_vec();
        Ok(())
    }
}

/// Bytes that may be there and empty: the flag in the field after them tells
/// that from none.
impl Field for Option<Vec<u8>> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        if let Some(bytes) = self {
            bytes.write(number, out);
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        let bytes = d.bytes()?.to_vec();
        if self.is_some() || !bytes.is_empty() {
            *self = Some(bytes);
        }
        Ok(())
    }
}

/// Writes and reads the flag of optional bytes.
pub(crate) trait Presence {
    fn write_flag(&self, number: u32, out: &mut Vec<u8>);
    fn read_flag(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed>;
}

impl Presence for Option<Vec<u8>> {
    fn write_flag(&self, number: u32, out: &mut Vec<u8>) {
        self.is_some().write(number, out);
    }
    fn read_flag(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        if d.uint()? != 0 && self.is_none() {
            *self = Some(Vec::new());
        }
        Ok(())
    }
}

impl Field for Vec<String> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for s in self {
            put_bytes(out, number, s.as_bytes());
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.push(d.string()?);
        Ok(())
    }
}

impl Field for Vec<Vec<u8>> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for bytes in self {
            put_bytes(out, number, bytes);
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.push(d.bytes()?.to_vec());
        Ok(())
    }
}

impl<M: Message> Field for Option<M> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        if let Some(message) = self {
            put_nested(out, number, |out| message.write_fields(out));
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        *self = Some(M::decode(d.bytes()?)?);
        Ok(())
    }
}

impl<M: Message> Field for Vec<M> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for message in self {
            put_nested(out, number, |out| message.write_fields(out));
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        self.push(M::decode(d.bytes()?)?);
        Ok(())
    }
}

impl Field for BTreeMap<String, String> {
    fn write(&self, number: u32, out: &mut Vec<u8>) {
        for (key, value) in self {
            put_nested(out, number, |out| {
                put_bytes(out, 1, key.as_bytes());
                put_bytes(out, 2, value.as_bytes());
            });
        }
    }
    fn read(&mut self, d: &mut Decoder<'_>) -> Result<(), Malformed> {
        let mut entry = Decoder::new(d.bytes()?);
        let (mut key, mut value) = (String::new(), String::new());
        while let Some(number) = entry.next()? {
            match number {
                1 => key = entry.string()?,
                2 => value = entry.string()?,
                _ => entry.skip()?,
            }
        }
        self.insert(key, value);
        Ok(())
    }
}

/// Repeated enums are written packed, and read both ways.
pub(crate) fn write_enums<E: Enum>(values: &[E], number: u32, out: &mut Vec<u8>) {
    if !values.is_empty() {
        put_nested(out, number, |out| {
            for v in values {
                put_varint(out, v.number());
            }
        });
    }
}

pub(crate) fn read_enums<E: Enum>(d: &mut Decoder<'_>, values: &mut Vec<E>) -> Result<(), Malformed> {
    if d.wire == VARINT {
        values.push(E::known(d.varint()?)?);
        return Ok(());
    }
    let mut packed = Decoder::new(d.bytes()?);
    while !packed.rest.is_empty() {
        values.push(E::known(packed.varint()?)?);
    }
    Ok(())
}

/// Declares an enum of the schema; its first value is the default.
macro_rules! wire_enum {
    ($(#[$doc:meta])* $name:ident { $(#[$first_doc:meta])* $first:ident = 0, $($(#[$value_doc:meta])* $value:ident = $number:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
        pub enum $name {
            $(#[$first_doc])* #[default] $first = 0,
            $($(#[$value_doc])* $value = $number,)*
        }

        impl crate::wire::Enum for $name {
            fn number(self) -> u64 {
                self as u64
            }
            fn from_number(number: u64) -> Option<Self> {
                match number {
                    0 => Some($name::$first),
                    $($number => Some($name::$value),)*
                    _ => None,
                }
            }
        }

        impl crate::wire::Field for $name {
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                crate::wire::Field::write(&(*self as u64), number, out);
            }
            fn read(&mut self, d: &mut crate::wire::Decoder<'_>) -> Result<(), crate::wire::Malformed> {
                let mut number = 0_u64;
                crate::wire::Field::read(&mut number, d)?;
                *self = crate::wire::Enum::known(number)?;
                Ok(())
            }
        }

        impl crate::wire::Field for Vec<$name> {
            fn write(&self, number: u32, out: &mut Vec<u8>) {
                crate::wire::write_enums(self, number, out);
            }
            fn read(&mut self, d: &mut crate::wire::Decoder<'_>) -> Result<(), crate::wire::Malformed> {
                crate::wire::read_enums(d, self)
            }
        }

        #[cfg(test)]
        impl crate::vectors::Named for $name {}
    };
}

/// Declares a message of the schema: `number field: type`, and for optional
/// bytes `number, flag's number field: Option<Vec<u8>>`, in ascending order.
macro_rules! message {
    ($(#[$doc:meta])* $vis:vis $name:ident { $($(#[$field_doc:meta])* $number:literal $(, $flag:literal)? $field:ident: $type:ty,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl crate::wire::Message for $name {
            fn write_fields(&self, out: &mut Vec<u8>) {
                $(
                    crate::wire::Field::write(&self.$field, $number, out);
                    $(crate::wire::Presence::write_flag(&self.$field, $flag, out);)?
                )*
            }
            fn read_field(&mut self, number: u32, d: &mut crate::wire::Decoder<'_>) -> Result<(), crate::wire::Malformed> {
                match number {
                    $(
                        $number => crate::wire::Field::read(&mut self.$field, d),
                        $($flag => crate::wire::Presence::read_flag(&mut self.$field, d),)?
                    )*
                    _ => d.skip(),
                }
            }
        }

        #[cfg(test)]
        impl crate::vectors::Fields for $name {
            fn fields(&self) -> crate::json::Value {
                let mut fields = Vec::new();
                $(crate::vectors::Show::show(&self.$field, stringify!($field), &mut fields);)*
                crate::json::Value::Object(fields)
            }
        }
    };
}
