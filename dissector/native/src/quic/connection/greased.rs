//! Packets without the fixed bit, which RFC 9287 calls the QUIC bit, and their possible receivers.

use firstflight_wire::transport::{TransportParameters, id};
use firstflight_wire::{Packet, PacketType, parse_greased_packet};

use super::Connection;

impl Connection {
    /// Parses the packet at `start`, without the fixed bit, if it is plausible: an Initial, which its keys confirm, or
    /// a packet to an endpoint that sent `grease_quic_bit`. Without keys, the server's transport parameters are
    /// unknown. Then the packet must carry a connection ID of the receiver.
    pub(super) fn greased_packet(
        &self,
        from_client: bool,
        sealed: &[u8],
        start: usize,
        cid_length: usize,
    ) -> Option<Packet> {
        let packet = parse_greased_packet(sealed, start, cid_length).ok()?;
        let is_taken = packet.kind == PacketType::Initial
            || self.takes_greased(from_client).unwrap_or_else(|| {
                !packet.dcid.is_empty() && self.owns(from_client, packet.dcid.as_slice())
            });
        is_taken.then_some(packet)
    }

    /// Whether the receiver of this side's packets sent `grease_quic_bit`; `None` if its transport parameters are
    /// unknown.
    fn takes_greased(&self, from_client: bool) -> Option<bool> {
        let parameters = if from_client {
            self.server_fields().transport_parameters.as_deref()
        } else {
            self.hello.transport_parameters.as_deref()
        };
        let found = TransportParameters::new(parameters?).find(id::GREASE_QUIC_BIT);
        Some(matches!(found, Ok(Some(_))))
    }
}

#[cfg(test)]
mod tests;
