//! Encoded field sections (RFC 9204 4.5) without a dynamic table.

use super::Http3Error;
use super::prefixed::{byte, read_integer, read_string, write_integer, write_string};
use super::static_table::{Place, STATIC_TABLE, find};
use crate::{Error, Reader, Writer};

const DYNAMIC: Http3Error = Http3Error::undecodable("reference to the dynamic table");

/// Calls `visit` with the name and value of each field of an encoded section, in order. Stops at the first error of
/// `visit`. Decoded strings are at most 8 / 5 as long as the section.
pub fn read_section(
    section: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), Http3Error>,
) -> Result<(), Http3Error> {
    let mut r = Reader::new(section);
    let first = byte(&mut r)?;
    if read_integer(&mut r, first, 8)? != 0 {
        return Err(DYNAMIC);
    }
    let first = byte(&mut r)?;
    read_integer(&mut r, first, 7)?;
    if first & 0x80 != 0 {
        // The base would be negative (4.5.1.2).
        return Err(Http3Error::undecodable("base of a field section"));
    }
    let (mut name_scratch, mut value_scratch) = (Vec::new(), Vec::new());
    while !r.is_empty() {
        let first = byte(&mut r)?;
        let name = match first {
            // An indexed field (4.5.2), then a literal with an indexed name (4.5.4). One bit selects the static
            // table.
            0x80.. => {
                let (name, value) = entry(read_integer(&mut r, first, 6)?, first & 0x40 != 0)?;
                visit(name.as_bytes(), value.as_bytes())?;
                continue;
            }
            0x40.. => {
                let index = read_integer(&mut r, first, 4)?;
                entry(index, first & 0x10 != 0)?.0.as_bytes()
            }
            // Literal name (4.5.6).
            0x20.. => read_string(&mut r, first, 3, &mut name_scratch)?,
            // Post-base references (4.5.3, 4.5.5).
            _ => return Err(DYNAMIC),
        };
        let first = byte(&mut r)?;
        visit(name, read_string(&mut r, first, 7, &mut value_scratch)?)?;
    }
    Ok(())
}

fn entry(index: u64, is_static: bool) -> Result<(&'static str, &'static str), Http3Error> {
    if !is_static {
        return Err(DYNAMIC);
    }
    let index = usize::try_from(index).ok();
    let entry = index.and_then(|index| STATIC_TABLE.get(index));
    entry
        .copied()
        .ok_or(Http3Error::undecodable("index beyond the static table"))
}

/// Writes a field section. Uses the static table for known fields and names.
pub fn write_section(w: &mut Writer<'_>, fields: &[(&str, &str)]) -> Result<(), Error> {
    w.bytes(&[0, 0])?;
    for (name, value) in fields {
        match find(name, value) {
            Some(Place::Field(index)) => {
                write_integer(w, 0xc0, 6, index)?;
                continue;
            }
            Some(Place::Name(index)) => write_integer(w, 0x50, 4, index)?,
            None => write_string(w, 0x20, 3, name.as_bytes())?,
        }
        write_string(w, 0, 7, value.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    type Fields = Vec<(String, String)>;

    fn read(section: &[u8]) -> Result<Fields, &'static str> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        read_section(section, |name, value| {
            fields.push((text(name), text(value)));
            Ok(())
        })
        .map_err(|error| error.cause)?;
        Ok(fields)
    }

    #[test]
    fn sections_are_decoded() {
        for (section, fields) in [
            // RFC 9204 B.1.
            (
                "0000 510b 2f69 6e64 6578 2e68 746d 6c",
                &[(":path", "/index.html")][..],
            ),
            // A one-byte index, a two-byte index, and a name with a two-byte index.
            ("0000 d9 ff00", &[(":status", "200"), (":status", "100")]),
            ("0000 5f4d 03 616263", &[("server", "abc")]),
            // Literal names, plain and Huffman-coded (custom-key: custom-value of RFC 7541 C.4.3).
            ("0000 23 782d79 01 7a", &[("x-y", "z")]),
            (
                "0000 2f01 25a849e95ba97d7f 89 25a849e95bb8e8b4bf",
                &[("custom-key", "custom-value")],
            ),
            // Never-indexed bits; a base without meaning; no field.
            ("0000 71 01 2f 33 782d79 00", &[(":path", "/"), ("x-y", "")]),
            ("007f 05 c1", &[(":path", "/")]),
            ("0000", &[]),
        ] {
            let expected: Fields = fields
                .iter()
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect();
            assert_eq!(read(&hex(section)), Ok(expected), "{section}");
        }
    }

    #[test]
    fn what_is_no_section() {
        let early = "field section ends early";
        let dynamic = "reference to the dynamic table";
        for (section, error) in [
            ("", early),
            ("00", early),
            ("0000 ff", early),
            ("0000 51", early),
            ("0000 51 02 2f", early),
            ("0000 23 7879", early),
            ("0000 51 7f 80ffffffffffffff3f", early),
            ("0000 51 7f 81ffffffffffffff3f", "integer above 62 bits"),
            ("0100 c1", dynamic),
            ("ff8001 00", dynamic),
            ("0000 81", dynamic),
            ("0000 41 01 2f", dynamic),
            ("0000 10", dynamic),
            ("0000 00 01 2f", dynamic),
            ("0080 c1", "base of a field section"),
            ("0000 ff24", "index beyond the static table"),
            ("0000 5f54 00", "index beyond the static table"),
            ("0000 51 81 ff", "padding of a string"),
        ] {
            assert_eq!(read(&hex(section)), Err(error), "{section}");
        }
        assert_eq!(read(&hex("0000 ff23")).unwrap()[0].1, "sameorigin");
    }

    #[test]
    fn what_is_written_is_read_and_short() {
        let fields = [
            (":method", "HEAD"),
            (":scheme", "https"),
            (":authority", "example.net"),
            (":path", "/a?b=1"),
            ("x-long-name", "value"),
        ];
        let mut out = [0; 200];
        let mut w = Writer::new(&mut out);
        write_section(&mut w, &fields).unwrap();
        let expected = [
            &hex("0000 d2 d7 50 0b")[..],
            b"example.net",
            &hex("51 06"),
            b"/a?b=1",
            &hex("27 04"),
            b"x-long-name",
            &hex("05"),
            b"value",
        ];
        assert_eq!(w.written(), expected.concat());
        let found = read(w.written()).unwrap();
        assert_eq!(found.len(), fields.len());
        for ((name, value), field) in found.iter().zip(fields) {
            assert_eq!((name.as_str(), value.as_str()), field);
        }
        for room in 0..expected.concat().len() {
            let mut out = vec![0; room];
            let written = write_section(&mut Writer::new(&mut out), &fields);
            assert_eq!(written, Err(Error::NoRoom));
        }
    }
}
