//! Explicit Congestion Notification in the first answer: the marks sent, the marks received, and whether the server's
//! counts are valid (RFC 9000 13.4).

use clap::ValueEnum;

/// The mark of our datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mark {
    Ect0,
    Ect1,
}

impl Mark {
    /// Returns the word used in records.
    pub fn name(self) -> &'static str {
        match self {
            Mark::Ect0 => "ect0",
            Mark::Ect1 => "ect1",
        }
    }

    /// Returns the ECN field of the IP header (RFC 3168 5).
    pub fn field(self) -> u8 {
        match self {
            Mark::Ect0 => 2,
            Mark::Ect1 => 1,
        }
    }
}

/// ECN fields of received datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Number of datagrams by field: not ECT, ECT(1), ECT(0), CE.
    seen: [u16; 4],
}

impl Marks {
    /// Counts a datagram with this field.
    pub fn count(&mut self, field: u8) {
        let seen = &mut self.seen[usize::from(field & 3)];
        *seen = seen.saturating_add(1);
    }

    /// Returns the number of datagrams with ECT(0), ECT(1) and CE.
    pub fn counts(&self) -> [u16; 3] {
        [self.seen[2], self.seen[1], self.seen[3]]
    }
}

/// Returns the verdict on the counts (ECT(0), ECT(1), CE) of the first ACK; `None` if the ACK has no counts. `sent`
/// Initials had `mark`, and the ACK newly acknowledges one Initial. A server counts an acknowledged packet with the
/// mark sent or with CE, and counts no mark that was not sent (RFC 9000 13.4.2.1).
pub fn verdict(mark: Mark, sent: u64, counts: Option<[u64; 3]>) -> &'static str {
    let Some([ect0, ect1, ce]) = counts else {
        return "not_mirrored";
    };
    let (ours, other) = match mark {
        Mark::Ect0 => (ect0, ect1),
        Mark::Ect1 => (ect1, ect0),
    };
    let counted = ours.saturating_add(ce);
    if other == 0 && counted >= 1 && counted <= sent {
        "valid"
    } else {
        "wrong"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_valid_if_they_are_of_what_was_sent() {
        use Mark::{Ect0, Ect1};
        for (name, mark, sent, counts, expected) in [
            ("as sent", Ect0, 1, Some([1, 0, 0]), "valid"),
            ("as sent", Ect1, 1, Some([0, 1, 0]), "valid"),
            ("congestion on the way", Ect0, 1, Some([0, 0, 1]), "valid"),
            ("congestion on the way", Ect1, 1, Some([0, 0, 1]), "valid"),
            ("both Initials", Ect0, 2, Some([2, 0, 0]), "valid"),
            ("one of two", Ect0, 2, Some([1, 0, 0]), "valid"),
            ("one of each kind", Ect0, 2, Some([1, 0, 1]), "valid"),
            ("another mark", Ect0, 1, Some([0, 1, 0]), "wrong"),
            ("another mark", Ect1, 1, Some([1, 0, 0]), "wrong"),
            ("another mark beside", Ect0, 2, Some([1, 1, 0]), "wrong"),
            ("bleached", Ect0, 1, Some([0, 0, 0]), "wrong"),
            ("more than sent", Ect0, 1, Some([2, 0, 0]), "wrong"),
            ("more than sent with CE", Ect0, 1, Some([1, 0, 1]), "wrong"),
            ("most", Ect0, 1, Some([u64::MAX, 0, u64::MAX]), "wrong"),
            ("none", Ect0, 1, None, "not_mirrored"),
        ] {
            assert_eq!(verdict(mark, sent, counts), expected, "{name}, {mark:?}");
        }
    }

    #[test]
    fn marks_are_counted_by_kind() {
        let mut marks = Marks::default();
        for field in [0, 2, 2, 2, 1, 3, 3] {
            marks.count(field);
        }
        assert_eq!(marks.counts(), [3, 1, 2]);
        assert_eq!([Mark::Ect0, Mark::Ect1].map(Mark::field), [2, 1]);
    }
}
