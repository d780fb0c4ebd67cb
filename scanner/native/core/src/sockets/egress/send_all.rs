//! Sends a whole batch to the kernel, despite full queues and errors of earlier datagrams.

use std::io;
use std::ops::Range;
use std::time::Duration;

use super::Egress;
use super::next_try::{NextTry, is_full};
use crate::clock::{Stamp, wall};

/// Most refusals of a datagram that may be about earlier datagrams. Their errors can keep arriving while the
/// datagram is offered again.
const MOST_EXPLAINED: u32 = 64;

/// The result for datagrams in a batch. Numbers count from 0.
#[derive(Debug)]
pub enum Sent {
    /// The datagrams have left; `earliest`: wall clock before sending.
    Left {
        numbers: Range<usize>,
        earliest: Stamp,
    },
    /// The kernel accepted no datagram. The first refusal may be about an earlier datagram: read the port's
    /// error queue.
    NotTaken,
    /// The system refuses this datagram for good, for the reason `why`.
    Failed { number: usize, why: String },
}

impl<K> Egress<K> {
    /// Hands the whole batch to the kernel through port number `port`, and empties it. Calls `each` with the
    /// results for its datagrams, in order. On `NotTaken`, `each` reads errors and calls [`Self::explain`]
    /// for every error.
    pub fn send_all(&mut self, port: usize, mut each: impl FnMut(&mut Self, Sent)) {
        let (mut from, mut tries, mut explained) = (0, 0, 0);
        while from < self.batch.len() {
            let earliest = wall();
            match self.send(port, from) {
                Ok(sent) => {
                    let numbers = from..from + sent;
                    each(self, Sent::Left { numbers, earliest });
                    from += sent;
                    (tries, explained) = (0, 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    self.explained = false;
                    each(self, Sent::NotTaken);
                    self.restart_stamps(port);
                    if self.explained && !is_full(&e) && explained < MOST_EXPLAINED {
                        explained += 1;
                        continue;
                    }
                    tries += 1;
                    match NextTry::after(&e, tries) {
                        NextTry::AtOnce => {}
                        NextTry::Later => std::thread::sleep(Duration::from_millis(1)),
                        NextTry::Never => {
                            let why = format!("the system refused to send: {e}");
                            each(self, Sent::Failed { number: from, why });
                            from += 1;
                            (tries, explained) = (0, 0);
                        }
                    }
                }
            }
        }
        self.clear();
    }

    /// Notes that an error of an earlier datagram was read, so that the refusal was about that datagram.
    pub fn explain(&mut self) {
        self.explained = true;
    }
}
