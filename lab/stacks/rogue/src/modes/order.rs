//! Answers with an unusual order of packets, or with missing packets.

use super::shape::{AnswerShape, answer};
use crate::script::Script;
use crate::session::{FULL, Session};
use firstflight_wire::{Error, write_ping};
use std::time::Duration;

/// ServerHello and Handshake packet, never an ACK.
pub fn sh_first(session: &Session, _: Duration) -> Result<Script, Error> {
    let hello = session.initial(0, None, |w| session.server_hello(w))?;
    Ok(Script::once(session.fill_with_handshake(hello)?))
}

/// ServerHello and Handshake packet, and the ACK later.
pub fn sh_first_late_ack(session: &Session, delay: Duration) -> Result<Script, Error> {
    let ack = session.initial(1, Some(FULL), |w| session.ack(w, delay))?;
    Ok(sh_first(session, delay)?.then(delay, ack))
}

pub fn ack_only(session: &Session, _: Duration) -> Result<Script, Error> {
    Ok(Script::once(session.initial(0, Some(FULL), |w| {
        session.ack(w, Duration::ZERO)
    })?))
}

/// ACK and ServerHello immediately, the certificate (here: any Handshake packet) later.
pub fn sh_then_certificate(session: &Session, delay: Duration) -> Result<Script, Error> {
    let hello = session.initial(0, Some(FULL), |w| {
        session.ack(w, Duration::ZERO)?;
        session.server_hello(w)
    })?;
    Ok(Script::once(hello).then(delay, session.fill_with_handshake(Vec::new())?))
}

/// ACK and ServerHello in two packets of the same datagram.
pub fn split_packets(session: &Session, _: Duration) -> Result<Script, Error> {
    let mut datagram = session.initial(0, None, |w| session.ack(w, Duration::ZERO))?;
    datagram.extend(session.initial(1, None, |w| session.server_hello(w))?);
    Ok(Script::once(session.fill_with_handshake(datagram)?))
}

/// CRYPTO, PING and then ACK in the same packet.
pub fn reordered(session: &Session, _: Duration) -> Result<Script, Error> {
    let datagram = session.initial(0, None, |w| {
        session.server_hello(w)?;
        write_ping(w)?;
        session.ack(w, Duration::ZERO)
    })?;
    Ok(Script::once(session.fill_with_handshake(datagram)?))
}

/// An answer that looks as if an instant ACK in packet number 0 had been lost.
pub fn lost_ack(session: &Session, _: Duration) -> Result<Script, Error> {
    answer(
        session,
        Duration::ZERO,
        &AnswerShape {
            first_number: 1,
            ..AnswerShape::default()
        },
    )
}
