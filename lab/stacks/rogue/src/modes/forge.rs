//! Broken packets, and packets that an attacker might have forged.

use super::shape::{AnswerShape, answer};
use crate::script::Script;
use crate::session::{FULL, Session, random};
use firstflight_wire::{
    ConnectionId, Error, InitialSecret, Keys, Version, write_connection_close, write_retry,
    write_version_negotiation,
};
use std::time::Duration;

const BEFORE_ANSWER: Duration = Duration::from_millis(1);

/// An Initial that authenticates, with a CRYPTO frame longer than the packet.
pub fn malformed_frames(session: &Session, _: Duration) -> Result<Script, Error> {
    Ok(Script::once(session.initial(0, Some(FULL), |w| {
        w.u8(0x06)?;
        w.varint(0)?;
        w.varint(4096)?;
        w.bytes(&random::<32>())
    })?))
}

/// Two datagrams with a proper Initial header and random contents.
pub fn undecryptable(session: &Session, _: Duration) -> Result<Script, Error> {
    let build = || {
        let mut datagram = session.initial(0, Some(FULL), |w| session.server_hello(w))?;
        // From byte 100 on everything is payload.
        for chunk in datagram[100..].chunks_mut(32) {
            let noise = random::<32>();
            chunk.copy_from_slice(&noise[..chunk.len()]);
        }
        Ok(datagram)
    };
    Ok(Script::once(build()?).then(Duration::ZERO, build()?))
}

/// Five forgeries, followed by the true answer in a single datagram.
pub fn forged(session: &Session, delay: Duration) -> Result<Script, Error> {
    let pause = if delay.is_zero() {
        BEFORE_ANSWER
    } else {
        delay
    };
    let truth = answer(session, Duration::ZERO, &AnswerShape::default())?;
    Ok(Script::once(damaged_tag(session)?)
        .then(Duration::ZERO, retry_with_wrong_tag(session)?)
        .then(Duration::ZERO, negotiation_with_wrong_id(session)?)
        .then(Duration::ZERO, initial_with_wrong_keys(session)?)
        .then(Duration::ZERO, close_to_another_client(session)?)
        .then_script(pause, truth))
}

/// An ACK with a damaged authentication tag.
fn damaged_tag(session: &Session) -> Result<Vec<u8>, Error> {
    let mut datagram = session.initial(0, Some(FULL), |w| session.ack(w, Duration::ZERO))?;
    if let Some(last) = datagram.last_mut() {
        *last ^= 1;
    }
    Ok(datagram)
}

/// A Retry with the integrity tag of another connection.
fn retry_with_wrong_tag(session: &Session) -> Result<Vec<u8>, Error> {
    let mut out = vec![0_u8; 256];
    let other = ConnectionId::from(random::<8>());
    let to = &session.client_cid;
    let size = write_retry(
        &mut out,
        session.version,
        &other,
        to,
        &session.server_cid,
        &random::<16>(),
        0,
    )?;
    out.truncate(size);
    Ok(out)
}

/// Version Negotiation from an attacker who knows only the client's connection ID.
fn negotiation_with_wrong_id(session: &Session) -> Result<Vec<u8>, Error> {
    let mut out = vec![0_u8; 128];
    let guess = ConnectionId::from(random::<8>());
    let size =
        write_version_negotiation(&mut out, &session.client_cid, &guess, &[Version::V2], 0x40)?;
    out.truncate(size);
    Ok(out)
}

/// ACK and ServerHello under the keys of a connection ID that the client did not choose.
fn initial_with_wrong_keys(session: &Session) -> Result<Vec<u8>, Error> {
    let guess = ConnectionId::from(random::<8>());
    let secret = InitialSecret::new(session.version, &guess).ok_or(Error::Malformed("version"))?;
    session.initial_with(
        &Keys::new(&secret.server()),
        session.client_cid,
        0,
        Some(FULL),
        |w| {
            session.ack(w, Duration::ZERO)?;
            session.server_hello(w)
        },
    )
}

/// Correct keys, but a connection ID that does not belong to the client.
fn close_to_another_client(session: &Session) -> Result<Vec<u8>, Error> {
    let stranger = ConnectionId::from(random::<8>());
    session.initial_with(&session.keys, stranger, 0, None, |w| {
        write_connection_close(w, 0, 0, b"forged")
    })
}
