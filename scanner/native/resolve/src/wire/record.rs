//! Records of an answer (RFC 1035 3.3, RFC 3596 2.2, RFC 8659 4.1, RFC 9460 2.2).

use std::net::IpAddr;

use super::https::Https;
use super::name::{Name, escape};
use super::types::QType;
use super::{Malformed, Reader};

/// A record's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A or AAAA.
    Address(IpAddr),
    Https(Box<Https>),
    /// Any other type, in zone-file format (RFC 1035 5.1).
    Data(String),
}

impl Record {
    /// Reads a record of type `qtype` from the data at `at..end` of `message`.
    pub fn read(message: &[u8], qtype: QType, at: usize, end: usize) -> Result<Record, Malformed> {
        let data = message
            .get(at..end)
            .ok_or(Malformed("a record is cut off"))?;
        let length = Malformed("a record has the wrong length");
        match qtype {
            QType::A => Ok(Record::Address(
                <[u8; 4]>::try_from(data).map_err(|_| length)?.into(),
            )),
            QType::Aaaa => Ok(Record::Address(
                <[u8; 16]>::try_from(data).map_err(|_| length)?.into(),
            )),
            QType::Https => Ok(Record::Https(Box::new(Https::read(message, at, end)?))),
            QType::Cname | QType::Ns => Ok(Record::Data(whole_name(message, at, end)?.text())),
            QType::Mx => {
                let preference = Reader(data).u16()?;
                let exchange = whole_name(message, at + 2, end)?.text();
                Ok(Record::Data(format!("{preference} {exchange}")))
            }
            QType::Txt => strings(data).map(Record::Data),
            QType::Caa => property(data).map(Record::Data),
        }
    }
}

/// Reads a name that must fill `at..end`.
pub fn whole_name(message: &[u8], at: usize, end: usize) -> Result<Name, Malformed> {
    match Name::read(message, at)? {
        (name, after) if after == end => Ok(name),
        _ => Err(Malformed("a record has the wrong length")),
    }
}

fn quoted(bytes: &[u8], to: &mut String) {
    to.push('"');
    for byte in bytes {
        match byte {
            b' ' => to.push(' '),
            byte => escape(*byte, b"\"\\", to),
        }
    }
    to.push('"');
}

/// Reads one or more character strings (RFC 1035 3.3.14).
fn strings(data: &[u8]) -> Result<String, Malformed> {
    let (mut text, mut data) = (String::new(), Reader(data));
    loop {
        let length = data.u8()?;
        quoted(data.take(usize::from(length))?, &mut text);
        if data.is_empty() {
            return Ok(text);
        }
        text.push(' ');
    }
}

/// Reads a CAA record's flags, tag and value.
fn property(data: &[u8]) -> Result<String, Malformed> {
    let mut data = Reader(data);
    let (flags, length) = (data.u8()?, data.u8()?);
    let tag = data.take(usize::from(length))?;
    if tag.is_empty() || !tag.iter().all(u8::is_ascii_alphanumeric) {
        return Err(Malformed(
            "the tag of a CAA record is not of letters and digits",
        ));
    }
    let mut text = format!("{flags} {} ", String::from_utf8_lossy(tag));
    quoted(data.0, &mut text);
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_has_its_form() {
        for (qtype, data, expected) in [
            (QType::A, &b"\xc6\x12\0\x01"[..], Some("198.18.0.1")),
            (QType::A, b"\xc6\x12\0", None),
            (
                QType::Aaaa,
                b"\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01",
                Some("2001:db8::1"),
            ),
            (QType::Aaaa, b"\x20\x01\x0d\xb8", None),
            (QType::Ns, b"\x02NS\x04test\0", Some("ns.test")),
            (QType::Cname, b"\x02NS\x04test\0x", None),
            (QType::Mx, b"\0\x0a\x02mx\x04test\0", Some("10 mx.test")),
            (QType::Mx, b"\0", None),
            (
                QType::Txt,
                b"\x03a b\0\x03\"\\\xff",
                Some("\"a b\" \"\" \"\\\"\\\\\\255\""),
            ),
            (QType::Txt, b"", None),
            (QType::Txt, b"\x02a", None),
            (
                QType::Caa,
                b"\x80\x05issueca.test; x",
                Some("128 issue \"ca.test; x\""),
            ),
            (QType::Caa, b"\0\0", None),
            (QType::Https, b"\0", None),
        ] {
            let read = Record::read(data, qtype, 0, data.len())
                .ok()
                .map(|record| match record {
                    Record::Address(address) => address.to_string(),
                    Record::Data(text) => text,
                    Record::Https(https) => https.target,
                });
            assert_eq!(read.as_deref(), expected, "{qtype:?} {data:?}");
        }
        assert!(Record::read(b"", QType::A, 1, 9).is_err());
    }
}
