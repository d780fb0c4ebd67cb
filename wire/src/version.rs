//! QUIC versions whose Initial packets are understood, and what differs between them: salt, labels,
//! Retry keys, packet type bits (RFC 9001 5.2 and 5.8, RFC 9369 3, draft-ietf-quic-tls-29).

use std::fmt;

/// A version number as on the wire; `Display` writes `0x` and eight hex digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version(pub u32);

/// What Initial protection depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    V1,
    V2,
    Draft29,
}

impl Version {
    /// Marks a Version Negotiation packet.
    pub const NEGOTIATION: Version = Version(0);
    /// RFC 9000.
    pub const V1: Version = Version(1);
    /// RFC 9369.
    pub const V2: Version = Version(0x6b33_43cf);
    /// draft-ietf-quic-transport-29; its salt also serves drafts 30 to 32.
    pub const DRAFT_29: Version = Version(0xff00_001d);

    /// Whether Initial packets of this version can be built and opened.
    pub fn is_known(self) -> bool {
        self.family().is_some()
    }

    /// Whether it is of the form 0x?a?a?a?a, which no server may speak (RFC 9000 15).
    pub fn is_reserved(self) -> bool {
        self.0 & 0x0f0f_0f0f == 0x0a0a_0a0a
    }

    pub(crate) fn family(self) -> Option<Family> {
        match self.0 {
            1 => Some(Family::V1),
            0x6b33_43cf => Some(Family::V2),
            0xff00_001d..=0xff00_0020 => Some(Family::Draft29),
            _ => None,
        }
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
