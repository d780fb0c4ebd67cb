//! Classifies a segment as Wireshark 4.0 does under `tcp.analysis`, in one pass: the four exclusive classes and the
//! marks that they depend on. The verdict depends on time and on the highest numbers that both sides sent and
//! acknowledged before. The rules equal Wireshark's first pass with default preferences.

use firstflight_wire::tcp::Flags;

use crate::flow::coverage::before;

/// Longest time between the last duplicate ACK and the fast retransmission that it requests.
const FAST_NS: i64 = 20_000_000;
/// While the round-trip time is unknown, a segment that arrives later than this after the highest one is not out of
/// order.
const OUT_OF_ORDER_NS: i64 = 3_000_000;

/// The class for a segment without new data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Retransmission,
    Fast,
    Spurious,
    OutOfOrder,
}

/// Marks for a segment in addition to its class; names as in `tcp.analysis`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    pub lost_segment: bool,
    pub ack_lost_segment: bool,
    pub keep_alive: bool,
    pub keep_alive_ack: bool,
    pub duplicate_ack: bool,
    pub zero_window: bool,
    pub zero_window_probe: bool,
    pub zero_window_probe_ack: bool,
}

/// A segment's class and marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    pub class: Option<Class>,
    pub marks: Marks,
}

/// A segment's properties that the analysis needs.
#[derive(Clone, Copy, Debug)]
pub struct ObservedSegment {
    pub ns: i64,
    pub seq: u32,
    pub ack: u32,
    pub flags: Flags,
    /// As on the wire.
    pub window: u16,
    /// Bytes of payload.
    pub length: u32,
}

impl ObservedSegment {
    /// The sequence number after the segment.
    fn end(&self) -> u32 {
        let virtual_byte = u32::from(self.flags.any(Flags::SYN | Flags::FIN));
        self.seq
            .wrapping_add(self.length)
            .wrapping_add(virtual_byte)
    }

    /// Whether it uses sequence numbers.
    fn is_in_sequence(&self) -> bool {
        self.length > 0 || self.flags.any(Flags::SYN | Flags::FIN)
    }

    fn is_plain(&self) -> bool {
        !self.flags.any(Flags::SYN | Flags::FIN | Flags::RST)
    }
}

/// A side as sender. In numbers, zero means "not seen", as in Wireshark.
#[derive(Clone, Copy, Debug, Default)]
struct Side {
    /// Initial sequence number, or a guess.
    base: Option<u32>,
    next: u32,
    /// Time at which `next` was reached.
    next_ns: i64,
    /// Highest number without gaps below it.
    contiguous: u32,
    last_ack: u32,
    last_ack_ns: i64,
    /// Duplicates of `last_ack`; `None` while a loss of the other side makes them meaningless.
    duplicates: Option<u32>,
    window: Option<u16>,
    marks: Marks,
}

/// Both sides of a flow.
#[derive(Clone, Debug, Default)]
pub struct Analysis {
    sides: [Side; 2],
    syn_ns: Option<i64>,
    first_rtt_ns: Option<i64>,
}

impl Analysis {
    pub fn new() -> Analysis {
        let mut analysis = Analysis::default();
        for side in &mut analysis.sides {
            side.duplicates = Some(0);
        }
        analysis
    }

    /// Whether this SYN from side `from` starts another connection on the same ports.
    pub fn is_reuse(&self, from: usize, observed: &ObservedSegment) -> bool {
        observed.flags.is_syn()
            && self.sides[from & 1]
                .base
                .is_some_and(|base| base != observed.seq)
    }

    /// Classifies a segment sent by side `from` (0 or 1).
    pub fn judge(&mut self, from: usize, observed: &ObservedSegment) -> Verdict {
        let [a, b] = &mut self.sides;
        let (fwd, rev) = if from & 1 == 0 { (a, b) } else { (b, a) };
        if let Some(base) = fwd.base {
            if observed.flags.is_syn() && base == observed.seq {
                // A copy of the SYN reverts a RST's change to sequence numbers.
                fwd.next = fwd.contiguous;
            } else if observed.flags.is_syn_ack() {
                fwd.base = Some(observed.seq);
            }
        }
        let first = if observed.flags.any(Flags::SYN) {
            observed.seq
        } else {
            observed.seq.wrapping_sub(1)
        };
        fwd.base.get_or_insert(first);
        if observed.flags.any(Flags::ACK) {
            rev.base.get_or_insert(observed.ack.wrapping_sub(1));
        }

        let mut marks = marks(fwd, rev, observed);
        if marks.duplicate_ack {
            fwd.duplicates = Some(fwd.duplicates.map_or(1, |n| n.saturating_add(1)));
        }
        if observed.ack != fwd.last_ack {
            fwd.duplicates = Some(0);
        }
        marks.ack_lost_segment = acknowledges_uncaptured(rev, observed);
        let class = classify(fwd, rev, observed, &marks, self.first_rtt_ns);
        fwd.advance(observed, marks);

        if observed.flags.is_syn() {
            self.syn_ns = Some(observed.ns);
        }
        if observed.flags.any(Flags::ACK)
            && !observed.flags.any(Flags::SYN)
            && self.first_rtt_ns.is_none()
        {
            // A round-trip time of zero is ignored.
            self.first_rtt_ns = self
                .syn_ns
                .map(|syn| observed.ns - syn)
                .filter(|&ns| ns != 0);
        }
        Verdict { class, marks }
    }
}

