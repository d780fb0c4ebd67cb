//! A server that answers questions: its address, its rate, the sockets in use for it.

use std::net::SocketAddr;

use crate::clock::Mono;
use crate::limits::rate_limit::Pacer;

/// A server, and its rate in questions per second; `None`: no limit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Server {
    pub address: SocketAddr,
    pub rate: Option<f64>,
}

/// A server's state during a run.
pub struct ServerState {
    pub address: SocketAddr,
    /// Numbers of the sockets in use.
    pub current: Vec<u32>,
    pacer: Option<Pacer>,
}

impl ServerState {
    pub fn new(server: &Server, now: Mono) -> ServerState {
        ServerState {
            address: server.address,
            current: Vec::new(),
            pacer: server.rate.map(|rate| Pacer::new(rate, 2, now)),
        }
    }

    pub fn allow(&mut self, now: Mono) -> u64 {
        self.pacer
            .as_mut()
            .map_or(u64::MAX, |pacer| pacer.new_probes(now))
    }

    pub fn next_at(&self) -> Mono {
        self.pacer.as_ref().map_or(0, Pacer::next_new)
    }

    /// Counts sent questions.
    pub fn sent(&mut self, now: Mono, questions: u64) {
        if let Some(pacer) = self.pacer.as_mut().filter(|_| questions > 0) {
            pacer.sent_new(now, questions);
        }
    }

    pub fn highest(&self) -> Option<u64> {
        self.pacer.as_ref().map(|pacer| pacer.highest().0)
    }
}
