//! What limits a download's throughput: the server's application, our receive window, the server's congestion window,
//! or the path. The time between two data packets of the server is attributed to one of these causes
//! (docs/definitions.md, "Limits of throughput"). The classes follow Zhang et al., "On the characteristics and origins
//! of internet flow rates" (SIGCOMM 2002); the rules use timestamps, for a capture at the client.

use std::collections::VecDeque;

use crate::flow::coverage::{before, later};

/// Shortest pause that can be attributed: the clock of timestamps counts milliseconds.
const MIN_SLACK_NS: i64 = 1_000_000;
/// Full segments that may be missing to the end of the receive window.
const WINDOW_SEGMENTS: u32 = 3;
/// Length of a full segment if the client announced none (RFC 9293 3.7.1).
const DEFAULT_MSS: u32 = 536;
/// Shortest full segment on a path whose MTU is not smaller than IPv6 requires (RFC 8200 5).
const MIN_FULL: u32 = 1200;
/// Length of the timestamps option with padding, which the announced length includes (RFC 6691).
const TIMESTAMPS_BYTES: u32 = 12;
/// Maximum number of clock ticks between a packet and its echo.
const MAX_TICKS: usize = 1 << 12;
/// A verdict needs this many round-trip times of attributed time.
const MIN_ROUND_TRIPS: i64 = 2;

/// Why the server did not send earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    Application,
    ReceiveWindow,
    CongestionWindow,
    Path,
}

impl Cause {
    pub const ALL: [Cause; 4] = [
        Cause::Application,
        Cause::ReceiveWindow,
        Cause::CongestionWindow,
        Cause::Path,
    ];

    /// The value of the column `limited_by`.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Application => "application",
            Cause::ReceiveWindow => "receive_window",
            Cause::CongestionWindow => "congestion_window",
            Cause::Path => "path",
        }
    }
}

/// A packet of the client. `window`: in bytes; `None` if its scale is unknown.
#[derive(Clone, Copy, Debug)]
pub struct Acknowledgement {
    pub ns: i64,
    pub ack: u32,
    pub window: Option<u32>,
    /// The value of the timestamps option.
    pub value: u32,
    pub has_payload: bool,
}

/// A data packet of the server.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub ns: i64,
    pub seq: u32,
    pub length: u32,
    /// The echo in the timestamps option.
    pub echo: u32,
    /// Bytes before it are missing, or it fills such a gap, or it repeats bytes.
    pub in_recovery: bool,
}

/// What the client permitted in packets with the same timestamp value.
#[derive(Clone, Copy, Debug)]
struct Tick {
    value: u32,
    first_ns: i64,
    permitted: Permitted,
}

/// The highest acknowledged number, and the end of the window.
#[derive(Clone, Copy, Debug)]
struct Permitted {
    ack: u32,
    edge: u32,
}

impl Permitted {
    fn join(self, other: Permitted) -> Permitted {
        Permitted {
            ack: later(self.ack, other.ack),
            edge: later(self.edge, other.edge),
        }
    }
}

/// The newest data packet, and the end of the data.
#[derive(Clone, Copy, Debug)]
struct Last {
    ns: i64,
    echo: u32,
    end: u32,
    is_full: bool,
}

/// The observations of a flow.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// The client's packets that the server may echo, oldest first.
    ticks: VecDeque<Tick>,
    /// What the server had learnt from packets before the newest echoed one.
    known: Option<Permitted>,
    /// The highest acknowledgement, and the time of the first packet with it.
    acked: Option<(u32, i64)>,
    last: Option<Last>,
    /// The newest echo.
    heard: Option<u32>,
    /// Payload of the longest packet that is not longer than a segment may be.
    full: u32,
    /// The client sent payload after the newest data packet.
    is_client_turn: bool,
    time_ns: [i64; Cause::ALL.len()],
    is_unknown: bool,
}

impl Limits {
    /// The client sent a packet.
    pub fn sent(&mut self, packet: &Acknowledgement) {
        self.is_client_turn |= packet.has_payload;
        let Some(window) = packet.window else {
            self.make_unknown();
            return;
        };
        if self.is_unknown {
            return;
        }
        let permitted = Permitted {
            ack: packet.ack,
            edge: packet.ack.wrapping_add(window),
        };
        if self.acked.is_none_or(|(ack, _)| before(ack, packet.ack)) {
            self.acked = Some((packet.ack, packet.ns));
        }
        if let Some(newest) = self.ticks.back_mut()
            && !before(newest.value, packet.value)
        {
            newest.permitted = newest.permitted.join(permitted);
        } else if self.ticks.len() == MAX_TICKS {
            self.make_unknown();
        } else {
            self.ticks.push_back(Tick {
                value: packet.value,
                first_ns: packet.ns,
                permitted,
            });
        }
    }

