//! Writes the frames that a client needs. For PADDING, see [`Writer::zeros`].

use crate::{Error, Writer};

/// PING.
pub fn write_ping(w: &mut Writer<'_>) -> Result<(), Error> {
    w.u8(0x01)
}

/// Writes an ACK without ECN counts. `ranges` are (largest, smallest) pairs in descending order, with gaps between
/// them. The first pair must start with `largest`. `delay` is the value on the wire.
pub fn write_ack(
    w: &mut Writer<'_>,
    largest: u64,
    delay: u64,
    ranges: &[(u64, u64)],
) -> Result<(), Error> {
    let bad = Error::Malformed("ACK ranges");
    let (&(first, mut smallest), rest) = ranges.split_first().ok_or(bad)?;
    if first != largest {
        return Err(bad);
    }
    w.u8(0x02)?;
    w.varint(largest)?;
    w.varint(delay)?;
    w.varint(rest.len() as u64)?;
    w.varint(largest.checked_sub(smallest).ok_or(bad)?)?;
    for &(high, low) in rest {
        w.varint(
            smallest
                .checked_sub(high)
                .and_then(|gap| gap.checked_sub(2))
                .ok_or(bad)?,
        )?;
        w.varint(high.checked_sub(low).ok_or(bad)?)?;
        smallest = low;
    }
    Ok(())
}

/// CRYPTO.
pub fn write_crypto(w: &mut Writer<'_>, offset: u64, data: &[u8]) -> Result<(), Error> {
    w.u8(0x06)?;
    w.varint(offset)?;
    w.varint_bytes(data)
}

/// Writes CONNECTION_CLOSE 0x1c. `frame_type` is the frame that caused it, or 0.
pub fn write_connection_close(
    w: &mut Writer<'_>,
    code: u64,
    frame_type: u64,
    reason: &[u8],
) -> Result<(), Error> {
    w.u8(0x1c)?;
    w.varint(code)?;
    w.varint(frame_type)?;
    w.varint_bytes(reason)
}

/// Writes CONNECTION_CLOSE 0x1d: closed by the application, with its error code.
pub fn write_application_close(w: &mut Writer<'_>, code: u64, reason: &[u8]) -> Result<(), Error> {
    w.u8(0x1d)?;
    w.varint(code)?;
    w.varint_bytes(reason)
}

/// RETIRE_CONNECTION_ID.
pub fn write_retire_connection_id(w: &mut Writer<'_>, sequence: u64) -> Result<(), Error> {
    w.u8(0x19)?;
    w.varint(sequence)
}

/// Writes PATH_RESPONSE to a challenge with `data`.
pub fn write_path_response(w: &mut Writer<'_>, data: &[u8; 8]) -> Result<(), Error> {
    w.u8(0x1b)?;
    w.bytes(data)
}

/// Writes STREAM with offset and length. `fin` marks the end of the stream.
pub fn write_stream(
    w: &mut Writer<'_>,
    id: u64,
    offset: u64,
    fin: bool,
    data: &[u8],
) -> Result<(), Error> {
    w.u8(0x0e | u8::from(fin))?;
    w.varint(id)?;
    w.varint(offset)?;
    w.varint_bytes(data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Frame, Frames};

    #[test]
    fn frames_are_read_back() {
        type Fill = fn(&mut Writer<'_>) -> Result<(), Error>;
        let cases: [(Fill, Frame<'_>); 5] = [
            (
                |w| write_retire_connection_id(w, 70),
                Frame::RetireConnectionId { sequence: 70 },
            ),
            (
                |w| write_path_response(w, b"12345678"),
                Frame::PathResponse(*b"12345678"),
            ),
            (
                |w| write_application_close(w, 0x100, b"bye"),
                Frame::ApplicationClose {
                    code: 0x100,
                    reason: b"bye",
                },
            ),
            (
                |w| write_stream(w, 4, 70, true, b"end"),
                Frame::Stream {
                    id: 4,
                    offset: 70,
                    fin: true,
                    data: b"end",
                },
            ),
            (
                |w| write_stream(w, 2, 0, false, b"\x00"),
                Frame::Stream {
                    id: 2,
                    offset: 0,
                    fin: false,
                    data: b"\x00",
                },
            ),
        ];
        for (fill, expected) in cases {
            let mut out = [0; 40];
            let mut w = Writer::new(&mut out);
            fill(&mut w).unwrap();
            let frames: Vec<_> = Frames::new(w.written()).collect();
            assert_eq!(frames, [Ok(expected)]);
        }
    }
}
