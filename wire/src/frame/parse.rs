//! Reads the frames of an opened packet.

use super::{Ack, Frame};
use crate::{ConnectionId, Error, Reader};

/// Iterates over the frames in a packet's payload. Stops after the first error.
///
/// The error for an unknown frame type is [`Error::UnknownFrame`]. The length of such a frame is unknown, so
/// reading cannot continue.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: Reader<'a>,
}

impl<'a> Frames<'a> {
    /// Returns the frames of `payload`.
    pub fn new(payload: &'a [u8]) -> Self {
        Frames {
            rest: Reader::new(payload),
        }
    }

    /// Returns the unread bytes. Before a call of `next`, they start with the type of the next frame.
    pub fn rest(&self) -> &'a [u8] {
        self.rest.rest()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = Result<Frame<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let frame = parse(&mut self.rest);
        if frame.is_err() {
            self.rest = Reader::new(&[]);
        }
        Some(frame)
    }
}

fn parse<'a>(r: &mut Reader<'a>) -> Result<Frame<'a>, Error> {
    let start = r.len();
    let kind = r.varint()?;
    // RFC 9000 12.4: the types of RFC 9000 must use the shortest form. Checking all types is simpler, and no
    // implementation uses longer forms.
    if crate::buf::varint_len(kind) != Some(start - r.len()) {
        return Err(Error::Malformed("frame type encoding"));
    }
    Ok(match kind {
        0x00 => Frame::Padding {
            length: 1 + r.skip_zeros(),
        },
        0x01 => Frame::Ping,
        0x02 | 0x03 => Frame::Ack(Ack::parse(r, kind == 0x03)?),
        0x04 => Frame::ResetStream {
            id: r.varint()?,
            code: r.varint()?,
            final_size: r.varint()?,
        },
        0x05 => Frame::StopSending {
            id: r.varint()?,
            code: r.varint()?,
        },
        0x06 => {
            let (offset, data) = (r.varint()?, r.varint_bytes()?);
            check_end(offset, data, "CRYPTO offset")?;
            Frame::Crypto { offset, data }
        }
        0x07 => match r.varint_bytes()? {
            [] => return Err(Error::Malformed("empty NEW_TOKEN")),
            token => Frame::NewToken { token },
        },
        0x08..=0x0f => {
            let id = r.varint()?;
            let offset = if kind & 4 != 0 { r.varint()? } else { 0 };
            let data = if kind & 2 != 0 {
                r.varint_bytes()?
            } else {
                r.bytes(r.len())?
            };
            check_end(offset, data, "STREAM offset")?;
            Frame::Stream {
                id,
                offset,
                fin: kind & 1 != 0,
                data,
            }
        }
        0x10 => Frame::MaxData(r.varint()?),
        0x11 => Frame::MaxStreamData {
            id: r.varint()?,
            max: r.varint()?,
        },
        0x12 | 0x13 => Frame::MaxStreams {
            bidirectional: kind == 0x12,
            max: r.varint()?,
        },
        0x14 => Frame::DataBlocked(r.varint()?),
        0x15 => Frame::StreamDataBlocked {
            id: r.varint()?,
            limit: r.varint()?,
        },
        0x16 | 0x17 => Frame::StreamsBlocked {
            bidirectional: kind == 0x16,
            limit: r.varint()?,
        },
        0x18 => {
            let (sequence, retire_prior_to) = (r.varint()?, r.varint()?);
            let cid = r.vec8()?;
            if cid.is_empty() || retire_prior_to > sequence {
                return Err(Error::Malformed("NEW_CONNECTION_ID"));
            }
            Frame::NewConnectionId {
                sequence,
                retire_prior_to,
                cid: ConnectionId::new(cid)?,
                reset_token: r.array()?,
            }
        }
        0x19 => Frame::RetireConnectionId {
            sequence: r.varint()?,
        },
        0x1a => Frame::PathChallenge(r.array()?),
        0x1b => Frame::PathResponse(r.array()?),
        0x1c => Frame::ConnectionClose {
            code: r.varint()?,
            frame_type: r.varint()?,
            reason: r.varint_bytes()?,
        },
        0x1d => Frame::ApplicationClose {
            code: r.varint()?,
            reason: r.varint_bytes()?,
        },
        0x1e => Frame::HandshakeDone,
        // The code points of draft-ietf-quic-ack-frequency since its fifth version, and before that.
        0x1f | 0xac => Frame::ImmediateAck,
        0x30 => Frame::Datagram {
            data: r.bytes(r.len())?,
        },
        0x31 => Frame::Datagram {
            data: r.varint_bytes()?,
        },
        0xaf => Frame::AckFrequency {
            sequence: r.varint()?,
            ack_eliciting_threshold: r.varint()?,
            max_ack_delay_us: r.varint()?,
            reordering_threshold: r.varint()?,
        },
        _ => return super::extension::parse(kind, r),
    })
}

