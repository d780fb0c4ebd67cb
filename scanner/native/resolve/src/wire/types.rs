//! Types of questions, and response codes.

/// CNAME (RFC 1035 3.3.1). The answer to any question may contain it.
pub const CNAME: u16 = 5;
/// NS (RFC 1035 3.3.11).
pub const NS: u16 = 2;
/// SOA (RFC 1035 3.3.13).
pub const SOA: u16 = 6;
/// OPT (RFC 6891 6.1).
pub const OPT: u16 = 41;
/// Class IN (RFC 1035 3.2.4).
pub const IN: u16 = 1;

/// A type that can be queried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum QType {
    A,
    Aaaa,
    Https,
    Cname,
    Ns,
    Mx,
    Txt,
    Caa,
}

impl QType {
    /// All types, in the order of the record kind.
    pub const ALL: [QType; 8] = [
        QType::A,
        QType::Aaaa,
        QType::Https,
        QType::Cname,
        QType::Ns,
        QType::Mx,
        QType::Txt,
        QType::Caa,
    ];
    /// Types without `--types`.
    pub const DEFAULT: [QType; 3] = [QType::A, QType::Aaaa, QType::Https];

    /// Returns the type number: RFC 1035 3.2.2, RFC 3596 2.1 (AAAA), RFC 9460 14.1 (HTTPS), RFC 8659 4.1 (CAA).
    pub fn code(self) -> u16 {
        match self {
            QType::A => 1,
            QType::Ns => NS,
            QType::Cname => CNAME,
            QType::Mx => 15,
            QType::Txt => 16,
            QType::Aaaa => 28,
            QType::Https => 65,
            QType::Caa => 257,
        }
    }

    /// Returns the name in records.
    pub fn name(self) -> &'static str {
        match self {
            QType::A => "A",
            QType::Aaaa => "AAAA",
            QType::Https => "HTTPS",
            QType::Cname => "CNAME",
            QType::Ns => "NS",
            QType::Mx => "MX",
            QType::Txt => "TXT",
            QType::Caa => "CAA",
        }
    }

    /// Parses a type's name, in upper or lower case.
    pub fn from_name(name: &str) -> Option<QType> {
        QType::ALL
            .into_iter()
            .find(|qtype| qtype.name().eq_ignore_ascii_case(name))
    }
}

/// The extended RCODE BADVERS (RFC 6891 9).
pub const BADVERS: u16 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_types() {
        for qtype in QType::ALL {
            assert_eq!(QType::from_name(&qtype.name().to_lowercase()), Some(qtype));
        }
        assert_eq!(QType::from_name("ANY"), None);
    }
}
