//! The datagrams that a mode sends.

use std::time::Duration;

/// Datagrams with their delays after the departure of those that are sent at once.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub steps: Vec<(Duration, Vec<u8>)>,
}

impl Script {
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Creates a script of one datagram, sent at once.
    pub fn once(datagram: Vec<u8>) -> Self {
        Self::nothing().then(Duration::ZERO, datagram)
    }

    /// Adds another datagram.
    pub fn then(mut self, after: Duration, datagram: Vec<u8>) -> Self {
        self.steps.push((after, datagram));
        self
    }

    /// Adds all of another script, later.
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
