//! The two datagrams that every target gets.

use firstflight_wire::{
    ConnectionId, Error, InitialSecret, Keys, LongHeader, Version, build_packet, write_crypto,
};

/// Sizes of the Initial and of the close, the same as the prober's.
pub const INITIAL: usize = 1252;
pub const CLOSE: usize = 1200;

/// An Initial that the responder answers, and a close. The close is an Initial of an existing connection, so it gets no
/// answer.
pub struct Packets {
    pub initial: [u8; INITIAL],
    pub close: [u8; CLOSE],
}

impl Packets {
    /// Encrypts both.
    pub fn new() -> Result<Packets, Error> {
        let (dcid, scid) = (ConnectionId::from([7; 8]), ConnectionId::from([9; 8]));
        let secret = InitialSecret::new(Version::V1, &dcid)
            .ok_or(Error::Malformed("version without keys"))?;
        let keys = Keys::new(&secret.client());
        let mut packets = Packets {
            initial: [0; INITIAL],
            close: [0; CLOSE],
        };
        let header = LongHeader::initial(Version::V1, dcid, scid, 0);
        build_packet(&mut packets.initial, &header, &keys, Some(INITIAL), |w| {
            write_crypto(w, 0, b"x")
        })?;
        // Server connection IDs of the responder are shorter than a client's first one may be.
        let of_server = ConnectionId::new(&[7; 4])?;
        let header = LongHeader::initial(Version::V1, of_server, scid, 1);
        build_packet(&mut packets.close, &header, &keys, Some(CLOSE), |w| w.u8(1))?;
        Ok(packets)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::{PacketType, parse_packet};

    #[test]
    fn both_are_initials_that_fill_their_datagram() {
        let packets = Packets::new().unwrap();
        for (bytes, dcid) in [(&packets.initial[..], 8), (&packets.close[..], 4)] {
            let packet = parse_packet(bytes, 0, 0).unwrap();
            assert_eq!(
                (packet.kind, packet.dcid.len(), packet.end),
                (PacketType::Initial, dcid, bytes.len())
            );
        }
    }
}
