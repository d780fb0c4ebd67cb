//! Servers that validate the client's address with a Retry, and then misbehave.

use super::shape::{AckShape, AnswerShape, answer};
use crate::script::Script;
use crate::session::{Session, random};
use firstflight_wire::{Error, write_retry};
use std::time::Duration;

/// A token's length. The first byte is the Retry's number; the rest is random.
const TOKEN_BYTES: usize = 16;

/// Length of a token that leaves almost no room for a ClientHello in a datagram.
const LONG_TOKEN_BYTES: usize = 1120;

fn followed(session: &Session) -> u8 {
    match session.token[..] {
        [number, ..] if session.token.len() == TOKEN_BYTES => number,
        _ => 0,
    }
}

/// Returns the valid Retry `number` of a connection.
fn retry(session: &Session, number: u8) -> Result<Script, Error> {
    let mut token = random::<TOKEN_BYTES>();
    token[0] = number;
    retry_with(session, &token)
}

fn retry_with(session: &Session, token: &[u8]) -> Result<Script, Error> {
    let mut out = vec![0_u8; 1500];
    let size = write_retry(
        &mut out,
        session.version,
        &session.odcid,
        &session.client_cid,
        &session.server_cid,
        token,
        0,
    )?;
    out.truncate(size);
    Ok(Script::once(out))
}

pub fn silent(session: &Session, _: Duration) -> Result<Script, Error> {
    match followed(session) {
        0 => retry(session, 1),
        _ => Ok(Script::nothing()),
    }
}

/// A token that does not fit into a client's Initial together with a ClientHello.
pub fn long_token(session: &Session, _: Duration) -> Result<Script, Error> {
    match session.token.len() {
        0 => retry_with(session, &random::<LONG_TOKEN_BYTES>()),
        _ => Ok(Script::nothing()),
    }
}

/// A client must discard the second Retry (RFC 9000, 17.2.5.2). A client that follows it gets an answer.
pub fn twice(session: &Session, delay: Duration) -> Result<Script, Error> {
    match followed(session) {
        0 => retry(session, 1),
        1 => retry(session, 2),
        _ => answer(session, delay, &AnswerShape::default()),
    }
}

/// The ACK also covers the Initial before the Retry, because packet numbers continue (RFC 9000, 17.2.5.3).
pub fn ack_range(session: &Session, delay: Duration) -> Result<Script, Error> {
    match followed(session) {
        0 => retry(session, 1),
        _ => answer(
            session,
            delay,
            &AnswerShape {
                ack: AckShape::TwoPackets,
                ..AnswerShape::default()
            },
        ),
    }
}
