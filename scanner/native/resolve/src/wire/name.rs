//! Domain names in wire form (RFC 1035 3.1, 4.1.4).

use super::Malformed;

/// Maximum length of a name, with all length bytes (RFC 1035 2.3.4).
const LONGEST: usize = 255;
/// Maximum length of a label.
const LONGEST_LABEL: usize = 63;
/// Maximum number of pointers in a name. A name has no more labels, and a pointer to a pointer only wastes time.
const MOST_POINTERS: usize = 127;

/// An uncompressed name: each label after the length byte, then the zero byte of the root. Upper and lower case are
/// kept.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; LONGEST],
    length: u8,
}

impl Name {
    /// Parses a text of labels of 1 to 63 visible ASCII characters, separated by dots. The final dot is optional;
    /// there are no escapes.
    pub fn from_text(text: &str) -> Option<Name> {
        let mut name = Name::empty();
        let text = text.strip_suffix('.').unwrap_or(text);
        for label in text.split('.').filter(|_| !text.is_empty()) {
            let good = |byte: &u8| byte.is_ascii_graphic() && *byte != b'\\';
            if label.is_empty() || !label.as_bytes().iter().all(good) {
                return None;
            }
            name.push_label(label.as_bytes()).ok()?;
        }
        name.push(0).ok()?;
        Some(name)
    }

    fn empty() -> Name {
        Name {
            bytes: [0; LONGEST],
            length: 0,
        }
    }

    fn push(&mut self, byte: u8) -> Result<(), Malformed> {
        let place = self.bytes.get_mut(usize::from(self.length));
        *place.ok_or(Malformed("a name is longer than 255 bytes"))? = byte;
        self.length += 1;
        Ok(())
    }

    fn push_label(&mut self, label: &[u8]) -> Result<(), Malformed> {
        if label.len() > LONGEST_LABEL {
            return Err(Malformed("a label is longer than 63 bytes"));
        }
        self.push(label.len() as u8)?;
        let start = usize::from(self.length);
        let place = self.bytes.get_mut(start..start + label.len());
        place
            .ok_or(Malformed("a name is longer than 255 bytes"))?
            .copy_from_slice(label);
        self.length += label.len() as u8;
        Ok(())
    }

    /// Reads the name at `at` in a message. Returns the name and the position after it. Each pointer must lead to a
    /// lower position than all earlier pointers, so that reading terminates.
    pub fn read(message: &[u8], at: usize) -> Result<(Name, usize), Malformed> {
        let mut name = Name::empty();
        let (mut at, mut after, mut earliest, mut pointers) = (at, None, at, 0);
        loop {
            let length = usize::from(*message.get(at).ok_or(Malformed("a name is cut off"))?);
            match length {
                0 => {
                    name.push(0)?;
                    return Ok((name, after.unwrap_or(at + 1)));
                }
                1..=LONGEST_LABEL => {
                    let label = message.get(at + 1..at + 1 + length);
                    name.push_label(label.ok_or(Malformed("a name is cut off"))?)?;
                    at += 1 + length;
                }
                0xc0.. => {
                    let low = *message.get(at + 1).ok_or(Malformed("a name is cut off"))?;
                    after = after.or(Some(at + 2));
                    at = (length & 0x3f) << 8 | usize::from(low);
                    if at >= earliest {
                        return Err(Malformed("a pointer in a name does not lead back"));
                    }
                    earliest = at;
                    pointers += 1;
                    if pointers > MOST_POINTERS {
                        return Err(Malformed("a name has more than 127 pointers"));
                    }
                }
                _ => return Err(Malformed("a label has an unknown type")),
            }
        }
    }

    /// Returns the position after the name at `at`, without following the pointer.
    pub fn skip(message: &[u8], mut at: usize) -> Result<usize, Malformed> {
        loop {
            let length = usize::from(*message.get(at).ok_or(Malformed("a name is cut off"))?);
            match length {
                0 => return Ok(at + 1),
                1..=LONGEST_LABEL => at += 1 + length,
                0xc0.. => return Ok(at + 2),
                _ => return Err(Malformed("a label has an unknown type")),
            }
        }
    }

    /// Returns the wire form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Returns whether it is the root.
    pub fn is_root(&self) -> bool {
        self.length <= 1
    }

    /// Returns whether it has a letter in upper case.
    pub fn has_upper_case(&self) -> bool {
        // Label lengths are below 64, so they are never letters.
        self.as_bytes().iter().any(u8::is_ascii_uppercase)
    }

    /// Changes all letters to lower case.
    pub fn make_lower_case(&mut self) {
        self.bytes.make_ascii_lowercase();
    }

    /// Sets the case of each letter from the next bit of `bits`: 1 is upper case.
    pub fn mix_case(&mut self, mut bits: impl FnMut() -> u64) {
        let (mut at, end) = (0, usize::from(self.length));
        let (mut word, mut left) = (0, 0);
        while at < end && self.bytes[at] != 0 {
            let next = at + 1 + usize::from(self.bytes[at]);
            for byte in &mut self.bytes[at + 1..next] {
                if !byte.is_ascii_alphabetic() {
                    continue;
                }
                if left == 0 {
                    (word, left) = (bits(), 64);
                }
                *byte = if word & 1 == 1 {
                    byte.to_ascii_uppercase()
                } else {
                    byte.to_ascii_lowercase()
                };
                (word, left) = (word >> 1, left - 1);
            }
            at = next;
        }
    }

