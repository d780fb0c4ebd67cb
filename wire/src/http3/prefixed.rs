//! Integers and strings that start inside a byte (RFC 9204 4.1).

use super::{Http3Error, huffman};
use crate::{Error, Reader, VARINT_MAX, Writer};

/// Maximum number of bytes after the first byte of a 62-bit integer.
const MOST_BYTES: usize = 9;

const ENDS_EARLY: Http3Error = Http3Error::undecodable("field section ends early");

/// Reads the next byte.
pub fn byte(r: &mut Reader<'_>) -> Result<u8, Http3Error> {
    r.u8().map_err(|_| ENDS_EARLY)
}

/// Reads an integer of at most 2^62 - 1. It starts in the lowest `prefix` bits of `first`; its other bytes are next
/// in `r`.
pub fn read_integer(r: &mut Reader<'_>, first: u8, prefix: u32) -> Result<u64, Http3Error> {
    let mask = (1u64 << prefix) - 1;
    let mut value = u64::from(first) & mask;
    if value < mask {
        return Ok(value);
    }
    for i in 0..MOST_BYTES {
        let next = byte(r)?;
        value += u64::from(next & 0x7f) << (7 * i);
        if next & 0x80 == 0 && value <= VARINT_MAX {
            return Ok(value);
        }
    }
    Err(Http3Error::undecodable("integer above 62 bits"))
}

/// Writes an integer into the lowest `prefix` bits of `flags` and the bytes after it.
pub fn write_integer(w: &mut Writer<'_>, flags: u8, prefix: u32, value: u64) -> Result<(), Error> {
    let mask = (1u64 << prefix) - 1;
    if value < mask {
        return w.u8(flags | value as u8);
    }
    w.u8(flags | mask as u8)?;
    let mut rest = value - mask;
    while rest > 0x7f {
        w.u8(rest as u8 | 0x80)?;
        rest >>= 7;
    }
    w.u8(rest as u8)
}

/// Reads a string. The length starts in the lowest `prefix` bits of `first`; the next higher bit marks the Huffman
/// code. The result borrows from the input or from `scratch`.
pub fn read_string<'s, 'a: 's>(
    r: &mut Reader<'a>,
    first: u8,
    prefix: u32,
    scratch: &'s mut Vec<u8>,
) -> Result<&'s [u8], Http3Error> {
    let length = read_integer(r, first, prefix)?;
    let length = usize::try_from(length).map_err(|_| ENDS_EARLY)?;
    let bytes = r.bytes(length).map_err(|_| ENDS_EARLY)?;
    if first >> prefix & 1 == 0 {
        return Ok(bytes);
    }
    scratch.clear();
    huffman::decode(bytes, scratch)?;
    Ok(scratch)
}

/// Writes a string without the Huffman code. The length starts in `flags`.
pub fn write_string(w: &mut Writer<'_>, flags: u8, prefix: u32, text: &[u8]) -> Result<(), Error> {
    write_integer(w, flags, prefix, text.len() as u64)?;
    w.bytes(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], prefix: u32) -> Result<u64, &'static str> {
        let mut r = Reader::new(bytes);
        let first = byte(&mut r).map_err(|error| error.cause)?;
        let value = read_integer(&mut r, first, prefix).map_err(|error| error.cause)?;
        assert!(r.is_empty());
        Ok(value)
    }

    /// RFC 7541 C.1, and the values below and above each step in length.
    #[test]
    fn integers_in_both_directions() {
        for (prefix, value, bytes) in [
            (5, 10, &[0x0a][..]),
            (5, 1337, &[0x1f, 0x9a, 0x0a]),
            (8, 42, &[0x2a]),
            (5, 30, &[0x1e]),
            (5, 31, &[0x1f, 0x00]),
            (5, 31 + 127, &[0x1f, 0x7f]),
            (5, 31 + 128, &[0x1f, 0x80, 0x01]),
            (3, 7, &[0x07, 0x00]),
            (
                7,
                VARINT_MAX,
                &[0x7f, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f],
            ),
        ] {
            assert_eq!(read(bytes, prefix), Ok(value));
            let mut out = [0; 16];
            let mut w = Writer::new(&mut out);
            write_integer(&mut w, 0, prefix, value).unwrap();
            assert_eq!(w.written(), bytes);
            for cut in 0..bytes.len() {
                assert_eq!(read(&bytes[..cut], prefix), Err("field section ends early"));
            }
        }
    }

    #[test]
    fn flags_stay_above_the_prefix() {
        let mut out = [0; 4];
        let mut w = Writer::new(&mut out);
        write_integer(&mut w, 0xc0, 6, 5).unwrap();
        write_integer(&mut w, 0xc0, 6, 64).unwrap();
        assert_eq!(w.written(), [0xc5, 0xff, 0x01]);
        assert_eq!(read(&[0xe0 | 0x1f, 0x9a, 0x0a], 5), Ok(1337));
    }

    #[test]
    fn integers_above_62_bits() {
        let above = [0x7f, 0x81, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x3f];
        let long = [
            0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0,
        ];
        for bytes in [&above[..], &long, &[0xff; 64]] {
            assert_eq!(read(bytes, 7), Err("integer above 62 bits"));
        }
        // Leading zeros do not shorten the encoding, but they are allowed.
        assert_eq!(read(&[0x7f, 0x80, 0x80, 0x00], 7), Ok(127));
    }
}
