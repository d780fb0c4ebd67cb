//! QUIC versions with supported Initial packets, and their differences: salt, labels, Retry keys, packet type bits
//! (RFC 9001 5.2 and 5.8, RFC 9369 3, draft-ietf-quic-tls-22, -23, -25, -29, -33).

use std::fmt;

/// A version number as on the wire; `Display` writes `0x` and eight hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u32);

/// Versions with the same Initial protection and packet formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V1,
    V2,
    /// Drafts 29 to 32.
    Draft29,
    /// Drafts 25 to 28. A Retry has an integrity tag.
    Draft25,
    /// Drafts 23 and 24. A Retry repeats the original destination connection ID.
    Draft23,
    /// Draft 22. Like Draft23, with another salt.
    Draft22,
}

impl Family {
    /// Returns whether a Retry repeats the original destination connection ID instead of an integrity tag
    /// (draft-ietf-quic-transport-24 17.2.5).
    pub(crate) fn repeats_odcid(self) -> bool {
        matches!(self, Family::Draft22 | Family::Draft23)
    }
}

impl Version {
    /// Marks a Version Negotiation packet.
    pub const NEGOTIATION: Version = Version(0);
    /// RFC 9000.
    pub const V1: Version = Version(1);
    /// RFC 9369.
    pub const V2: Version = Version(0x6b33_43cf);
    /// draft-ietf-quic-transport-29. Drafts 30 to 32 use the same salt.
    pub const DRAFT_29: Version = Version(0xff00_001d);

    /// Returns whether Initial packets of this version can be built and opened.
    pub fn is_known(self) -> bool {
        self.family().is_some()
    }

    /// Returns whether the version has the form 0x?a?a?a?a, which no server may select (RFC 9000 15).
    pub fn is_reserved(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }

    pub(crate) fn family(self) -> Option<Family> {
        match self.0 {
            1 => Some(Family::V1),
            0x6b33_43cf => Some(Family::V2),
            _ => match self.draft()? {
                33..=34 => Some(Family::V1),
                29..=32 => Some(Family::Draft29),
                25..=28 => Some(Family::Draft25),
                23..=24 => Some(Family::Draft23),
                22 => Some(Family::Draft22),
                _ => None,
            },
        }
    }

    /// Returns the draft of QUIC version 1 that this version is, or that it is based on (versions of Facebook's
    /// mvfst).
    pub fn draft(self) -> Option<u8> {
        match self.0 {
            0xff00_0001..=0xff00_0022 => Some(self.0 as u8),
            0xface_b001 => Some(22),
            0xface_b002 | 0xface_b00e => Some(27),
            _ => None,
        }
    }

    /// Returns whether transport parameters have 16-bit lengths, which this parser does not support: up to draft
    /// 26.
    pub fn has_old_parameters(self) -> bool {
        self.draft().is_some_and(|draft| draft <= 26)
    }

    /// Returns the reason why packets of this version cannot be read, or `None` if they can.
    pub fn why_unread(self) -> Option<&'static str> {
        if self.is_known() {
            return None;
        }
        Some(match self.0.to_be_bytes() {
            [b'Q' | b'T', b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] => {
                "version of Google QUIC, whose frames are not read"
            }
            _ if self.draft().is_some() => "draft before 22, which is not read",
            _ if self.is_reserved() => "reserved version, which no server may speak",
            _ => "version without known keys",
        })
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_read_or_says_why_not() {
        for (number, why) in [
            (1, None),
            (0x6b33_43cf, None),
            (0xff00_0016, None),
            (0xff00_001c, None),
            (0xff00_0022, None),
            (0xface_b002, None),
            (0xff00_0015, Some("draft before 22, which is not read")),
            (
                0x5130_3530,
                Some("version of Google QUIC, whose frames are not read"),
            ),
            (
                0x1a2a_3a4a,
                Some("reserved version, which no server may speak"),
            ),
            (0x5401_0000, Some("version without known keys")),
            (0xff00_0023, Some("version without known keys")),
        ] {
            assert_eq!(Version(number).why_unread(), why, "{number:#x}");
        }
        assert!(Version(0xff00_001a).has_old_parameters());
        assert!(!Version(0xff00_001b).has_old_parameters());
        assert!(!Version::V1.has_old_parameters());
    }

    #[test]
    fn reserved_versions_have_an_a_in_every_byte() {
        for (number, reserved) in [
            (0x0a0a_0a0a, true),
            (0x1a2a_3a4a, true),
            (0xfafa_fafa, true),
            (0x1a2a_3a4b, false),
            (0xa0a0_a0a0, false),
            (0x0a0a_0a00, false),
            (0x000a_0a0a, false),
            (1, false),
        ] {
            assert_eq!(Version(number).is_reserved(), reserved, "{number:#x}");
        }
    }
}