    /// Returns the text in lower case without the final dot, with special characters escaped (RFC 1035 5.1, RFC
    /// 4343 2.1). The root is `.`.
    pub fn text(&self) -> String {
        if self.is_root() {
            return ".".to_owned();
        }
        let mut text = String::with_capacity(usize::from(self.length));
        let mut rest = self.as_bytes();
        while let Some((length, after)) = rest.split_first().filter(|(length, _)| **length != 0) {
            if !text.is_empty() {
                text.push('.');
            }
            let (label, after) = after.split_at(usize::from(*length));
            for byte in label {
                escape(byte.to_ascii_lowercase(), b"\"().;\\@$", &mut text);
            }
            rest = after;
        }
        text
    }
}

/// Appends a byte as a character. Escapes it if it is in `special` or not visible.
pub fn escape(byte: u8, special: &[u8], to: &mut String) {
    if special.contains(&byte) {
        to.push('\\');
        to.push(char::from(byte));
    } else if (0x21..0x7f).contains(&byte) {
        to.push(char::from(byte));
    } else {
        to.push_str(&format!("\\{byte:03}"));
    }
}

impl PartialEq for Name {
    /// Compares without regard to case (RFC 4343 3).
    fn eq(&self, other: &Name) -> bool {
        self.as_bytes().eq_ignore_ascii_case(other.as_bytes())
    }
}

impl Eq for Name {}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        Name::from_text(text).unwrap()
    }

    #[test]
    fn texts_and_wire_form() {
        for (text, wire) in [
            (".", &b"\0"[..]),
            ("a.test", b"\x01a\x04test\0"),
            ("A.Test.", b"\x01A\x04Test\0"),
            ("_x.xn--bcher-kva.", b"\x02_x\x0dxn--bcher-kva\0"),
        ] {
            assert_eq!(name(text).as_bytes(), wire);
            let expected = text.to_lowercase();
            assert_eq!(
                name(text).text(),
                if text == "." {
                    text
                } else {
                    expected.trim_end_matches('.')
                }
            );
        }
        let long = "a".repeat(63);
        let many = [long.as_str(); 4].join(".");
        for text in ["a..b", ".a", "a b", "ü.test", &"a".repeat(64), &many] {
            assert!(Name::from_text(text).is_none(), "{text}");
        }
        let most = format!("{}.{}", [long.as_str(); 3].join("."), &long[..61]);
        assert_eq!(name(&most).as_bytes().len(), 255);
    }

    #[test]
    fn pointers_lead_back_only() {
        let message = b"\x04test\0\x01a\xc0\x00\x01b\xc0\x06rest";
        for (at, text, after) in [(0, "test", 6), (6, "a.test", 10), (10, "b.a.test", 14)] {
            let (read, end) = Name::read(message, at).unwrap();
            assert_eq!((read.text(), end), (text.to_owned(), after));
            assert_eq!(Name::skip(message, at), Ok(after));
        }
        for bad in [
            &b"\xc0\x00"[..],
            b"\xc0\x02\xc0\x00",
            b"\x01a\xc0\x00",
            b"\x01",
            b"",
            b"\x40a",
            b"\xc0",
        ] {
            assert!(Name::read(bad, 0).is_err(), "{bad:?}");
        }
        // A chain of pointers, each to the previous one, terminates; so does a name that grows.
        let mut ladder = b"\0".to_vec();
        for step in 0..200_u16 {
            let to = if step == 0 { 0 } else { 1 + 4 * (step - 1) };
            ladder.extend([1, b'a']);
            ladder.extend((0xc000 | to).to_be_bytes());
        }
        assert_eq!(
            Name::read(&ladder, ladder.len() - 4).err(),
            Some(Malformed("a name is longer than 255 bytes"))
        );
        let mut pointers = b"\x01a\0\xc0\x00".to_vec();
        for step in 0..127_u16 {
            assert_eq!(
                name("a"),
                Name::read(&pointers, pointers.len() - 2).unwrap().0
            );
            pointers.extend((0xc003 + 2 * step).to_be_bytes());
        }
        assert_eq!(
            Name::read(&pointers, pointers.len() - 2).err(),
            Some(Malformed("a name has more than 127 pointers"))
        );
    }

    #[test]
    fn special_characters_are_escaped() {
        let (read, _) = Name::read(b"\x06a.\\ \xff\0\0", 0).unwrap();
        assert_eq!(read.text(), "a\\.\\\\\\032\\255\\000");
    }

    #[test]
    fn case_is_mixed_and_does_not_matter() {
        let mut mixed = name("ab-1.test");
        mixed.mix_case(|| 0b10_1010);
        assert_eq!(mixed.as_bytes(), b"\x04aB-1\x04tEsT\0");
        assert_eq!(mixed, name("AB-1.TEST"));
        assert!(mixed.has_upper_case());
        mixed.make_lower_case();
        assert_eq!(mixed.as_bytes(), b"\x04ab-1\x04test\0");
        assert!(!mixed.has_upper_case() && !name(".").has_upper_case());
        assert_ne!(mixed, name("ab-1.tes"));
    }
}
