//! The second connection to a target. It uses the ticket and the token from the first one, and sends the request in
//! 0-RTT packets (RFC 9001 4.6, RFC 9000 7.4.1, 8.1.3).

use std::sync::Arc;

use super::Connection;
use super::keys::EarlyKeys;
use super::parameters::Credit;
use super::space::Level;
use crate::tls::{H3, Tickets};
use firstflight_wire::Version;
use firstflight_wire::transport::TransportParameters;

/// Maximum length of a NEW_TOKEN token that is used. The token shares the first datagram with a ClientHello.
const MOST_TOKEN: usize = 512;

/// State from the first connection for the second one.
#[derive(Clone, Default)]
pub struct Memory {
    pub tickets: Arc<Tickets>,
    token: Box<[u8]>,
    /// Version of the first connection; `None` until that connection has ended.
    pub version: Option<Version>,
    /// The server chose HTTP/3, so a request may be sent before the server chooses again.
    http3: bool,
}

/// How the server treated the state from the first connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Again {
    /// A ticket was offered.
    pub ticket: bool,
    /// The server resumed the session; `None`: no ticket was offered, or the handshake is not complete.
    pub resumed: Option<bool>,
    /// The server accepted the request in 0-RTT packets. `None`: no 0-RTT packet was sent, or the handshake is not
    /// complete.
    pub early_data: Option<bool>,
    /// The first Initial had a token.
    pub token: bool,
}

impl Memory {
    /// Keeps the newest token.
    pub fn keep_token(&mut self, token: &[u8]) {
        if token.len() <= MOST_TOKEN {
            self.token = token.into();
        }
    }

    /// Returns the token. It is empty if the server sent no token.
    pub fn token(&self) -> Box<[u8]> {
        self.token.clone()
    }

    /// Returns whether 0-RTT data may be sent.
    pub fn permits_request(&self) -> bool {
        self.http3
    }
}

impl Connection {
    /// Returns the state for the next connection. Returns `None` if no state is kept or the handshake is not complete.
    pub fn memory(&mut self) -> Option<Memory> {
        self.observed.handshake?;
        let mut memory = self.memory.take()?;
        memory.version = Some(self.versions.now);
        memory.http3 = self.tls.alpn_protocol() == Some(H3);
        Some(memory)
    }

    /// Returns whether the next connection needs a ticket that may still arrive.
    pub(super) fn awaits_ticket(&self) -> bool {
        self.memory.is_some() && self.observed.tickets == 0
    }

    /// Sends the request in 0-RTT packets if the ticket permits it. The limits are the server's limits in the
    /// connection that issued the ticket.
    pub(super) fn begin_early(&mut self) {
        let remembered = self.tls.quic_transport_parameters().unwrap_or_default();
        let credit = Credit::of(TransportParameters::new(remembered));
        if let (Some(keys), Ok(credit)) = (self.tls.zero_rtt_keys(), credit) {
            self.early = Some(EarlyKeys(keys));
            self.streams.open(credit);
        }
    }

    /// Ends the 0-RTT phase after the handshake is complete. Data that the server rejected is sent again.
    pub(super) fn end_early(&mut self, credit: Credit) {
        if self.end_resumption() {
            self.streams.raise(credit);
        } else {
            self.streams.open(credit);
        }
    }

    /// Records whether the session was resumed and whether the server accepted 0-RTT data. Returns the latter.
    pub(super) fn end_resumption(&mut self) -> bool {
        self.early = None;
        if self.again.ticket {
            // In a resumed session, a server sends no certificate (RFC 8446 2.2).
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
