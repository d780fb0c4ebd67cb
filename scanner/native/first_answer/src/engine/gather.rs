//! Computes when the loop wakes up. Stamps are the kernel's, so datagrams need not be read immediately. While several
//! probes are in flight, the clock wakes the loop, and not every datagram (docs/design/0016).

use firstflight_core::clock::Mono;

/// Time between two passes of the loop at high rates, so that a pass handles several packets.
pub const PAUSE: Mono = 2_000_000;

/// Longest sleep.
pub const LONGEST_WAIT: Mono = 100_000_000;

/// Upper limit of the wait after new probes were sent. Probes to addresses and networks that become free during the
/// wait are then sent together.
const SEND_GAP: Mono = 20_000_000;

/// Datagrams and expired deadlines wait for `READ_GAPS` times the send gap, within the bounds `READ_GAP`. The wait is
/// longer at low rates, where fewer datagrams arrive.
const READ_GAPS: Mono = 2;
const READ_GAP: (Mono, Mono) = (20_000_000, 100_000_000);

/// With at least this many probes in flight, datagrams arrive often enough to gather them.
const SEVERAL: usize = 2;

/// After a pass that has read more events than this, the next pass starts on arrival. A flood must not fill the buffer
/// that other answers need.
const FLOOD: usize = 64;

/// State that determines the next wake-up.
#[derive(Clone, Copy)]
pub struct State {
    /// Now, and the start of the present pass.
    pub now: Mono,
    pub pass: Mono,
    /// Number of events that the present pass has read.
    pub read: usize,
    /// Number of probes in flight.
    pub in_flight: usize,
    /// Time in which the new probes in a group become due, and when probes of the list were last sent.
    pub gap: Mono,
    pub sent_new: Mono,
    /// When the next group of the list may be sent.
    pub next_new: Option<Mono>,
    /// When the next planned probe is due.
    pub planned: Option<Mono>,
    /// When another action is due: a deadline, or a queued datagram.
    pub other: Option<Mono>,
}

/// When a sleep is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// At this time, even if events arrive before.
    At(Mono),
    /// When the first event arrives, or at this time.
    OnArrival(Mono),
}

/// Returns when the next pass starts. Planned probes are always sent at their times.
pub fn next(state: &State) -> Wake {
    let gathers = state.in_flight >= SEVERAL && state.read <= FLOOD;
    let due = |times: [Option<Mono>; 3], longest| {
        let times = times.into_iter().flatten();
        times.fold(longest, Mono::min)
    };
    if gathers {
        // Shorter than the gap, because a run may be faster after a stall.
        let send_gap = (state.gap / 4 * 3).min(SEND_GAP);
        let next_new = state.next_new.map(|at| at.max(state.sent_new + send_gap));
        let longest = (READ_GAPS * state.gap).clamp(READ_GAP.0, READ_GAP.1);
        Wake::At(due([next_new, state.planned, None], state.pass + longest))
    } else {
        let times = [state.next_new, state.planned, state.other];
        Wake::OnArrival(due(times, state.now + LONGEST_WAIT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Mono = 1_000_000;

    #[test]
    fn several_probes_in_flight_are_served_by_the_clock() {
        let state = State {
            now: 1001 * MS,
            pass: 1000 * MS,
            read: 3,
            in_flight: 2,
            gap: 4 * MS,
            sent_new: 1000 * MS,
            next_new: None,
            planned: None,
            other: None,
        };
        let at = |ms: Mono| Wake::At(ms * MS);
        let arrival = |ms: Mono| Wake::OnArrival(ms * MS);
        let ms = |ms: Mono| Some(ms * MS);
        for (name, state, expected) in [
            ("answers gather", state, at(1020)),
            (
                "for longer if fewer datagrams arrive",
                State {
                    gap: 14 * MS,
                    ..state
                },
                at(1028),
            ),
            (
                "and for 100 ms at most",
                State {
                    gap: 1000 * MS,
                    sent_new: 900 * MS,
                    ..state
                },
                at(1100),
            ),
            (
                "a deadline is served with them",
                State {
                    other: ms(1002),
                    ..state
                },
                at(1020),
            ),
            (
                "new probes that waited for their network leave together",
                State {
                    next_new: ms(1001),
                    ..state
                },
                at(1003),
            ),
            (
                "probes within the rate are sent at their time",
                State {
                    next_new: ms(1013),
                    ..state
                },
                at(1013),
            ),
            (
                "a planned probe is sent at its time",
                State {
                    planned: ms(1002),
                    next_new: ms(1001),
                    ..state
                },
                at(1002),
            ),
            (
                "a single probe is handled immediately",
                State {
                    in_flight: 1,
                    ..state
                },
                arrival(1101),
            ),
            (
                "its deadline is exact",
                State {
                    in_flight: 1,
                    other: ms(1002),
                    next_new: ms(1013),
                    ..state
                },
                arrival(1002),
            ),
            (
                "a flood is read",
                State { read: 65, ..state },
                arrival(1101),
            ),
        ] {
            assert_eq!(next(&state), expected, "{name}");
        }
    }
}
