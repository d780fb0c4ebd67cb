//! The second connection to a target: what the first one leaves to it, and the request in 0-RTT packets
//! (RFC 9001 4.6, RFC 9000 7.4.1, 8.1.3).

use std::sync::Arc;

use super::Connection;
use super::keys::EarlyKeys;
use super::parameters::Credit;
use super::space::Level;
use crate::tls::{H3, Tickets};
use firstflight_wire::Version;
use firstflight_wire::transport::TransportParameters;

/// Longest token of a NEW_TOKEN frame that is used: it shares the first datagram with a ClientHello.
const MOST_TOKEN: usize = 512;

/// What a server gave for another connection.
#[derive(Clone, Default)]
pub struct Memory {
    pub tickets: Arc<Tickets>,
    token: Box<[u8]>,
    /// Of the connection; `None`: of none yet.
    pub version: Option<Version>,
    /// It chose HTTP/3, so a request may leave before it chooses again.
    http3: bool,
}

/// What became of what the first connection had left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// A ticket was offered.
    pub ticket: bool,
    /// The server resumed the session; `None`: no ticket was offered, or the handshake is not complete.
    pub resumed: Option<bool>,
    /// The server took the request in 0-RTT packets; `None`: none were sent, or the same.
    pub early_data: Option<bool>,
    /// A token was in the first Initial.
    pub token: bool,
}

impl Memory {
    /// Keeps the newest token.
    pub fn keep_token(&mut self, token: &[u8]) {
        if token.len() <= MOST_TOKEN {
            self.token = token.into();
        }
    }

    /// Returns the token, empty if there is none.
    pub fn token(&self) -> Box<[u8]> {
        self.token.clone()
    }

    /// Returns whether 0-RTT data may be sent.
    pub fn permits_request(&self) -> bool {
        self.http3
    }
}

impl Connection {
    /// Returns what it leaves to the next connection; `None`: nothing is kept, or the handshake is not complete.
    pub fn memory(&mut self) -> Option<Memory> {
        self.observed.handshake?;
        let mut memory = self.memory.take()?;
        memory.version = Some(self.versions.now);
        memory.http3 = self.tls.alpn_protocol() == Some(H3);
        Some(memory)
    }

    /// Returns whether a ticket may still come that the next connection needs.
    pub(super) fn awaits_ticket(&self) -> bool {
        self.memory.is_some() && self.observed.tickets == 0
    }

    /// Lets the request leave in 0-RTT packets, if the ticket permits it, within the limits that the server
    /// had announced when it gave the ticket.
    pub(super) fn begin_early(&mut self) {
        let remembered = self.tls.quic_transport_parameters().unwrap_or_default();
        let credit = Credit::of(TransportParameters::new(remembered));
        if let (Some(keys), Ok(credit)) = (self.tls.zero_rtt_keys(), credit) {
            self.early = Some(EarlyKeys(keys));
            self.streams.open(credit);
        }
    }

    /// The handshake is complete: notes what the server took, and lets leave again what it did not.
    pub(super) fn end_early(&mut self, credit: Credit) {
        if self.end_resumption() {
            self.streams.raise(credit);
        } else {
            self.streams.open(credit);
        }
    }

    /// Notes whether the session was resumed and its early data taken; returns the latter.
    pub(super) fn end_resumption(&mut self) -> bool {
        self.early = None;
        if self.again.ticket {
            // The server of a resumed session shows no certificate (RFC 8446 2.2).
            self.again.resumed = Some(self.messages.certificate.is_none());
        }
        if !self.early_sent {
            return false;
        }
        let accepted = self.tls.is_early_data_accepted();
        self.again.early_data = Some(accepted);
        if !accepted {
            self.space(Level::Data).sent.clear();
        }
        accepted
    }
}
