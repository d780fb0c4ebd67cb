//! Servers that refuse with a CONNECTION_CLOSE in an Initial.

use crate::script::Script;
use crate::session::{FULL, Session};
use firstflight_wire::{Error, Writer, write_connection_close};
use std::time::Duration;

/// CRYPTO_ERROR with the TLS alert handshake_failure (RFC 9001, 4.8).
const CODE: u64 = 0x100 + 40;
const REASON: &[u8] = b"no service for this name";

/// CONNECTION_REFUSED (RFC 9000, 20.1), which is not a TLS alert.
const REFUSED: u64 = 0x02;

fn write_close(w: &mut Writer<'_>) -> Result<(), Error> {
    write_connection_close(w, CODE, 0, REASON)
}

pub fn closed(session: &Session, delay: Duration) -> Result<Script, Error> {
    Ok(Script::nothing().then(delay, session.initial(0, None, write_close)?))
}

/// Sends the ACK immediately and the close later; without delay, both in the same packet.
pub fn closed_with_ack(session: &Session, delay: Duration) -> Result<Script, Error> {
    if delay.is_zero() {
        return Ok(Script::once(session.initial(0, None, |w| {
            session.ack(w, Duration::ZERO)?;
            write_close(w)
        })?));
    }
    let ack = session.initial(0, Some(FULL), |w| session.ack(w, Duration::ZERO))?;
    Ok(Script::once(ack).then(delay, session.initial(1, None, write_close)?))
}

/// A reason phrase of 900 bytes: every byte value, then sequences that a terminal would interpret (ECMA-48, UAX 9),
/// repeated to fill it.
pub fn closed_hostile(session: &Session, delay: Duration) -> Result<Script, Error> {
    let every: Vec<u8> = (0..=u8::MAX).collect();
    let text = "\u{1b}]0;title\u{7}\u{1b}[2J\r\n\u{85}\u{9b}31m\u{202e}\u{2028}\"\\</script>";
    let parts = [&every, text.as_bytes()].concat();
    let reason: Vec<u8> = parts.iter().copied().cycle().take(900).collect();
    let close = session.initial(0, None, |w| write_connection_close(w, REFUSED, 0, &reason))?;
    Ok(Script::nothing().then(delay, close))
}
