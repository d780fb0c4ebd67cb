//! Cells of a row. Those that are text borrow what they show or hold it as a number: they become text where they are written.

use std::borrow::Cow;
use std::io::Write;
use std::net::IpAddr;

use firstflight_wire::{ConnectionId, Version};

use super::parameters;
use super::text::{Style, write_hex, write_number, write_piece};

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    /// Finite.
    Float(f64),
    Text(Cow<'a, str>),
    /// Shown in hex.
    Cid(ConnectionId),
    Ip(IpAddr),
    Version(Version),
    /// Body of a transport parameters extension, shown as JSON.
    Parameters(&'a [u8]),
    /// Shown as a JSON list.
    Integers(Vec<i64>),
}

impl Value<'_> {
    /// Appends the text of a cell of a text column; nothing for other cells.
    pub(super) fn write_text(&self, style: Style, out: &mut Vec<u8>) {
        match self {
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => {}
            Value::Text(text) if style == Style::Plain => out.extend_from_slice(text.as_bytes()),
            Value::Text(text) => escape(text, out),
            Value::Cid(cid) => write_hex(cid.as_slice(), out),
            Value::Ip(IpAddr::V4(ip)) => {
                for octet in ip.octets() {
                    let [text @ .., length] = OCTETS[usize::from(octet)];
                    write_piece(&text, usize::from(length), out);
                }
                // The last dot.
                out.pop();
            }
            // Writing into a vector cannot fail.
            Value::Ip(IpAddr::V6(ip)) => drop(write!(out, "{ip}")),
            Value::Version(version) => {
                out.extend_from_slice(b"0x");
                write_hex(&version.0.to_be_bytes(), out);
            }
            Value::Parameters(extension) => parameters::write_json(extension, style, out),
            Value::Integers(list) => {
                out.push(b'[');
                for (i, number) in list.iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write_number(*number, out);
                }
                out.push(b']');
            }
        }
    }

    /// Whether the cell belongs into a text column.
    pub(super) fn is_text(&self) -> bool {
        !matches!(
            self,
            Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_)
        )
    }
}

/// Each byte in decimal digits with a dot behind them, and how long that is.
const OCTETS: [[u8; 5]; 256] = {
    let mut texts = [[0; 5]; 256];
    let mut byte = 0;
    while byte < 256 {
        let digits = [byte / 100, byte / 10 % 10, byte % 10];
        let mut skipped = if byte >= 100 {
            0
        } else if byte >= 10 {
            1
        } else {
            2
        };
        let mut length = 0;
        while skipped < 3 {
            texts[byte][length] = b'0' + digits[skipped] as u8;
            length += 1;
            skipped += 1;
        }
        texts[byte][length] = b'.';
        texts[byte][4] = length as u8 + 1;
        byte += 1;
    }
    texts
};

/// Appends `text` as the inside of a JSON string.
fn escape(text: &str, out: &mut Vec<u8>) {
    let is_special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    // Without an early end, the search is done many bytes at a time.
    let found = text
        .as_bytes()
        .iter()
        .fold(false, |found, byte| found | is_special(byte));
    if !found {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let start = out.len();
    // A string always has a JSON form, and a vector takes it.
    let _ = serde_json::to_writer(&mut *out, text);
    out.pop();
    out.remove(start);
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<f64> for Value<'_> {
    /// What is not finite is no number to report.
    fn from(value: f64) -> Self {
        if value.is_finite() {
            Value::Float(value)
        } else {
            Value::Null
        }
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::Text(Cow::Owned(value))
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::Text(Cow::Borrowed(value))
    }
}

impl From<ConnectionId> for Value<'_> {
    fn from(value: ConnectionId) -> Self {
        Value::Cid(value)
    }
}

impl From<IpAddr> for Value<'_> {
    fn from(value: IpAddr) -> Self {
        Value::Ip(value)
    }
}

impl From<Version> for Value<'_> {
    fn from(value: Version) -> Self {
        Value::Version(value)
    }
}

macro_rules! from_integer {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value<'_> {
            fn from(value: $integer) -> Self {
                Value::Int(i64::from(value))
            }
        }
    )*};
}
from_integer!(u8, u16, u32, i64);

impl From<u64> for Value<'_> {
    /// QUIC's integers have at most 62 bits; a larger one cannot come from a packet.
    fn from(value: u64) -> Self {
        i64::try_from(value).map_or(Value::Null, Value::Int)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Value::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(value: &Value<'_>, style: Style) -> String {
        let mut out = Vec::new();
        value.write_text(style, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_kind_of_text_has_its_form() {
        let cid = ConnectionId::from([0xab, 0, 1, 2, 3, 4, 5, 0xff]);
        for (value, expected) in [
            (cid.into(), "ab0001020304".to_owned() + "05ff"),
            (IpAddr::from([192, 0, 2, 255]).into(), "192.0.2.255".into()),
            (
                IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1]).into(),
                "2001:db8::1".into(),
            ),
            (Version::V2.into(), "0x6b3343cf".into()),
            (Value::Integers(vec![-1, 0, 25]), "[-1,0,25]".into()),
            (Value::Integers(Vec::new()), "[]".into()),
        ] {
            assert_eq!(text(&value, Style::Plain), expected);
            assert_eq!(text(&value, Style::Json), expected);
            assert!(value.is_text());
        }
    }

    #[test]
    fn octets_have_their_digits() {
        for octet in 0..=255 {
            let expected = format!("{octet}.0.{octet}.10");
            assert_eq!(
                text(&IpAddr::from([octet, 0, octet, 10]).into(), Style::Plain),
                expected
            );
        }
    }

    #[test]
    fn text_is_escaped_where_json_asks_for_it() {
        for plain in ["", "www.example.net", "a\"b\\c\u{1}\n", "\u{e9}\u{7f}"] {
            let value = Value::from(plain);
            assert_eq!(text(&value, Style::Plain), plain);
            let quoted = format!("\"{}\"", text(&value, Style::Json));
            assert_eq!(quoted, serde_json::to_string(plain).unwrap());
        }
    }
}