impl Side {
    fn advance(&mut self, observed: &ObservedSegment, marks: Marks) {
        let end = observed.end();
        if !marks.zero_window_probe {
            if before(self.next, end) || self.next == 0 {
                self.next = end;
                self.next_ns = observed.ns;
            }
            if self.contiguous == observed.seq || self.contiguous == 0 {
                self.contiguous = self.next;
            }
        }
        self.window = Some(observed.window);
        self.last_ack = observed.ack;
        self.last_ack_ns = observed.ns;
        self.marks = marks;
    }
}

/// Marks that do not depend on the class.
fn marks(fwd: &Side, rev: &Side, observed: &ObservedSegment) -> Marks {
    let mut marks = Marks::default();
    if observed.length == 1 && observed.seq == fwd.next && rev.window == Some(0) {
        marks.zero_window_probe = true;
        return marks;
    }
    marks.zero_window = observed.window == 0 && observed.is_plain();
    marks.lost_segment =
        fwd.next != 0 && before(fwd.next, observed.seq) && !observed.flags.any(Flags::RST);
    marks.keep_alive =
        observed.length <= 1 && observed.seq == fwd.next.wrapping_sub(1) && observed.is_plain();
    let repeats = observed.length == 0
        && fwd.window == Some(observed.window)
        && observed.seq == fwd.next
        && observed.ack == fwd.last_ack
        && observed.is_plain();
    if repeats && observed.window != 0 && rev.marks.keep_alive {
        marks.keep_alive_ack = true;
    } else if repeats && observed.window == 0 && rev.marks.zero_window_probe {
        marks.zero_window_probe_ack = true;
    } else {
        marks.duplicate_ack = repeats && observed.window != 0;
    }
    marks
}

/// Whether `observed` acknowledges uncaptured data. Each loss counts once.
fn acknowledges_uncaptured(rev: &mut Side, observed: &ObservedSegment) -> bool {
    if rev.contiguous == 0
        || !before(rev.contiguous, observed.ack)
        || !observed.flags.any(Flags::ACK)
    {
        return false;
    }
    if before(rev.contiguous, rev.next) {
        rev.contiguous = rev.next;
        return true;
    }
    let is_first = rev.duplicates == Some(0);
    rev.duplicates = None;
    is_first
}

fn classify(
    fwd: &Side,
    rev: &Side,
    observed: &ObservedSegment,
    marks: &Marks,
    first_rtt_ns: Option<i64>,
) -> Option<Class> {
    if !observed.is_in_sequence() || marks.keep_alive {
        return None;
    }
    // One byte below the next expected number, and more data after it: the segment follows a zero window probe.
    let follows_probe = observed.length > 1 && observed.seq == fwd.next.wrapping_sub(1);
    let is_old = fwd.next != 0 && before(observed.seq, fwd.next) && !follows_probe;
    let payload_end = observed.seq.wrapping_add(observed.length);
    if observed.length > 0 && rev.last_ack != 0 && !before(rev.last_ack, payload_end) {
        return Some(Class::Spurious);
    }
    if !is_old {
        return None;
    }
    if rev.duplicates.is_none_or(|n| n >= 2)
        && rev.last_ack == observed.seq
        && (0..FAST_NS).contains(&(observed.ns - rev.last_ack_ns))
    {
        return Some(Class::Fast);
    }
    let limit = first_rtt_ns.unwrap_or(OUT_OF_ORDER_NS);
    if (0..limit).contains(&(observed.ns - fwd.next_ns)) && fwd.next != observed.end() {
        return Some(Class::OutOfOrder);
    }
    Some(Class::Retransmission)
}
