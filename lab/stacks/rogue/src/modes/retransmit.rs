//! A server that retransmits according to RFC 9002, with a probe timeout of 200 ms.

use super::shape::{AnswerShape, answer};
use crate::script::Script;
use crate::session::Session;
use firstflight_wire::{Error, write_ping};
use std::time::Duration;

/// The first probe timeout. Each further one is twice as long (RFC 9002 6.2.1).
const TIMEOUT: Duration = Duration::from_millis(200);

/// The answer; ServerHello retransmissions after one, three and seven timeouts, in small datagrams; then a PING.
pub fn retransmit(session: &Session, delay: Duration) -> Result<Script, Error> {
    let mut script = answer(session, delay, &AnswerShape::default())?;
    for (number, expiries) in [(2, 1), (3, 3), (4, 7)] {
        let again = session.initial(number, None, |w| session.server_hello(w))?;
        script = script.then(delay + TIMEOUT * expiries, again);
    }
    let ping = session.initial(5, None, write_ping)?;
    Ok(script.then(delay + TIMEOUT * 15, ping))
}
