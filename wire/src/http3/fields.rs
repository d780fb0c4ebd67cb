//! A decoded field section, stored in two allocations.

use super::Http3Error;

/// Number of bytes added to the size for each field (RFC 9114 4.2.2).
const OVERHEAD: usize = 32;

/// Fields in wire order, without pseudo-header fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSection {
    /// The concatenated names and values.
    text: Vec<u8>,
    /// The end of each field's name and value in `text`.
    ends: Vec<(usize, usize)>,
    size: usize,
}

impl FieldSection {
    /// Returns the name and value of each field, in wire order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, end)| {
            let field = (&self.text[start..name_end], &self.text[name_end..end]);
            start = end;
            field
        })
    }

    /// Returns the value of the first field `name` (in lower case), or `None`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.iter();
        fields.find_map(|(this, value)| (this == name.as_bytes()).then_some(value))
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the size of the section in bytes, including pseudo-header fields, as SETTINGS_MAX_FIELD_SECTION_SIZE
    /// defines it: names, values, and 32 bytes per field (RFC 9114 4.2.2).
    pub fn size(&self) -> usize {
        self.size
    }

    /// Counts a field. Fails if the section becomes larger than `limit` bytes.
    pub(super) fn count(
        &mut self,
        name: &[u8],
        value: &[u8],
        limit: usize,
    ) -> Result<(), Http3Error> {
        // The lengths describe bytes in memory, so their sum does not overflow.
        self.size += name.len() + value.len() + OVERHEAD;
        if self.size > limit {
            return Err(Http3Error::excessive("field section above the limit"));
        }
        Ok(())
    }

    /// Stores a field that was counted.
    pub(super) fn keep(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len();
        self.text.extend_from_slice(value);
        self.ends.push((name_end, self.text.len()));
    }
}

/// Returns whether a name is a token without upper-case letters (RFC 9114 4.2, RFC 9110 5.6.2).
pub fn is_name(name: &[u8]) -> bool {
    let allowed = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte)
    };
    !name.is_empty() && name.iter().all(allowed)
}

/// Returns whether a value is free of NUL, CR and LF, which end a field or a text elsewhere (RFC 9110 5.5).
pub fn is_value(value: &[u8]) -> bool {
    !value.iter().any(|byte| [0, b'\r', b'\n'].contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_kept_in_order_and_counted() {
        let mut section = FieldSection::default();
        assert!(section.is_empty() && section.iter().next().is_none());
        let fields = [("server", "a"), ("", ""), ("via", ""), ("server", "b")];
        for (name, value) in fields {
            let (name, value) = (name.as_bytes(), value.as_bytes());
            section.count(name, value, 145).unwrap();
            section.keep(name, value);
        }
        let kept: Vec<_> = section.iter().collect();
        assert_eq!(
            kept,
            fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()))
        );
        assert_eq!((section.len(), section.is_empty()), (4, false));
        assert_eq!(section.size(), 4 * 32 + 2 * 6 + 3 + 2);
        assert_eq!(section.get("server"), Some(&b"a"[..]));
        assert_eq!(section.get("via"), Some(&b""[..]));
        assert_eq!(section.get("Server"), None);
    }

    #[test]
    fn the_limit_is_the_largest_size() {
        for (limit, is_allowed) in [(36, true), (35, false)] {
            let counted = FieldSection::default().count(b"via", b"x", limit);
            assert_eq!(counted.is_ok(), is_allowed);
        }
    }

    #[test]
    fn characters_of_names_and_values() {
        for (name, is_right) in [
            (&b"x-y_1!"[..], true),
            (b"", false),
            (b"Server", false),
            (b"a b", false),
            (b"a:b", false),
            (b"a\x7f", false),
            (b"\xc3\xa4", false),
        ] {
            assert_eq!(is_name(name), is_right, "{name:?}");
        }
        for (value, is_right) in [
            (&b""[..], true),
            (b" a\tb\x01\xff", true),
            (b"a\0", false),
            (b"a\rb", false),
            (b"\nb", false),
        ] {
            assert_eq!(is_value(value), is_right, "{value:?}");
        }
    }
}
