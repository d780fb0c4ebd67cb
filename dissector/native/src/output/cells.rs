//! Cell types that are converted to text when they are written.

use std::io::Write;
use std::net::IpAddr;

use firstflight_records::{Cell, Shown, Style, Type, Value};
use firstflight_wire::{ConnectionId, Version};

use super::parameters;
use super::text::{write_hex, write_number, write_piece, write_text};
use crate::quic::packet_log::FrameDetails;

/// A connection ID, in hex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cid(pub ConnectionId);

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

/// A QUIC version, as 0x and eight hex digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicVersion(pub Version);

/// The body of a transport parameters extension, as JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters<'a>(pub &'a [u8]);

/// Integers as a JSON list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Integers(pub Vec<i64>);

macro_rules! text_cells {
    ($($cell:ty),*) => {$(
        impl Cell for $cell {
            const TYPE: Type = Type::String;
            const NULLABLE: bool = false;

            #[inline(always)]
            fn value(&self) -> Value<'_> {
                Value::Shown(self)
            }
        }
    )*};
}

text_cells!(Cid, Ip, QuicVersion, Parameters<'_>, Integers, FrameDetails);

impl Shown for Cid {
    fn write(&self, _: Style, out: &mut Vec<u8>) {
        write_hex(self.0.as_slice(), out);
    }
}

impl Shown for Ip {
    fn write(&self, _: Style, out: &mut Vec<u8>) {
        match self.0 {
            IpAddr::V4(ip) => {
                for octet in ip.octets() {
                    let [text @ .., length] = OCTETS[usize::from(octet)];
                    write_piece(&text, usize::from(length), out);
                }
                // The last dot.
                out.pop();
            }
            // Writing into a vector cannot fail.
            IpAddr::V6(ip) => drop(write!(out, "{ip}")),
        }
    }
}

impl Shown for QuicVersion {
    fn write(&self, _: Style, out: &mut Vec<u8>) {
        out.extend_from_slice(b"0x");
        write_hex(&self.0.0.to_be_bytes(), out);
    }
}

impl Shown for Parameters<'_> {
    fn write(&self, style: Style, out: &mut Vec<u8>) {
        parameters::write_json(self.0, style, out);
    }
}

impl Shown for FrameDetails {
    fn write(&self, style: Style, out: &mut Vec<u8>) {
        match (self.style, style) {
            (Style::Plain, Style::Json) => write_text(Value::Text(&self.text), style, out),
            // Only if a run writes both styles. The content in a JSON string can be parsed again.
            (Style::Json, Style::Plain) => {
                let text = serde_json::from_str::<String>(&format!("\"{}\"", self.text));
                out.extend_from_slice(text.unwrap_or_default().as_bytes());
            }
            _ => out.extend_from_slice(self.text.as_bytes()),
        }
    }
}

impl Shown for Integers {
    fn write(&self, _: Style, out: &mut Vec<u8>) {
        out.push(b'[');
        for (i, number) in self.0.iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write_number(*number, out);
        }
        out.push(b']');
    }
}

/// Each byte in decimal digits, followed by a dot, and the length of this text.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cell: &dyn Shown, style: Style) -> String {
        let mut out = Vec::new();
        cell.write(style, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_kind_of_text_has_its_form() {
        let ip = |ip: &str| Ip(ip.parse().unwrap());
        let cid = Cid(ConnectionId::from([0xab, 0, 1, 2, 3, 4, 5, 0xff]));
        let cells: [(&dyn Shown, &str); 6] = [
            (&cid, "ab000102030405ff"),
            (&ip("192.0.2.255"), "192.0.2.255"),
            (&ip("2001:db8::1"), "2001:db8::1"),
            (&QuicVersion(Version::V2), "0x6b3343cf"),
            (&Integers(vec![-1, 0, 25]), "[-1,0,25]"),
            (&Integers(Vec::new()), "[]"),
        ];
        for (cell, expected) in cells {
            assert_eq!(text(cell, Style::Plain), expected);
            assert_eq!(text(cell, Style::Json), expected);
        }
    }

    #[test]
    fn frames_are_in_the_style_that_is_asked_for() {
        // PING, and a close with characters in the reason that need an escape.
        let payload = [1, 0x1d, 1, 2, b'"', b'\\'];
        let plain = r#"[{"type":1},{"error_code":1,"reason_phrase":"\"\\","type":29}]"#;
        let escaped = serde_json::to_string(plain).unwrap();
        for made in [Style::Plain, Style::Json] {
            let cell = FrameDetails::of(&payload, made).unwrap();
            assert_eq!(text(&cell, Style::Plain), plain);
            assert_eq!(format!("\"{}\"", text(&cell, Style::Json)), escaped);
        }
    }

    #[test]
    fn octets_have_their_digits() {
        for octet in 0..=255 {
            let expected = format!("{octet}.0.{octet}.10");
            let ip = Ip(IpAddr::from([octet, 0, octet, 10]));
            assert_eq!(text(&ip, Style::Plain), expected);
        }
    }
}
