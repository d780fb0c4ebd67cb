//! Strings in the Huffman code of RFC 7541 appendix B, which QPACK uses unchanged (RFC 9204 4.1.2).

use super::Http3Error;

/// Number of codes for each code length in bits. The code is canonical: this table and the order of the symbols
/// define it completely.
const COUNTS: [(u32, u32); 21] = [
    (5, 10),
    (6, 26),
    (7, 32),
    (8, 6),
    (10, 5),
    (11, 3),
    (12, 2),
    (13, 6),
    (14, 2),
    (15, 3),
    (19, 3),
    (20, 8),
    (21, 13),
    (22, 26),
    (23, 29),
    (24, 12),
    (25, 4),
    (26, 15),
    (27, 19),
    (28, 29),
    (30, 4),
];

/// Symbols in the order of their codes. The end-of-string symbol follows the last one.
#[rustfmt::skip]
const SYMBOLS: [u8; 256] = [
    48, 49, 50, 97, 99, 101, 105, 111, 115, 116, 32, 37, 45, 46, 47, 51,
    52, 53, 54, 55, 56, 57, 61, 65, 95, 98, 100, 102, 103, 104, 108, 109,
    110, 112, 114, 117, 58, 66, 67, 68, 69, 70, 71, 72, 73, 74, 75, 76,
    77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 89, 106, 107, 113, 118,
    119, 120, 121, 122, 38, 42, 44, 59, 88, 90, 33, 34, 40, 41, 63, 39,
    43, 124, 35, 62, 0, 36, 64, 91, 93, 126, 94, 125, 60, 96, 123, 92,
    195, 208, 128, 130, 131, 162, 184, 194, 224, 226, 153, 161, 167, 172, 176, 177,
    179, 209, 216, 217, 227, 229, 230, 129, 132, 133, 134, 136, 146, 154, 156, 160,
    163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190, 196, 198, 228, 232,
    233, 1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157,
    158, 165, 166, 168, 174, 175, 180, 182, 183, 188, 191, 197, 231, 239, 9, 142,
    144, 145, 148, 159, 171, 206, 215, 225, 236, 237, 199, 207, 234, 235, 192, 193,
    200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255, 203, 204, 211,
    212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254,
    2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20,
    21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220, 249, 10, 13, 22,
];

/// Codes of the same length.
#[derive(Clone, Copy)]
struct Row {
    bits: u32,
    /// The first and the last code, extended to 32 bits with zeros and with ones.
    first: u32,
    last: u32,
    /// Index of the first code's symbol in [`SYMBOLS`].
    start: u32,
}

const ROWS: [Row; COUNTS.len()] = rows();

const fn rows() -> [Row; COUNTS.len()] {
    let mut rows = [Row {
        bits: 0,
        first: 0,
        last: 0,
        start: 0,
    }; COUNTS.len()];
    let (mut next, mut start, mut i) = (0u64, 0, 0);
    while i < COUNTS.len() {
        let (bits, count) = COUNTS[i];
        let after = next + ((count as u64) << (32 - bits));
        rows[i] = Row {
            bits,
            first: next as u32,
            last: (after - 1) as u32,
            start,
        };
        (next, start) = (after, start + count);
        i += 1;
    }
    assert!(next == 1 << 32 && start == 257, "every code has a symbol");
    rows
}

