//! What a mode has decided to send.

use std::time::Duration;

/// Datagrams with the time between the departure of those that leave at once and their own.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub steps: Vec<(Duration, Vec<u8>)>,
}

impl Script {
    pub fn nothing() -> Self {
        Self::default()
    }

    /// One datagram, at once.
    pub fn once(datagram: Vec<u8>) -> Self {
        Self::nothing().then(Duration::ZERO, datagram)
    }

    /// And another one.
    pub fn then(mut self, after: Duration, datagram: Vec<u8>) -> Self {
        self.steps.push((after, datagram));
        self
    }

    /// All of another script, later.
    pub fn then_script(mut self, after: Duration, other: Script) -> Self {
        self.steps.extend(
            other
                .steps
                .into_iter()
                .map(|(at, datagram)| (after + at, datagram)),
        );
        self
    }
}
