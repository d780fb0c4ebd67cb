//! ACK frames with ECN counts that do not depend on the client's mark.

use super::shape::{AckShape, AnswerShape, answer};
use crate::script::Script;
use crate::session::{FULL, Session};
use firstflight_wire::Error;
use std::time::Duration;

fn counts(session: &Session, delay: Duration, counts: [u64; 3]) -> Result<Script, Error> {
    answer(
        session,
        delay,
        &AnswerShape {
            ack: AckShape::Ecn(counts),
            ..AnswerShape::default()
        },
    )
}

/// Counts one packet with ECT(0).
pub fn ack_ecn(session: &Session, delay: Duration) -> Result<Script, Error> {
    counts(session, delay, [1, 0, 0])
}

/// Counts more packets than any client has sent.
pub fn too_many(session: &Session, delay: Duration) -> Result<Script, Error> {
    counts(session, delay, [7, 0, 0])
}

/// Counts one packet with ECT(1), the other mark.
pub fn other_mark(session: &Session, delay: Duration) -> Result<Script, Error> {
    counts(session, delay, [0, 1, 0])
}

/// Counts one packet with CE.
pub fn congested(session: &Session, delay: Duration) -> Result<Script, Error> {
    counts(session, delay, [0, 0, 1])
}

/// All counts are zero.
pub fn zero(session: &Session, delay: Duration) -> Result<Script, Error> {
    counts(session, delay, [0, 0, 0])
}

/// Counts one packet with ECT(0) in the instant ACK, and no packet in the ACK that accompanies the ServerHello.
pub fn decreasing(session: &Session, delay: Duration) -> Result<Script, Error> {
    let ack = session.initial(0, Some(FULL), |w| {
        AckShape::Ecn([1, 0, 0]).write(session, w)
    })?;
    let hello = session.initial(1, None, |w| {
        AckShape::Ecn([0, 0, 0]).write(session, w)?;
        session.server_hello(w)
    })?;
    Ok(Script::once(ack).then(delay, session.fill_with_handshake(hello)?))
}
