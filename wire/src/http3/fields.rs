//! A decoded field section, kept in two allocations.

use super::Http3Error;

/// What each field counts beside its bytes (RFC 9114 4.2.2).
const OVERHEAD: usize = 32;

/// Fields in wire order, without pseudo-header fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSection {
    /// Names and values, one behind the other.
    text: Vec<u8>,
    /// Where name and value of each field end in it.
    ends: Vec<(usize, usize)>,
    size: usize,
}

impl FieldSection {
    /// Name and value of each field, in wire order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(name_end, end)| {
            let field = (&self.text[start..name_end], &self.text[name_end..end]);
            start = end;
            field
        })
    }

    /// The value of the first field `name` (in lower case), or `None`.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut fields = self.iter();
        fields.find_map(|(this, value)| (this == name.as_bytes()).then_some(value))
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Size of the section in bytes, pseudo-header fields included, as SETTINGS_MAX_FIELD_SECTION_SIZE counts
    /// it: names, values, and 32 per field (RFC 9114 4.2.2).
    pub fn size(&self) -> usize {
        self.size
    }

    /// Counts a field. Fails if the section is then larger than `limit` bytes.
    pub(super) fn count(
        &mut self,
        name: &[u8],
        value: &[u8],
        limit: usize,
    ) -> Result<(), Http3Error> {
        // All lengths are of bytes in memory: their sum does not overflow.
        self.size += name.len() + value.len() + OVERHEAD;
        if self.size > limit {
            return Err(Http3Error::excessive("field section above the limit"));
        }
        Ok(())
    }

    /// Keeps a field that was counted.
    pub(super) fn keep(&mut self, name: &[u8], value: &[u8]) {
        self.text.extend_from_slice(name);
        let name_end = self.text.len();
        self.text.extend_from_slice(value);
        self.ends.push((name_end, self.text.len()));
    }
}

/// Whether a name consists of the characters of a token, none of them in upper case (RFC 9114 4.2, RFC 9110
/// 5.6.2).
pub fn is_name(name: &[u8]) -> bool {
    let allowed = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(byte)
    };
    !name.is_empty() && name.iter().all(allowed)
}

/// Whether a value has none of the characters that end a field or a text elsewhere (RFC 9110 5.5).
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
