//! Writing the frames that Initial packets carry. PADDING is [`Writer::zeros`].

use crate::{Error, Writer};

/// PING.
pub fn write_ping(w: &mut Writer<'_>) -> Result<(), Error> {
    w.u8(0x01)
}

/// ACK without ECN counts. `ranges` are (largest, smallest), descending and with a gap between neighbours;
/// the first one's largest must be `largest`. `delay` as on the wire.
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

/// CONNECTION_CLOSE 0x1c; `frame_type` is the frame that caused it, 0 for none.
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
