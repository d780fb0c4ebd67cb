//! Loss recovery (RFC 9002) as the packets of a connection show it: the client's round-trip times and probe
//! timeouts, and bytes that either side sent again for nothing.

mod rtt;
mod sent;

pub use rtt::Rtt;
pub use sent::{NewlyAcknowledged, PayloadSummary, Sent};

use firstflight_wire::{Ack, Frame};

/// Samples kept of a connection; [`Rtt::samples`] counts all.
const KEPT: usize = 64;
/// Exponent of ACK Delay where the sender's own does not apply (RFC 9000 18.2).
const DEFAULT_EXPONENT: u64 = 3;
/// max_ack_delay of an endpoint that does not send it, in ms (RFC 9000 18.2).
const DEFAULT_MAX_ACK_DELAY_MS: u64 = 25;

/// Packets remembered of a space at most: some 5 MB on their way.
const MOST_PACKETS: usize = 4096;

/// The same of all connections together, more or less.
const PACKETS_IN_ALL: usize = 1 << 18;

/// How many packets of a space are remembered while there are so many connections.
pub fn remembered(connections: usize) -> usize {
    (PACKETS_IN_ALL / connections.max(1)).min(MOST_PACKETS)
}

/// Longest round-trip time that is believed: one hour.
const LONGEST_NS: i64 = 3_600_000_000_000;

/// Packet number spaces (RFC 9000 12.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    Initial,
    Handshake,
    Application,
}

/// A round-trip time of the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Arrival of the ACK.
    pub ns: i64,
    pub rtt_ns: i64,
    /// Probe timeout in the ACK's space after the sample, before back-off.
    pub pto_ns: i64,
}

/// How the server delays its acknowledgements, from its transport parameters.
#[derive(Clone, Copy, Debug)]
pub struct AckDelay {
    pub exponent: u64,
    pub max_ms: u64,
}

impl Default for AckDelay {
    fn default() -> Self {
        AckDelay {
            exponent: DEFAULT_EXPONENT,
            max_ms: DEFAULT_MAX_ACK_DELAY_MS,
        }
    }
}

/// Recovery of both sides.
#[derive(Debug, Default)]
pub struct Recovery {
    /// By space; those that nothing was sent in take no room.
    client: [Option<Box<Sent>>; 3],
    server: [Option<Box<Sent>>; 3],
    /// Counts of spaces that were released.
    spurious: (u32, u32),
    is_over: bool,
    /// The client's.
    pub rtt: Rtt,
    /// The first of them.
    pub samples: Vec<Sample>,
    /// The server's.
    pub ack_delay: AckDelay,
    pub handshake_confirmed: bool,
    /// How many packets of a space to remember, if that is more than the least.
    pub remembered: usize,
}