/// Decodes `coded` and appends the string to `out`: at most 8 bytes for 5. Fails for the end-of-string symbol, and
/// for padding longer than 7 bits or with a zero bit (RFC 7541 5.2).
pub fn decode(coded: &[u8], out: &mut Vec<u8>) -> Result<(), Http3Error> {
    let mut rest = coded.iter();
    // Undecoded bits, from the highest down.
    let (mut bits, mut have) = (0u64, 0u32);
    loop {
        while have <= 56
            && let Some(&byte) = rest.next()
        {
            bits |= u64::from(byte) << (56 - have);
            have += 8;
        }
        if have == 0 {
            return Ok(());
        }
        let top = (bits >> 32) as u32;
        let row = ROWS.iter().find(|row| top <= row.last);
        match row.filter(|row| row.bits <= have) {
            Some(row) => {
                let place = row.start + ((top - row.first) >> (32 - row.bits));
                let symbol = SYMBOLS.get(place as usize);
                out.push(*symbol.ok_or(Http3Error::undecodable("end of string in a string"))?);
                bits <<= row.bits;
                have -= row.bits;
            }
            // No code of at most seven bits consists only of ones.
            None if have < 8 && bits == !(u64::MAX >> have) => return Ok(()),
            None => return Err(Http3Error::undecodable("padding of a string")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    fn decoded(coded: &str) -> Result<Vec<u8>, &'static str> {
        let mut out = Vec::new();
        decode(&hex(coded), &mut out).map_err(|error| error.cause)?;
        Ok(out)
    }

    #[test]
    fn strings_of_rfc_7541_c4_and_c6() {
        for (coded, text) in [
            ("f1e3 c2e5 f23a 6ba0 ab90 f4ff", "www.example.com"),
            ("a8eb 1064 9cbf", "no-cache"),
            ("25a8 49e9 5ba9 7d7f", "custom-key"),
            ("25a8 49e9 5bb8 e8b4 bf", "custom-value"),
            ("6402", "302"),
            ("aec3 771a 4b", "private"),
            (
                "d07a be94 1054 d444 a820 0595 040b 8166 e082 a62d 1bff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
            (
                "9d29 ad17 1863 c78f 0b97 c8e9 ae82 ae43 d3",
                "https://www.example.com",
            ),
            ("640e ff", "307"),
            ("9bd9 ab", "gzip"),
            ("", ""),
        ] {
            assert_eq!(decoded(coded), Ok(text.as_bytes().to_vec()), "{text}");
        }
    }

    /// Codes of every length, including the first and the last of appendix B.
    #[test]
    fn single_symbols_of_appendix_b() {
        for (code, bits, symbol) in [
            (0x0u32, 5, b'0'),
            (0x9, 5, b't'),
            (0x14, 6, b' '),
            (0x2d, 6, b'u'),
            (0x5c, 7, b':'),
            (0x7b, 7, b'z'),
            (0xf8, 8, b'&'),
            (0x3f8, 10, b'!'),
            (0x7fb, 11, b'+'),
            (0xffa, 12, b'#'),
            (0x1ff8, 13, 0),
            (0x3ffd, 14, b'}'),
            (0x7ffc, 15, b'<'),
            (0x7fff0, 19, b'\\'),
            (0xfffe6, 20, 128),
            (0x1fffdc, 21, 153),
            (0x3fffd2, 22, 129),
            (0x7fffd8, 23, 1),
            (0xffffea, 24, 9),
            (0x1ffffec, 25, 199),
            (0x3ffffe0, 26, 192),
            (0x7ffffde, 27, 203),
            (0xfffffe2, 28, 2),
            (0xffffffe, 28, 249),
            (0x3ffffffc, 30, 10),
            (0x3ffffffe, 30, 22),
        ] {
            let padded = (u64::from(code) << (64 - bits)) | (u64::MAX >> bits);
            let bytes = &padded.to_be_bytes()[..(bits as usize).div_ceil(8)];
            let mut out = Vec::new();
            assert_eq!(decode(bytes, &mut out), Ok(()));
            assert_eq!(out, [symbol], "{code:x}");
        }
    }

    #[test]
    fn what_is_no_string() {
        let (padding, end) = ("padding of a string", "end of string in a string");
        for (coded, error) in [
            // "0" with three bits of wrong padding; eight bits of padding; a truncated code.
            ("06", padding),
            ("ff", padding),
            ("07 ff", padding),
            ("fe", padding),
            ("ff fe", padding),
            ("ff ff ff", padding),
            // The end-of-string symbol: by itself, followed by zeros, and in a string.
            ("ff ff ff ff", end),
            ("ff ff ff fc", end),
            // A line feed and two zeros.
            ("ff ff ff f0", padding),
            ("f1 ff ff ff ff ff", end),
        ] {
            assert_eq!(decoded(coded), Err(error), "{coded}");
        }
        assert_eq!(decoded("07"), Ok(b"0".to_vec()));
    }
}
