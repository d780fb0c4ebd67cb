//! A whole batch to the kernel, with the patience that full queues and errors of earlier datagrams need.

use std::io;
use std::ops::Range;
use std::time::Duration;

use super::Egress;
use super::next_try::NextTry;
use crate::clock::{Stamp, wall};

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
    /// became of its datagrams, in order.
    pub fn send_all(&mut self, port: usize, mut each: impl FnMut(&mut Self, Sent)) {
        let (mut from, mut tries) = (0, 0);
        while from < self.batch.len() {
            let earliest = wall();
            match self.send(port, from) {
                Ok(sent) => {
                    let numbers = from..from + sent;
                    each(self, Sent::Left { numbers, earliest });
                    from += sent;
                    tries = 0;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    each(self, Sent::NotTaken);
                    self.restart_stamps(port);
                    tries += 1;
                    match NextTry::after(&e, tries) {
                        NextTry::AtOnce => {}
                        NextTry::Later => std::thread::sleep(Duration::from_millis(1)),
                        NextTry::Never => {
                            let why = format!("the system refused to send: {e}");
                            each(self, Sent::Failed { number: from, why });
                            from += 1;
                            tries = 0;
                        }
                    }
                }
            }
        }
        self.clear();
    }
}
