//! Questions (RFC 1035 4.1.1, 4.1.2; RFC 6891 6.1).

use super::name::Name;
use super::types::{IN, OPT, QType};

/// A payload size that is expected to avoid fragmentation on all paths (DNS flag day 2020).
const PAYLOAD: u16 = 1232;
/// Recursion desired.
const RD: u16 = 0x0100;
/// Length of a header.
pub const HEADER: usize = 12;
/// Maximum length of a question from [`write`].
pub const LONGEST: usize = HEADER + 255 + 4 + 11;

/// Writes a question to the start of `out`, which must have room for [`LONGEST`] bytes. Returns the length.
pub fn write(out: &mut [u8], id: u16, name: &Name, qtype: QType, edns: bool) -> usize {
    let counts = [1, 0, 0, u16::from(edns)];
    let mut at = 0;
    let mut put = |bytes: &[u8]| {
        out[at..at + bytes.len()].copy_from_slice(bytes);
        at += bytes.len();
    };
    put(&id.to_be_bytes());
    put(&RD.to_be_bytes());
    for count in counts {
        put(&u16::to_be_bytes(count));
    }
    put(name.as_bytes());
    put(&qtype.code().to_be_bytes());
    put(&IN.to_be_bytes());
    if edns {
        put(&[0]);
        put(&OPT.to_be_bytes());
        put(&PAYLOAD.to_be_bytes());
        put(&[0; 6]);
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_with_and_without_edns() {
        let name = Name::from_text("a.test").unwrap();
        let mut out = [0xff; LONGEST];
        let plain = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01a\x04test\0\0\x41\0\x01";
        let length = write(&mut out, 0x1234, &name, QType::Https, false);
        assert_eq!(&out[..length], plain);
        let length = write(&mut out, 0x1234, &name, QType::Https, true);
        assert_eq!(out[11], 1);
        assert_eq!(&out[plain.len()..length], b"\0\0\x29\x04\xd0\0\0\0\0\0\0");
    }
}
