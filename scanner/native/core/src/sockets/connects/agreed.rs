//! The options that client and server agreed on, as reported by the kernel (TCP_INFO of tcp(7)).

/// Byte offsets in `struct tcp_info` of linux/tcp.h. The kernel adds new fields only at the end.
const STATE: usize = 0;
const OPTIONS: usize = 5;
const SCALES: usize = 6;
const SND_MSS: usize = 16;
const RTT: usize = 68;
const TOTAL_RETRANS: usize = 100;
const SEGS_OUT: usize = 136;
const SEGS_IN: usize = 140;
const SND_WND: usize = 228;
/// Length of the part that is needed.
pub(super) const LENGTH: usize = 232;

/// Bits of `tcpi_options`.
const TIMESTAMPS: u8 = 1;
const SACK: u8 = 2;
const WINDOW_SCALING: u8 = 4;
const ECN: u8 = 8;
/// Bytes of the timestamps option in every segment, with its padding (RFC 7323 A).
const TIMESTAMPS_BYTES: u32 = 12;

/// The kernel may fill a window up to this size with a single segment. A segment fills at most half of a
/// larger window (TCP_MSS_DEFAULT of the kernel).
const SMALL_WINDOW: u32 = 536;

/// The agreed options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Agreed {
    pub timestamps: bool,
    pub sack: bool,
    /// Shift of the server's window; `None`: no window scaling.
    pub wscale: Option<u8>,
    pub ecn: bool,
    /// Bytes of data and options in the largest segment to the server: the smaller of its MSS option and the
    /// limit by the path MTU. `None` if the segment is as large as the server's window permits: the window
    /// may then hide a larger value.
    pub mss: Option<u32>,
    /// `None`: the kernel has no round-trip time.
    pub rtt_us: Option<u32>,
    /// Retransmitted SYNs. SYNs after the first offer no ECN (RFC 3168 6.1.1.1).
    pub syn_retransmissions: u32,
}

/// The start of `struct tcp_info`.
pub(super) struct Info(pub [u8; LENGTH]);

impl Info {
    fn number(&self, at: usize) -> u32 {
        let mut bytes = [0; 4];
        bytes.copy_from_slice(&self.0[at..at + 4]);
        u32::from_ne_bytes(bytes)
    }

    /// Returns the kernel's number for the state of the connection.
    pub fn state(&self) -> u8 {
        self.0[STATE]
    }

    /// Returns whether any segment has left.
    pub fn has_sent(&self) -> bool {
        self.number(SEGS_OUT) > 0
    }

    /// Returns how many segments arrived. Segments that a filter dropped do not count.
    pub fn received(&self) -> u32 {
        self.number(SEGS_IN)
    }

    /// Returns how much of the server's window the kernel puts into a single segment at most
    /// (tcp_bound_to_half_wnd).
    fn sent_at_once(&self) -> u32 {
        match self.number(SND_WND) {
            // The kernel ignores a closed window.
            0 => u32::MAX,
            window @ 1..=SMALL_WINDOW => window,
            window => window / 2,
        }
    }

    /// Returns the agreed options of a connection that is or was open.
    pub fn agreed(&self) -> Agreed {
        let has = |bit: u8| self.0[OPTIONS] & bit != 0;
        // Two bit fields of four bits. C compilers place the first in the low bits on little-endian machines.
        let scale = if cfg!(target_endian = "little") {
            self.0[SCALES] & 0x0f
        } else {
            self.0[SCALES] >> 4
        };
        let options = if has(TIMESTAMPS) { TIMESTAMPS_BYTES } else { 0 };
        Agreed {
            timestamps: has(TIMESTAMPS),
            sack: has(SACK),
            wscale: has(WINDOW_SCALING).then_some(scale),
            ecn: has(ECN),
            mss: Some(self.number(SND_MSS))
                .filter(|mss| *mss < self.sent_at_once())
                .map(|mss| mss + options),
            rtt_us: Some(self.number(RTT)).filter(|rtt| *rtt > 0),
            syn_retransmissions: self.number(TOTAL_RETRANS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bit_and_each_number_is_its_own() {
        let nothing = Agreed {
            timestamps: false,
            sack: false,
            wscale: None,
            ecn: false,
            mss: Some(0),
            rtt_us: None,
            syn_retransmissions: 0,
        };
        let at = |place: usize, value: u32, options: u8| {
            let mut info = Info([0; LENGTH]);
            info.0[place..place + 4].copy_from_slice(&value.to_ne_bytes());
            info.0[OPTIONS] |= options;
            info.agreed()
        };
        for (info, expected) in [
            (at(SND_MSS, 0, 0), nothing),
            (
                at(SND_MSS, 1460, 0),
                Agreed {
                    mss: Some(1460),
                    ..nothing
                },
            ),
            (
                at(SND_MSS, 1448, 1),
                Agreed {
                    mss: Some(1460),
                    timestamps: true,
                    ..nothing
                },
            ),
            (
                at(SND_MSS, 0, 2),
                Agreed {
                    sack: true,
                    ..nothing
                },
            ),
            (
                at(SND_MSS, 0, 8),
                Agreed {
                    ecn: true,
                    ..nothing
                },
            ),
            (
                at(SND_MSS, 0, 4),
                Agreed {
                    wscale: Some(0),
                    ..nothing
                },
            ),
            (
                at(RTT, 1234, 0),
                Agreed {
                    rtt_us: Some(1234),
                    ..nothing
                },
            ),
            (
                at(TOTAL_RETRANS, 3, 0),
                Agreed {
                    syn_retransmissions: 3,
                    ..nothing
                },
            ),
        ] {
            assert_eq!(info, expected);
        }
    }

    #[test]
    fn a_segment_that_the_window_bounds_says_nothing_of_the_option() {
        for (sent, options, window, mss) in [
            (1448, 1, 65_160, Some(1460)),
            (1448, 1, 2898, Some(1460)),
            (1448, 1, 2896, None),
            (1024, 0, 2048, None),
            (7300, 0, 14_600, None),
            (500, 0, 1000, None),
            (536, 0, 1074, Some(536)),
            (535, 0, 536, Some(535)),
            (536, 0, 536, None),
            (1460, 0, 0, Some(1460)),
        ] {
            let mut info = Info([0; LENGTH]);
            for (place, value) in [(SND_MSS, sent), (SND_WND, window)] {
                info.0[place..place + 4].copy_from_slice(&u32::to_ne_bytes(value));
            }
            info.0[OPTIONS] = options;
            assert_eq!(info.agreed().mss, mss, "{sent} {window}");
        }
    }

    #[test]
    fn segments_that_left_and_arrived_are_counted() {
        let mut info = Info([0; LENGTH]);
        assert!(!info.has_sent() && info.received() == 0);
        info.0[SEGS_OUT..SEGS_OUT + 4].copy_from_slice(&u32::to_ne_bytes(1));
        assert!(info.has_sent() && info.received() == 0);
        info.0[SEGS_IN..SEGS_IN + 4].copy_from_slice(&u32::to_ne_bytes(3));
        assert_eq!(info.received(), 3);
    }
}
