//! Servers that refuse with a CONNECTION_CLOSE in an Initial.

use crate::script::Script;
use crate::session::{FULL, Session};
use firstflight_wire::{Error, Writer, write_connection_close};
use std::time::Duration;

/// CRYPTO_ERROR with the TLS alert handshake_failure (RFC 9001, 4.8).
const CODE: u64 = 0x100 + 40;
const REASON: &[u8] = b"no service for this name";

fn write_close(w: &mut Writer<'_>) -> Result<(), Error> {
    write_connection_close(w, CODE, 0, REASON)
}

pub fn closed(session: &Session, delay: Duration) -> Result<Script, Error> {
    Ok(Script::nothing().then(delay, session.initial(0, None, write_close)?))
}

/// Sends the ACK at once, the close later; without delay both in one packet.
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
