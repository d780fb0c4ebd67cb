//! The datagrams that a mode sends.

use std::time::Duration;

/// Datagrams with their delays after the departure of the immediate ones.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Script {
    pub steps: Vec<(Duration, Vec<u8>)>,
}

impl Script {
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Creates a script with a single immediate datagram.
    pub fn once(datagram: Vec<u8>) -> Self {
        Self::nothing().then(Duration::ZERO, datagram)
    }

    /// Adds another datagram.
    pub fn then(mut self, after: Duration, datagram: Vec<u8>) -> Self {
        self.steps.push((after, datagram));
        self
    }

    /// Adds all datagrams of another script, with a further delay.
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
