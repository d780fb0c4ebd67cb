//! Servers that consume a client's memory or time.

use crate::script::Script;
use crate::session::{FULL, Session};
use firstflight_wire::{Error, write_crypto};
use std::time::Duration;

/// The first bytes of a ServerHello of 64 KiB: type, length, version (RFC 8446, 4.1.3).
const HEAD: [u8; 6] = [2, 0, 0xff, 0xff, 3, 3];

/// CRYPTO bytes per datagram, number of datagrams, and the time between them.
const PIECE: usize = 1100;
const PIECES: u32 = 200;
const PAUSE: Duration = Duration::from_millis(2);

/// An ACK and the first bytes of a ServerHello of 64 KiB, then 220 kB of CRYPTO, regardless of the client.
pub fn endless_crypto(session: &Session, _: Duration) -> Result<Script, Error> {
    let mut script = Script::nothing();
    for number in 0..PIECES {
        let mut piece = [0x5a; PIECE];
        if number == 0 {
            piece[..HEAD.len()].copy_from_slice(&HEAD);
        }
        let number = u64::from(number);
        let datagram = session.initial(number, Some(FULL), |w| {
            if number == 0 {
                session.ack(w, Duration::ZERO)?;
            }
            write_crypto(w, number * PIECE as u64, &piece)
        })?;
        script = script.then(PAUSE * number as u32, datagram);
    }
    Ok(script)
}

/// An immediate ACK, then a byte of a ServerHello after every `delay`: too few to distinguish it from a
/// HelloRetryRequest.
pub fn slow_crypto(session: &Session, delay: Duration) -> Result<Script, Error> {
    let mut script = Script::once(session.initial(0, Some(FULL), |w| session.ack(w, delay))?);
    for (place, byte) in HEAD.iter().chain(&[7; 26]).enumerate() {
        let datagram = session.initial(place as u64 + 1, None, |w| {
            write_crypto(w, place as u64, &[*byte])
        })?;
        script = script.then(delay * (place as u32 + 1), datagram);
    }
    Ok(script)
}
