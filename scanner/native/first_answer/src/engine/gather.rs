//! When the loop wakes up. Stamps are the kernel's, so that what comes need not be read at once: while
//! several probes are in flight, the clock wakes the loop and not every datagram (docs/design/0016).

use firstflight_core::clock::Mono;

/// Time between two passes of the loop when much is sent, so that a pass has several packets to deal with.
pub const PAUSE: Mono = 2_000_000;

/// Longest sleep.
pub const LONGEST_WAIT: Mono = 100_000_000;

/// After new probes, those whose address or network is free again wait for so long at most for company.
const SEND_GAP: Mono = 20_000_000;

/// What came, and expired deadlines, wait for so many times the gap between those that leave together, and
/// within these bounds: longer at low rates, where less comes.
const READ_GAPS: Mono = 2;
const READ_GAP: (Mono, Mono) = (20_000_000, 100_000_000);

/// With so many probes in flight, something comes often enough to gather.
const SEVERAL: usize = 2;

/// After a pass with more than this to read, the next one begins when something comes: a flood must not fill
/// the buffer that other answers need.
const FLOOD: usize = 64;

/// What the next wake-up depends on.
#[derive(Clone, Copy)]
pub struct State {
    /// Now, and when the present pass began.
    pub now: Mono,
    pub pass: Mono,
    /// How much the present pass has read.
    pub read: usize,
    /// Number of probes.
    pub in_flight: usize,
    /// In which time those new probes are due that leave together, and when some of the list last left.
    pub gap: Mono,
    pub sent_new: Mono,
    /// When the next ones of the list may leave together.
    pub next_new: Option<Mono>,
    /// When the next planned probe is due.
    pub planned: Option<Mono>,
    /// When something else is due: a deadline, a queued datagram.
    pub other: Option<Mono>,
}

/// What ends a sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This moment, whatever comes before.
    At(Mono),
    /// The first that comes, or this moment.
    OnArrival(Mono),
}

/// Returns when the next pass is to begin. Planned probes leave at their times in any case.
pub fn next(state: &State) -> Wake {
    let gathers = state.in_flight >= SEVERAL && state.read <= FLOOD;
    let due = |times: [Option<Mono>; 3], longest| {
        let times = times.into_iter().flatten();
        times.fold(longest, Mono::min)
    };
    if gathers {
        // Less than the gap, for after a stall a run may be faster.
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
                "for longer if less comes",
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
                "those of the rate leave at their time",
                State {
                    next_new: ms(1013),
                    ..state
                },
                at(1013),
            ),
            (
                "a planned probe leaves at its time",
                State {
                    planned: ms(1002),
                    next_new: ms(1001),
                    ..state
                },
                at(1002),
            ),
            (
                "one probe alone is served at once",
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
