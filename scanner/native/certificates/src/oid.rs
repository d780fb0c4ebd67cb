//! Object identifiers as text (ITU-T X.690 8.19).

/// Longest encoding that is written as numbers. Identifiers in use are far shorter.
const MOST_BYTES: usize = 40;

/// Returns the text for the content of an OBJECT IDENTIFIER, such as `1.2.840.113549`. Content that is too
/// long or not an identifier becomes `0x` and the first bytes in hex.
pub fn dotted(content: &[u8]) -> String {
    let numbers = (content.len() <= MOST_BYTES).then(|| numbers(content));
    match numbers.flatten() {
        Some(numbers) => {
            let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
            texts.join(".")
        }
        None => {
            let start = &content[..content.len().min(MOST_BYTES)];
            format!("0x{}", hex(start))
        }
    }
}

/// Returns an identifier's numbers; `None` if it is cut, or if a number is above 64 bits.
fn numbers(content: &[u8]) -> Option<Vec<u64>> {
    let mut numbers = Vec::new();
    let mut number = 0u64;
    for byte in content {
        number = number.checked_mul(0x80)? | u64::from(byte & 0x7f);
        if byte & 0x80 != 0 {
            continue;
        }
        if numbers.is_empty() {
            // The first two numbers share one encoded number: 40 times the first number, which is at most 2,
            // plus the second.
            let first = (number / 40).min(2);
            numbers.push(first);
            number -= 40 * first;
        }
        numbers.push(std::mem::take(&mut number));
    }
    (content.last()? & 0x80 == 0).then_some(numbers)
}

/// Returns two hex digits for each byte.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    let both = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers() {
        for (content, text) in [
            (&[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d][..], "1.2.840.113549"),
            (&[0x55, 0x04, 0x03], "2.5.4.3"),
            (&[0x27], "0.39"),
            (&[0x28], "1.0"),
            (&[0x4f], "1.39"),
            (&[0x50], "2.0"),
            (&[0x88, 0x37, 0x03], "2.999.3"),
            (&[0x2b, 0x65, 0x70], "1.3.101.112"),
            (&[], "0x"),
            (&[0x55, 0x84], "0x5584"),
        ] {
            assert_eq!(dotted(content), text);
        }
    }

    #[test]
    fn long_ones_are_bounded() {
        let at_most = [0x01; MOST_BYTES];
        assert_eq!(dotted(&at_most), format!("0{}", ".1".repeat(MOST_BYTES)));
        let longer = [0x01; MOST_BYTES + 1];
        assert_eq!(dotted(&longer), format!("0x{}", "01".repeat(MOST_BYTES)));
        let large = [&[0x2a][..], &[0xff; 9], &[0x7f]].concat();
        assert_eq!(dotted(&large), "0x2affffffffffffffffff7f");
        let largest = [&[0x2a, 0x81][..], &[0xff; 8], &[0x7f]].concat();
        assert_eq!(dotted(&largest), format!("1.2.{}", u64::MAX));
    }
}
