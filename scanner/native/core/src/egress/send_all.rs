//! A whole batch to the kernel, with the patience that full queues and errors of earlier datagrams need.

use std::io;
use std::ops::Range;
use std::time::Duration;

use super::Egress;
use super::next_try::{NextTry, is_full};
use crate::clock::{Stamp, wall};

/// So many refusals of one datagram may be about earlier ones: their errors keep coming while it is offered again.
const MOST_EXPLAINED: u32 = 64;

/// What became of datagrams of a batch; numbers count from 0.
#[derive(Debug)]
pub enum Sent {
    /// They have left; `earliest`: wall clock before.
    Left {
        numbers: Range<usize>,
        earliest: Stamp,
    },
    /// The kernel took none. Its first refusal may be about an earlier datagram: the port's error queue is to be
    /// read.
    NotTaken,
    /// The system refuses this one for good; the reason.
    Failed { number: usize, why: String },
}

impl<K> Egress<K> {
    /// Hands the batch to the kernel by port number `port`, all of it, and empties it. Calls `each` with what
    /// became of its datagrams, in order; with `NotTaken` it reads errors, and calls [`Self::explain`] for each.
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

    /// An error of an earlier datagram was read: a refusal was about that one.
    pub fn explain(&mut self) {
        self.explained = true;
    }
}
