//! The ordinary answer, and answers with other numbers, sizes or copies.

use crate::script::Script;
use crate::session::{FULL, Session};
use firstflight_wire::{Error, Writer, write_ack, write_ping};
use std::time::Duration;

/// An answer's variable parts.
#[derive(Clone, Copy)]
pub struct AnswerShape {
    pub first_number: u64,
    pub ack: AckShape,
    pub pad_ack: bool,
}

#[derive(Clone, Copy)]
pub enum AckShape {
    /// Acknowledges only the client's Initial.
    Plain,
    /// Frame type 0x03 with these counts of ECT(0), ECT(1) and CE.
    Ecn([u64; 3]),
    /// Acknowledges the client's Initial and the packet before it.
    TwoPackets,
}

impl Default for AnswerShape {
    fn default() -> Self {
        Self {
            first_number: 0,
            ack: AckShape::Plain,
            pad_ack: true,
        }
    }
}

impl AckShape {
    pub(super) fn write(self, session: &Session, w: &mut Writer<'_>) -> Result<(), Error> {
        let largest = session.client_number;
        match self {
            Self::Plain => session.ack(w, Duration::ZERO),
            Self::TwoPackets => {
                let smallest = largest.saturating_sub(1);
                write_ack(
                    w,
                    largest,
                    session.ack_delay(Duration::ZERO),
                    &[(largest, smallest)],
                )
            }
            Self::Ecn([ect0, ect1, ce]) => {
                w.u8(0x03)?;
                w.varint(largest)?;
                w.varint(session.ack_delay(Duration::ZERO))?;
                // No further ranges, and one packet in the first range; then the counts of ECT(0), ECT(1), CE.
                for value in [0, 0, ect0, ect1, ce] {
                    w.varint(value)?;
                }
                Ok(())
            }
        }
    }
}

/// An instant ACK and, `delay` later, ServerHello and Handshake packet; without delay, all in a single datagram.
pub fn answer(session: &Session, delay: Duration, shape: &AnswerShape) -> Result<Script, Error> {
    let number = shape.first_number;
    if delay.is_zero() {
        let datagram = session.initial(number, None, |w| {
            shape.ack.write(session, w)?;
            session.server_hello(w)
        })?;
        return Ok(Script::once(session.fill_with_handshake(datagram)?));
    }
    let pad_to = shape.pad_ack.then_some(FULL);
    let ack = session.initial(number, pad_to, |w| shape.ack.write(session, w))?;
    let hello = session.initial(number + 1, None, |w| session.server_hello(w))?;
    Ok(Script::once(ack).then(delay, session.fill_with_handshake(hello)?))
}

pub fn small_ack(session: &Session, delay: Duration) -> Result<Script, Error> {
    answer(
        session,
        delay,
        &AnswerShape {
            pad_ack: false,
            ..AnswerShape::default()
        },
    )
}

/// Packet numbers start at the largest 31-bit number, so that the second number needs 32 bits.
pub fn pn_start(session: &Session, delay: Duration) -> Result<Script, Error> {
    answer(
        session,
        delay,
        &AnswerShape {
            first_number: 0x7fff_ffff,
            ..AnswerShape::default()
        },
    )
}

/// More than three times the client's bytes before the client can have sent another datagram.
pub fn amplify(session: &Session, _: Duration) -> Result<Script, Error> {
    let mut script = Script::once(session.initial(0, Some(FULL), |w| {
        session.ack(w, Duration::ZERO)?;
        session.server_hello(w)
    })?);
    for number in 1..=4 {
        script = script.then(
            Duration::ZERO,
            session.initial(number, Some(FULL), write_ping)?,
        );
    }
    Ok(script.then(Duration::ZERO, session.fill_with_handshake(Vec::new())?))
}

/// Every datagram three times.
pub fn duplicates(session: &Session, delay: Duration) -> Result<Script, Error> {
    let mut script = Script::nothing();
    for (after, datagram) in answer(session, delay, &AnswerShape::default())?.steps {
        for _ in 0..3 {
            script = script.then(after, datagram.clone());
        }
    }
    Ok(script)
}

/// Continues to send after the client has closed.
pub fn chatty(session: &Session, delay: Duration) -> Result<Script, Error> {
    const PAUSE: Duration = Duration::from_millis(5);
    let mut script = answer(session, delay, &AnswerShape::default())?;
    for count in 1..=10 {
        let ping = session.initial(1 + u64::from(count), Some(FULL), write_ping)?;
        script = script.then(delay + count * PAUSE, ping);
    }
    Ok(script)
}
