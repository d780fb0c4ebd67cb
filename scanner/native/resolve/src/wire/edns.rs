//! EDNS: the upper bits of the response code, and extended errors (RFC 6891 6.1, RFC 8914 2).

use super::{Malformed, Reader};

/// Option code of an extended DNS error (RFC 8914 5.1).
const EDE: u16 = 15;
/// Maximum number of extended errors kept, and maximum length of each text. A message could hold thousands.
const MOST: usize = 16;
const LONGEST_TEXT: usize = 256;

/// The contents of an OPT record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Edns {
    /// Bits 4 to 11 of the response code.
    pub upper_rcode: u16,
    /// For example `EDE 22 (text); EDE 3`.
    pub errors: Option<String>,
}

impl Edns {
    /// Reads an OPT record from the TTL and data.
    pub fn read(ttl: u32, data: &[u8]) -> Result<Edns, Malformed> {
        let mut errors = Vec::new();
        let mut data = Reader(data);
        while !data.is_empty() {
            let (code, length) = (data.u16()?, data.u16()?);
            let mut option = Reader(data.take(usize::from(length))?);
            if code == EDE && errors.len() < MOST {
                let info = option.u16()?;
                let text = option.0.strip_suffix(b"\0").unwrap_or(option.0);
                let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST_TEXT)]);
                errors.push(if text.is_empty() {
                    format!("EDE {info}")
                } else {
                    format!("EDE {info} ({text})")
                });
            }
        }
        Ok(Edns {
            upper_rcode: (ttl >> 24 << 4) as u16,
            errors: (!errors.is_empty()).then(|| errors.join("; ")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_kept_in_order() {
        for (data, expected) in [
            (&b""[..], Some(None)),
            (b"\0\x0a\0\x02ab", Some(None)),
            (b"\0\x0f\0\x02\0\x16", Some(Some("EDE 22"))),
            (
                b"\0\x0f\0\x06\0\x16late\0\x0f\0\x03\0\x03\0",
                Some(Some("EDE 22 (late); EDE 3")),
            ),
            (b"\0\x0f\0\x01\0", None),
            (b"\0\x0f\0\x04\0\0a", None),
        ] {
            let read = Edns::read(0x0100_0000, data).ok();
            let expected = expected.map(|errors| (16, errors.map(str::to_owned)));
            assert_eq!(
                read.map(|edns| (edns.upper_rcode, edns.errors)),
                expected,
                "{data:?}"
            );
        }
        let many = b"\0\x0f\0\x02\0\x01".repeat(5000);
        assert!(Edns::read(0, &many).unwrap().errors.unwrap().len() < 200);
    }
}