    /// A packet of the server without data arrived. By this echo, the server knows all earlier permissions.
    pub fn heard(&mut self, echo: u32) {
        // An echo of a packet that the client has not sent says nothing.
        if self
            .ticks
            .back()
            .is_some_and(|newest| !before(newest.value, echo))
        {
            self.learn_before(echo);
        }
    }

    /// The server's data arrived. `mss`: the client's announced maximum; `rtt_ns`: the shortest round-trip time so far.
    pub fn arrived(&mut self, arrival: &Arrival, mss: Option<u16>, rtt_ns: Option<i64>) {
        if self.is_unknown {
            return;
        }
        let segment = mss.map_or(DEFAULT_MSS, u32::from);
        let segment = segment.saturating_sub(TIMESTAMPS_BYTES).max(1);
        let is_overtaken = self
            .heard
            .is_some_and(|newest| before(arrival.echo, newest));
        if !is_overtaken {
            self.learn_before(arrival.echo);
            self.attribute(arrival, rtt_ns);
        }
        self.note(arrival, segment, is_overtaken);
    }

    /// Joins what the client permitted before the packet with this echo to what the server knew.
    fn learn_before(&mut self, echo: u32) {
        while let Some(tick) = self.ticks.front().filter(|tick| before(tick.value, echo)) {
            let permitted = tick.permitted;
            self.known = Some(self.known.map_or(permitted, |known| known.join(permitted)));
            self.ticks.pop_front();
        }
        self.heard = Some(self.heard.map_or(echo, |newest| later(newest, echo)));
    }

    /// Attributes the time since the last packet with data.
    fn attribute(&mut self, arrival: &Arrival, rtt_ns: Option<i64>) {
        let (Some(last), false) = (self.last, self.is_client_turn) else {
            return;
        };
        let echoed = self.ticks.front().copied();
        let echoed = echoed.filter(|tick| tick.value == arrival.echo);
        let passed_ns = arrival.ns.checked_sub(last.ns).filter(|&ns| ns >= 0);
        let (Some(echoed), Some(rtt_ns), Some(passed_ns)) = (echoed, rtt_ns, passed_ns) else {
            self.make_unknown();
            return;
        };
        let cause = self.cause(&last, arrival, &echoed, rtt_ns);
        let time_ns = &mut self.time_ns[cause as usize];
        *time_ns = time_ns.saturating_add(passed_ns);
    }

    /// Notes a data packet. The time after an overtaken one starts at the packet that overtook it.
    fn note(&mut self, arrival: &Arrival, segment: u32, is_overtaken: bool) {
        self.full = self.full.max(segment.min(MIN_FULL));
        if arrival.length <= segment {
            self.full = self.full.max(arrival.length);
        }
        let end = arrival.seq.wrapping_add(arrival.length);
        let is_new = self.last.is_none_or(|last| before(last.end, end));
        let (end, is_full) = match self.last {
            Some(last) if !is_new => (last.end, last.is_full),
            _ => (end, arrival.length >= self.full),
        };
        if let (Some(last), true) = (&mut self.last, is_overtaken) {
            (last.end, last.is_full) = (end, is_full);
            return;
        }
        self.is_client_turn = false;
        self.last = Some(Last {
            ns: arrival.ns,
            echo: arrival.echo,
            end,
            is_full,
        });
    }

    /// The cause of the time from `last` to `arrival`. `echoed`: the client's packet that the server had received when
    /// it sent `arrival`.
    fn cause(&self, last: &Last, arrival: &Arrival, echoed: &Tick, rtt_ns: i64) -> Cause {
        let slack_ns = (rtt_ns / 4).max(MIN_SLACK_NS);
        let is_pause = arrival.ns - last.ns > slack_ns;
        if is_pause && arrival.in_recovery {
            return Cause::CongestionWindow;
        }
        // The packet that caused the server to send may be `echoed`, so what it permits came too late for the pause.
        let at_pause = match self.known {
            Some(known) if arrival.echo == last.echo => known.join(echoed.permitted),
            Some(known) => known,
            None => echoed.permitted,
        };
        let in_hand = at_pause.join(echoed.permitted);
        let idle_ns = self.acked.map_or(0, |(_, ns)| {
            arrival.ns.saturating_sub(ns).saturating_sub(rtt_ns)
        });
        if is_pause && !before(in_hand.ack, last.end) && idle_ns > slack_ns {
            return Cause::Application;
        }
        if arrival.ns.saturating_sub(echoed.first_ns) > rtt_ns.saturating_add(slack_ns) {
            return Cause::Path;
        }
        let left = at_pause.edge.wrapping_sub(last.end);
        if before(at_pause.edge, last.end) || left < WINDOW_SEGMENTS * self.full {
            return Cause::ReceiveWindow;
        }
        if last.is_full {
            Cause::CongestionWindow
        } else {
            Cause::Application
        }
    }