impl Recovery {
    /// A new packet opened, and its frames were read. `with_bytes`: follow which bytes are sent again. Gives
    /// what it carried.
    pub fn packet(
        &mut self,
        space: Space,
        from_client: bool,
        number: u64,
        ns: i64,
        frames: &[Frame<'_>],
        with_bytes: bool,
    ) -> PayloadSummary {
        if self.is_over && space != Space::Application {
            return PayloadSummary::default();
        }
        let index = space as usize;
        let (sender, receiver) = if from_client {
            (&mut self.client, &mut self.server)
        } else {
            (&mut self.server, &mut self.client)
        };
        // What the server sent matters for its repetitions only, which nobody sees without bytes.
        let payload = if from_client || with_bytes {
            let sent = sender[index].get_or_insert_default();
            let remembered = self.remembered.max(sent::PACKETS);
            sent.packet(number, ns, frames, with_bytes, remembered)
        } else {
            PayloadSummary::default()
        };
        if self.is_over {
            return payload;
        }
        let mut sampled = None;
        for frame in frames {
            if let Frame::Ack(ack) = frame
                && let Some(sent) = receiver[index].as_mut()
                && let Some(new) = sent.acknowledge(ack)
                && !from_client
            {
                sampled = Some((new.sent_ns, *ack));
            }
        }
        if let Some((sent_ns, ack)) = sampled {
            self.sample(space, sent_ns, ns, &ack);
        }
        payload
    }

    /// A Retry makes the client begin again; its packet numbers go on (RFC 9002 6.3).
    pub fn begin_again(&mut self) {
        *self = Recovery::default();
    }

    fn sample(&mut self, space: Space, sent_ns: i64, ns: i64, ack: &Ack<'_>) {
        let max_ns = i64::try_from(self.ack_delay.max_ms.min(1 << 14)).unwrap_or(0) * 1_000_000;
        let scaled_ns = |exponent: u64| {
            let us = u32::try_from(exponent)
                .ok()
                .and_then(|e| ack.delay.checked_mul(1u64.checked_shl(e)?));
            let ns = us.and_then(|us| i64::try_from(us).ok()?.checked_mul(1000));
            ns.unwrap_or(i64::MAX)
        };
        let delay_ns = match space {
            Space::Initial => 0,
            Space::Handshake => scaled_ns(DEFAULT_EXPONENT),
            Space::Application => scaled_ns(self.ack_delay.exponent),
        };
        let delay_ns = if self.handshake_confirmed {
            delay_ns.min(max_ns)
        } else {
            delay_ns
        };
        let rtt_ns = ns - sent_ns;
        // A clock that was set in between gives no sample.
        if !(0..=LONGEST_NS).contains(&rtt_ns) {
            return;
        }
        self.rtt.sample(rtt_ns, delay_ns);
        let max_ack_delay_ns = if space == Space::Application {
            max_ns
        } else {
            0
        };
        if self.samples.len() < KEPT {
            self.samples.push(Sample {
                ns,
                rtt_ns,
                pto_ns: self.rtt.pto_ns(max_ack_delay_ns),
            });
        }
    }

    /// Freezes ACK-derived state, because the connection was closed; later ACKs are ignored. Payload still
    /// counts, new or repeated.
    pub fn end(&mut self) {
        if self.is_over {
            return;
        }
        self.spurious = self.spurious();
        self.is_over = true;
        for spaces in [&mut self.client, &mut self.server] {
            let application = spaces[Space::Application as usize].take();
            *spaces = Default::default();
            spaces[Space::Application as usize] = application.and_then(Sent::end);
        }
        self.samples.shrink_to_fit();
    }

    /// Packets of client and server that carried CRYPTO or STREAM bytes again although the first to carry
    /// them arrived.
    pub fn spurious(&self) -> (u32, u32) {
        if self.is_over {
            return self.spurious;
        }
        let sum = |spaces: &[Option<Box<Sent>>; 3]| {
            let counts = spaces.iter().flatten().map(|sent| sent.spurious);
            counts.fold(0, u32::saturating_add)
        };
        let (client, server) = self.spurious;
        (
            client.saturating_add(sum(&self.client)),
            server.saturating_add(sum(&self.server)),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::{Frames, Writer, write_ack};

    const MS: i64 = 1_000_000;

    fn ack(recovery: &mut Recovery, space: Space, ns: i64, number: u64, largest: u64, delay: u64) {
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        write_ack(&mut w, largest, delay, &[(largest, largest)]).unwrap();
        let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
        recovery.packet(space, false, number, ns, &frames, true);
    }

    #[test]
    fn what_comes_after_a_close_is_new_or_sent_again() {
        let mut r = Recovery::default();
        let take = |r: &mut Recovery, number, offset, data| {
            let frame = Frame::Stream {
                id: 0,
                offset,
                fin: false,
                data,
            };
            let payload = r.packet(Space::Application, false, number, 0, &[frame], true);
            (payload.is_again(), payload.has_payload, payload.new_payload)
        };
        assert_eq!(take(&mut r, 0, 0, b"abcd"), (false, true, 4));
        assert_eq!(take(&mut r, 2, 8, b"ijkl"), (false, true, 4));
        r.end();
        // Overtaken by packet 2.
        assert_eq!(take(&mut r, 1, 4, b"efgh"), (false, true, 4));
        assert_eq!(take(&mut r, 3, 0, b"abcd"), (true, true, 0));
        assert_eq!(take(&mut r, 4, 12, b"mn"), (false, true, 2));
        r.end();
        assert_eq!(take(&mut r, 5, 12, b"mn"), (true, true, 0));
        assert_eq!(r.spurious(), (0, 0));

        let mut r = Recovery::default();
        take(&mut r, 0, 0, b"abcd");
        take(&mut r, 1, 0, b"abcd");
        let mut buf = [0; 32];
        let mut w = Writer::new(&mut buf);
        write_ack(&mut w, 1, 0, &[(1, 0)]).unwrap();
        let frames: Vec<Frame<'_>> = Frames::new(w.written()).map(Result::unwrap).collect();
        r.packet(Space::Application, true, 0, 1, &frames, true);
        assert_eq!(r.spurious(), (0, 1));
        r.end();
        assert_eq!(take(&mut r, 2, 0, b"abcd"), (true, true, 0));
        assert_eq!(r.spurious(), (0, 1), "counted once");
    }

    #[test]
    fn packets_are_remembered_until_many_more_are_on_their_way() {
        for (remembered, samples) in [(0, 256), (1000, 1000)] {
            let mut r = Recovery {
                remembered,
                ..Recovery::default()
            };
            for n in 0..1000 {
                let ns = n as i64;
                r.packet(Space::Application, true, n, ns, &[Frame::Ping], true);
            }
            for n in 0..1000 {
                ack(&mut r, Space::Application, 40 * MS, n, n, 0);
            }
            assert_eq!(r.rtt.samples, samples);
        }
        assert_eq!(remembered(1), 4096);
        assert!(remembered(8000) < 256);
    }

    #[test]
    fn delay_is_ignored_in_initial_and_capped_after_confirmation() {
        let mut r = Recovery::default();
        r.packet(Space::Initial, true, 0, 0, &[Frame::Ping], true);
        ack(&mut r, Space::Initial, 40 * MS, 0, 0, 2500);
        assert_eq!(
            r.samples,
            [Sample {
                ns: 40 * MS,
                rtt_ns: 40 * MS,
                pto_ns: 120 * MS
            }]
        );
        r.handshake_confirmed = true;
        r.packet(Space::Application, true, 0, 50 * MS, &[Frame::Ping], true);
        // The ACK states 100 ms of delay, 25 are allowed: adjusted 73 - 25 = 48.
        ack(&mut r, Space::Application, 123 * MS, 0, 0, 12_500);
        assert_eq!((r.rtt.smoothed_ns, r.rtt.variation_ns), (41 * MS, 17 * MS));
        assert_eq!(r.samples[1].pto_ns, (41 + 68 + 25) * MS);
        // An absurd delay or exponent is no reason to fail.
        r.handshake_confirmed = false;
        r.ack_delay.exponent = 1 << 40;
        r.packet(Space::Application, true, 1, 130 * MS, &[Frame::Ping], true);
        ack(&mut r, Space::Application, 170 * MS, 1, 1, (1 << 62) - 1);
        assert_eq!(r.rtt.samples, 3);
    }
}
