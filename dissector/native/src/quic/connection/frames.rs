//! Applies the frames in a decrypted packet to the connection.

use firstflight_wire::tls::{HelloKind, ServerHello, read_message};
use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{CipherSuite, Frame, Reader};

use super::Connection;
use crate::quic::recovery::{AckDelay, Space};
use crate::quic::timeline::{At, ServerInitial};

/// A decrypted packet that was not seen before.
pub(super) struct NewPacket<'a> {
    pub space: Space,
    pub from_client: bool,
    pub at: At,
    pub number: u64,
    pub frames: &'a [Frame<'a>],
    /// UDP payload of the datagram with this packet.
    pub datagram_bytes: usize,
    /// Whether to detect retransmitted bytes.
    pub with_bytes: bool,
}

/// How a connection was closed.
#[derive(Clone, Debug)]
pub struct Closing {
    pub ns: i64,
    pub by_client: bool,
    /// By the application (0x1d) rather than the transport (0x1c).
    pub by_application: bool,
    pub code: u64,
    pub reason: String,
}

impl Connection {
    /// Processes a packet's frames.
    pub(super) fn frames(&mut self, packet: &NewPacket<'_>) {
        let (space, from_client, ns) = (packet.space, packet.from_client, packet.at.ns);
        let payload = self.recovery.packet(
            space,
            from_client,
            packet.number,
            ns,
            packet.frames,
            packet.with_bytes,
        );
        self.payload.add(&payload);
        match (space, from_client) {
            (Space::Initial, true) => self.client_initial(ns, packet.number, packet.frames),
            (Space::Initial, false) => self.timeline.server_initial(&ServerInitial {
                at: packet.at,
                packet_number: packet.number,
                frames: packet.frames,
                datagram_bytes: packet.datagram_bytes,
            }),
            (Space::Application, true) => {
                let ordinal = self.datagrams.client;
                self.timeline
                    .flights
                    .client_application(ordinal, packet.frames);
            }
            (Space::Handshake, true) => {}
            (_, false) => self.timeline.server_protected(space, ns, packet.frames),
        }
        for frame in packet.frames {
            match frame {
                Frame::Crypto { offset, data } if !from_client => match space {
                    Space::Initial => self.server_hello(*offset, data),
                    Space::Handshake => self.server_flight(*offset, data),
                    Space::Application => {}
                },
                Frame::HandshakeDone if !from_client => {
                    self.recovery.handshake_confirmed = true;
                }
                Frame::NewConnectionId { cid, .. } | Frame::PathNewConnectionId { cid, .. } => {
                    self.new_connection_id(from_client, *cid)
                }
                Frame::ConnectionClose { code, reason, .. } => {
                    self.close(packet, false, *code, reason)
                }
                Frame::ApplicationClose { code, reason } => self.close(packet, true, *code, reason),
                _ => {}
            }
        }
    }

    fn close(&mut self, packet: &NewPacket<'_>, by_application: bool, code: u64, reason: &[u8]) {
        self.closed = true;
        self.closing.get_or_insert_with(|| {
            Box::new(Closing {
                ns: packet.at.ns,
                by_client: packet.from_client,
                by_application,
                code,
                reason: String::from_utf8_lossy(reason).into_owned(),
            })
        });
    }

    /// Reads the suite from the ServerHello if one packet holds enough of it.
    fn server_hello(&mut self, offset: u64, data: &[u8]) {
        if self.protection.suite.is_some() || offset != 0 && !self.timeline.hello_retry {
            return;
        }
        if let Ok((_, body)) = read_message(&mut Reader::new(data))
            && let Ok(hello) = ServerHello::parse(body)
            && hello.kind == HelloKind::ServerHello
        {
            self.protection.suite = CipherSuite::from_number(hello.cipher_suite);
        }
    }

    fn server_flight(&mut self, offset: u64, data: &[u8]) {
        if self.flight.is_none() && self.is_released {
            return;
        }
        let flight = self.flight.get_or_insert_default();
        let knew = flight.fields.transport_parameters.is_some();
        flight.crypto(offset, data);
        if self.version_in_use.has_old_parameters() {
            flight.fields.transport_parameters = None;
        }
        let found = flight.fields.transport_parameters.as_deref();
        let Some(parameters) = found.filter(|_| !knew) else {
            return;
        };
        let parameters = TransportParameters::new(parameters);
        self.recovery.ack_delay = AckDelay::advertised(parameters);
        if let Ok(Some(cid)) = parameters.preferred_address_cid() {
            self.new_connection_id(false, cid);
        }
    }

    fn client_initial(&mut self, ns: i64, number: u64, frames: &[Frame<'_>]) {
        self.timeline.client_initial(ns, frames);
        for frame in frames {
            let Frame::Crypto { offset, data } = frame else {
                continue;
            };
            self.hello_reader.crypto(*offset, data, &mut self.hello);
        }
        if self.version_in_use.has_old_parameters() {
            self.hello.transport_parameters = None;
        }
        // All CRYPTO frames of the packet were read before, so the message's length is known if the packet shows it.
        for frame in frames {
            let Frame::Crypto { offset, data } = frame else {
                continue;
            };
            if let Some(second) = self
                .hello_reader
                .second_hello()
                .filter(|second| offset >= second)
                && self.timeline.hello_retry
                && self.timeline.attempt.hello.from != second
            {
                self.timeline.second_hello(ns, second);
            }
            let end = self
                .hello_reader
                .hello_end(self.timeline.attempt.hello.from);
            self.timeline
                .client_hello(ns, number, *offset, data.len(), end);
        }
    }
}

#[cfg(test)]
mod tests;