    /// The facts for this flow are incomplete, for example because the capture lacks packets.
    pub fn make_unknown(&mut self) {
        self.is_unknown = true;
        self.ticks = VecDeque::new();
    }

    /// Nanoseconds with this cause; `None` if unknown.
    pub fn time_ns(&self, cause: Cause) -> Option<i64> {
        (!self.is_unknown).then_some(self.time_ns[cause as usize])
    }

    /// The cause of more than half of the attributed time; `None` if there is no such cause, or if too little time is
    /// attributed. `rtt_ns`: the flow's shortest round-trip time.
    pub fn verdict(&self, rtt_ns: i64) -> Option<Cause> {
        let all_ns = self
            .time_ns
            .iter()
            .fold(0_i64, |all, &ns| all.saturating_add(ns));
        if self.is_unknown || all_ns < MIN_ROUND_TRIPS.saturating_mul(rtt_ns) {
            return None;
        }
        Cause::ALL
            .into_iter()
            .find(|&cause| self.time_ns[cause as usize] > all_ns - self.time_ns[cause as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const RTT: i64 = 20 * MS;

    fn acknowledgement(ms: i64, ack: u32, window: u32) -> Acknowledgement {
        Acknowledgement {
            ns: ms * MS,
            ack,
            window: Some(window),
            value: ms as u32,
            has_payload: false,
        }
    }

    fn arrival(ms: i64, seq: u32, length: u32, echo: u32) -> Arrival {
        Arrival {
            ns: ms * MS,
            seq,
            length,
            echo,
            in_recovery: false,
        }
    }

    /// Two packets at 0 ms, the second with `length` bytes, acknowledged at 1 ms and 2 ms with `window`; then `next`.
    fn pause(length: u32, window: u32, next: Arrival) -> Limits {
        let mut limits = Limits::default();
        limits.sent(&acknowledgement(-20, 0, window));
        limits.arrived(&arrival(0, 0, 1000, -20_i32 as u32), Some(1012), Some(RTT));
        limits.arrived(
            &arrival(0, 1000, length, -20_i32 as u32),
            Some(1012),
            Some(RTT),
        );
        limits.sent(&acknowledgement(1, 1000, window));
        limits.sent(&acknowledgement(2, 1000 + length, window));
        limits.arrived(&next, Some(1012), Some(RTT));
        limits
    }

    #[test]
    fn a_pause_has_one_cause() {
        let late = Arrival {
            in_recovery: true,
            ..arrival(100, 2000, 1000, 2)
        };
        for (length, window, next, expected) in [
            (
                1000,
                9000,
                arrival(21, 2000, 1000, 1),
                Cause::CongestionWindow,
            ),
            (
                1000,
                9000,
                arrival(22, 2000, 1000, 2),
                Cause::CongestionWindow,
            ),
            (1000, 9000, late, Cause::CongestionWindow),
            // The packet before the echoed one opened the window to 4000: two segments are left.
            (1000, 3000, arrival(22, 2000, 1000, 2), Cause::ReceiveWindow),
            (1000, 3999, arrival(22, 2000, 1000, 2), Cause::ReceiveWindow),
            (
                1000,
                4000,
                arrival(22, 2000, 1000, 2),
                Cause::CongestionWindow,
            ),
            // Nothing was in flight for 58 ms.
            (1000, 9000, arrival(80, 2000, 1000, 2), Cause::Application),
            (999, 9000, arrival(22, 1999, 1000, 2), Cause::Application),
            (999, 9000, arrival(1, 1999, 1000, 2), Cause::Application),
            (
                1000,
                9000,
                arrival(1, 2000, 1000, 2),
                Cause::CongestionWindow,
            ),
            (1000, 3000, arrival(1, 2000, 1000, 2), Cause::ReceiveWindow),
            // In flight, and later than a round trip after its permission.
            (1000, 9000, arrival(80, 2000, 1000, 1), Cause::Path),
        ] {
            let limits = pause(length, window, next);
            let found = Cause::ALL.map(|cause| limits.time_ns(cause).expect("known"));
            let whole = next.ns;
            let wanted = Cause::ALL.map(|cause| if cause == expected { whole } else { 0 });
            assert_eq!(found, wanted, "{length} {window} {next:?}");
        }
    }

    #[test]
    fn time_in_which_the_client_speaks_has_no_cause() {
        let mut limits = pause(1000, 9000, arrival(1, 2000, 1000, 2));
        limits.sent(&Acknowledgement {
            has_payload: true,
            ..acknowledgement(2, 3000, 9000)
        });
        limits.arrived(&arrival(500, 3000, 1000, 2), Some(1012), Some(RTT));
        let all: Option<i64> = Cause::ALL
            .map(|cause| limits.time_ns(cause))
            .into_iter()
            .sum();
        assert_eq!(all, Some(MS));
    }

    /// The time since the last packet counts once, with the packet that overtook another.
    #[test]
    fn an_overtaken_packet_starts_and_ends_no_time() {
        let mut limits = pause(1000, 9000, arrival(22, 3000, 1000, 2));
        let before = Cause::ALL.map(|cause| limits.time_ns(cause));
        limits.arrived(&arrival(23, 2000, 1000, 1), Some(1012), Some(RTT));
        assert_eq!(Cause::ALL.map(|cause| limits.time_ns(cause)), before);
        limits.arrived(&arrival(24, 4000, 1000, 2), Some(1012), Some(RTT));
        let all: Option<i64> = Cause::ALL
            .map(|cause| limits.time_ns(cause))
            .into_iter()
            .sum();
        assert_eq!(all, Some(24 * MS));
    }

    #[test]
    fn three_full_segments_are_as_long_as_those_of_the_path() {
        for (left, expected) in [
            (3 * 1380 - 1, Cause::ReceiveWindow),
            (3 * 1380, Cause::CongestionWindow),
        ] {
            let mut limits = Limits::default();
            limits.sent(&acknowledgement(0, 0, 1380 + left));
            limits.sent(&acknowledgement(1, 0, 1380 + left));
            limits.arrived(&arrival(20, 0, 1380, 1), Some(1460), Some(RTT));
            limits.arrived(&arrival(21, 1380, 1380, 1), Some(1460), Some(RTT));
            assert_eq!(limits.time_ns(expected), Some(MS), "{left}");
        }
    }

    #[test]
    fn packets_without_data_free_what_the_server_has_learnt() {
        let mut limits = Limits::default();
        for ms in 0..2 * MAX_TICKS as i64 {
            limits.sent(&acknowledgement(ms, 0, 9000));
            limits.heard(ms as u32);
            // It answers nothing that the client has sent.
            limits.heard(ms as u32 + 1000);
        }
        assert_eq!(limits.ticks.len(), 1);
        assert_eq!(limits.time_ns(Cause::Path), Some(0));
    }

    #[test]
    fn a_flow_with_too_many_ticks_is_unknown_and_keeps_none() {
        let mut limits = Limits::default();
        for ms in 0..=MAX_TICKS as i64 {
            limits.sent(&acknowledgement(ms, 0, 9000));
        }
        assert_eq!(limits.time_ns(Cause::Path), None);
        limits.sent(&acknowledgement(1 << 20, 0, 9000));
        assert_eq!(limits.ticks.capacity(), 0);
    }

    #[test]
    fn a_verdict_needs_more_than_half() {
        for (time_ms, expected) in [
            ([30, 20, 0, 9], Some(Cause::Application)),
            ([30, 20, 0, 10], None),
            ([0, 0, 40, 0], Some(Cause::CongestionWindow)),
            // Less than two round trips.
            ([0, 0, 39, 0], None),
            ([0; 4], None),
        ] {
            let limits = Limits {
                time_ns: time_ms.map(|ms| ms * MS),
                ..Limits::default()
            };
            assert_eq!(limits.verdict(RTT), expected, "{time_ms:?}");
        }
    }

    #[test]
    fn unknown_is_not_zero() {
        let next = arrival(22, 2000, 1000, 2);
        let mut no_scale = pause(1000, 9000, next);
        no_scale.sent(&Acknowledgement {
            window: None,
            ..acknowledgement(23, 3000, 0)
        });
        // An echo of no packet of the client.
        let no_echo = pause(1000, 9000, arrival(22, 2000, 1000, 7));
        let mut no_rtt = pause(1000, 9000, next);
        no_rtt.arrived(&arrival(60, 3000, 1000, 2), Some(1012), None);
        let back_in_time = pause(1000, 9000, arrival(-1, 2000, 1000, 2));
        for limits in [no_scale, no_echo, no_rtt, back_in_time] {
            assert_eq!(limits.time_ns(Cause::Path), None);
            assert_eq!(limits.verdict(1), None);
        }
    }
}
