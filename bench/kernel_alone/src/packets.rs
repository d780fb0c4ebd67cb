//! The two datagrams that are sent again and again.

use firstflight_wire::{
    ConnectionId, Error, InitialSecret, Keys, LongHeader, Version, build_packet, write_crypto,
};

/// Sizes of the prober's Initial and of its close.
pub const INITIAL: usize = 1252;
pub const CLOSE: usize = 1200;

/// An Initial that is answered, and one of a connection that exists already, so that it is not.
pub struct Packets {
    pub initial: [u8; INITIAL],
    pub close: [u8; CLOSE],
}

impl Packets {
    /// Seals both.
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
        // The responder's connection IDs are shorter than a client may choose them.
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
