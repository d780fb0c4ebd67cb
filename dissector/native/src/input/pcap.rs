//! Parses frames of pcap files, many at a time.

use pcap_parser::{
    LegacyPcapBlock, PcapError, PcapHeader, nom::IResult, parse_pcap_frame, parse_pcap_frame_be,
    parse_pcap_frame_modified,
};
use smallvec::SmallVec;

use super::Frame;
use crate::padding::MARK;

/// Frames passed on together. A visitor can look ahead within them.
const AT_ONCE: usize = 16;

/// Frames that are passed on together.
pub(super) type Batch<'a> = SmallVec<[Frame<'a>; AT_ONCE]>;

type Parse = fn(&[u8]) -> IResult<&[u8], LegacyPcapBlock<'_>, PcapError<&[u8]>>;

/// The properties of a file's frames, from the header.
pub(super) struct Pcap {
    pub(super) link: i32,
    /// Nanoseconds per unit of the fractional timestamp.
    unit_ns: i64,
    /// Some records lack padding.
    pub(super) is_unpadded: bool,
    parse: Parse,
}

impl Pcap {
    pub(super) fn new(header: &PcapHeader) -> Pcap {
        let parse = match (header.is_modified_format(), header.is_bigendian()) {
            (true, _) => parse_pcap_frame_modified,
            (false, true) => parse_pcap_frame_be,
            (false, false) => parse_pcap_frame,
        };
        Pcap {
            // The upper six bits describe a frame check sequence.
            link: header.network.0 & 0x03ff_ffff,
            unit_ns: if header.is_nanosecond_precision() {
                1
            } else {
                1000
            },
            is_unpadded: header.sigfigs == MARK,
            parse,
        }
    }

    /// A frame's time in nanoseconds since 1970.
    pub(super) fn time_ns(&self, frame: &LegacyPcapBlock<'_>) -> i64 {
        i64::from(frame.ts_sec) * 1_000_000_000 + i64::from(frame.ts_usec) * self.unit_ns
    }

    /// Parses the complete frames at the start of `data`, numbered after `number`. Returns them and their size in bytes.
    pub(super) fn frames<'a>(&self, data: &'a [u8], number: u64) -> (Batch<'a>, usize) {
        let mut batch = Batch::new();
        let mut rest = data;
        while batch.len() < AT_ONCE
            && let Ok((behind, frame)) = (self.parse)(rest)
        {
            rest = behind;
            batch.push(Frame {
                time_ns: self.time_ns(&frame),
                number: number + 1 + batch.len() as u64,
                link: self.link,
                data: frame.data,
                cut: (frame.origlen as usize).saturating_sub(frame.data.len()),
            });
        }
        (batch, data.len() - rest.len())
    }
}
