//! Writes the client's control stream and one request.

use super::field_lines::write_section;
use super::fields::{is_name, is_value};
use super::{frame_type, setting, uni_stream};
use crate::{Error, Writer};

/// Writes the start of the client's control stream (RFC 9114 6.2.1, 7.2.4): no dynamic table, and the maximum field
/// section size in bytes as defined in RFC 9114 4.2.2.
pub fn write_control_stream(w: &mut Writer<'_>, max_field_section_size: u64) -> Result<(), Error> {
    w.varint(uni_stream::CONTROL)?;
    w.varint(frame_type::SETTINGS)?;
    w.varint_sized(|w| {
        for (id, value) in [
            (setting::QPACK_MAX_TABLE_CAPACITY, 0),
            (setting::QPACK_BLOCKED_STREAMS, 0),
            (setting::MAX_FIELD_SECTION_SIZE, max_field_section_size),
        ] {
            w.varint(id)?;
            w.varint(value)?;
        }
        Ok(())
    })
}

/// Writes a request without content: a HEADERS frame of `(name, value)` fields in the given order. Pseudo-header
/// fields must be first (RFC 9114 4.3.1). Names must be in lower case.
///
/// Fails for characters that are not allowed in a field, and for fields of more than 16,383 bytes.
pub fn write_request(w: &mut Writer<'_>, fields: &[(&str, &str)]) -> Result<(), Error> {
    for (name, value) in fields {
        let bare = name.strip_prefix(':').unwrap_or(name);
        if !is_name(bare.as_bytes()) || !is_value(value.as_bytes()) {
            return Err(Error::Malformed("field of a request"));
        }
    }
    w.varint(frame_type::HEADERS)?;
    w.varint_sized(|w| write_section(w, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    #[test]
    fn control_stream() {
        let mut out = [0; 32];
        let mut w = Writer::new(&mut out);
        write_control_stream(&mut w, 16_384).unwrap();
        assert_eq!(w.written(), hex("00 04 4009 0100 0700 06 80004000"));
        assert_eq!(
            write_control_stream(&mut w, u64::MAX),
            Err(Error::NoRoom),
            "no setting is above 62 bits"
        );
    }

    #[test]
    fn head_request() {
        let head = [
            (":method", "HEAD"),
            (":scheme", "https"),
            (":authority", "a.example"),
            (":path", "/"),
            ("user-agent", "x"),
        ];
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        write_request(&mut w, &head).unwrap();
        let section = hex("0000 d2 d7 50 09 612e6578616d706c65 c1 5f50 01 78");
        let frame = [&[1, 0x40, section.len() as u8], &section[..]].concat();
        assert_eq!(w.written(), frame);
    }

    #[test]
    fn fields_that_cannot_be_sent() {
        let long = "x".repeat(16_384);
        let error = Error::Malformed("field of a request");
        for (name, value, error) in [
            (":path", "/\r\nx: y", error),
            ("x\0", "", error),
            ("User-Agent", "", error),
            (":", "", error),
            ("x", &long, Error::NoRoom),
        ] {
            let mut out = vec![0; 20_000];
            let written = write_request(&mut Writer::new(&mut out), &[(name, value)]);
            assert_eq!(written, Err(error), "{name}");
        }
    }
}