/// No stream may extend beyond 2^62 - 1 (RFC 9000 19.6, 19.8).
fn check_end(offset: u64, data: &[u8], what: &'static str) -> Result<(), Error> {
    if offset + data.len() as u64 > crate::buf::VARINT_MAX {
        Err(Error::Malformed(what))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;
    use crate::frame::{write_ack, write_connection_close, write_crypto, write_ping};

    fn all(payload: &[u8]) -> Result<Vec<Frame<'_>>, Error> {
        Frames::new(payload).collect()
    }

    #[test]
    fn frames_in_any_order() {
        let mut out = [0; 256];
        let mut w = Writer::new(&mut out);
        w.zeros(3).unwrap();
        write_crypto(&mut w, 0, b"hello").unwrap();
        write_ack(&mut w, 7, 25, &[(7, 5), (2, 2)]).unwrap();
        write_ping(&mut w).unwrap();
        write_connection_close(&mut w, 0x128, 6, b"no").unwrap();
        let n = w.position();
        let frames = all(&out[..n]).unwrap();
        let names: Vec<_> = frames.iter().map(Frame::name).collect();
        assert_eq!(
            names,
            ["padding", "crypto", "ack", "ping", "connection_close"]
        );
        let Frame::Ack(ack) = &frames[2] else {
            panic!("not an ACK")
        };
        assert_eq!(
            (ack.largest, ack.delay, ack.first_range, ack.range_count),
            (7, 25, 2, 1)
        );
        assert_eq!(ack.ranges().collect::<Vec<_>>(), [5..=7, 2..=2]);
        assert!(ack.contains(2) && ack.contains(6) && !ack.contains(3) && !ack.contains(8));
        assert_eq!(
            frames[4],
            Frame::ConnectionClose {
                code: 0x128,
                frame_type: 6,
                reason: b"no"
            }
        );
    }

    #[test]
    fn ack_with_ecn_counts() {
        let frames = all(&[3, 1, 0, 0, 1, 4, 5, 6, 1]).unwrap();
        let Frame::Ack(ack) = &frames[0] else {
            panic!("not an ACK")
        };
        assert_eq!((ack.ecn, ack.first_range), (Some([4, 5, 6]), 1));
        assert_eq!(frames[1], Frame::Ping);
    }

    #[test]
    fn malformed_frames() {
        for (payload, error) in [
            (
                &[2, 0, 0, 0, 1][..],
                Error::Malformed("ACK range below zero"),
            ),
            (
                &[2, 5, 0, 1, 1, 3, 0],
                Error::Malformed("ACK range below zero"),
            ),
            (&[2, 0, 0, 0xbf, 0xff, 0xff, 0xff, 0], Error::Truncated),
            (&[6, 0, 4, 1], Error::Truncated),
            (&[0x40, 0x06, 0, 0], Error::Malformed("frame type encoding")),
            (&[0x21], Error::UnknownFrame(0x21)),
            (&[7, 0], Error::Malformed("empty NEW_TOKEN")),
            (
                &[6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0],
                Error::Malformed("CRYPTO offset"),
            ),
        ] {
            assert_eq!(all(payload), Err(error), "{payload:02x?}");
        }
    }

    #[test]
    fn two_byte_types_of_extensions() {
        let payload = [
            0x40, 0xaf, 0, 2, 0x44, 0, 3, 0x1f, 0x40, 0xac, 0x31, 1, 9, 0x30, 8,
        ];
        let frames = all(&payload).unwrap();
        let names: Vec<_> = frames.iter().map(Frame::name).collect();
        assert_eq!(
            names,
            [
                "ack_frequency",
                "immediate_ack",
                "immediate_ack",
                "datagram",
                "datagram"
            ]
        );
    }
}
