//! The answer to an Initial: bytes in, two datagrams out.

use firstflight_wire::tls::{number, write_server_hello};
use firstflight_wire::{
    ConnectionId, Error, InitialSecret, Keys, LongHeader, PacketType, Version, Writer,
    build_packet, parse_packet, write_ack, write_crypto,
};

/// Size of both datagrams.
pub const SIZE: usize = 1200;

/// Length of the server's connection IDs. The ID in a client's first Initial has at least 8 bytes (RFC 9000 7.2), so
/// they always differ.
const SERVER_CID: usize = 4;

/// An answer's two datagrams.
pub struct AnswerDatagrams {
    pub ack: [u8; SIZE],
    pub hello: [u8; SIZE],
}

impl AnswerDatagrams {
    /// Creates an empty answer.
    pub fn new() -> Self {
        AnswerDatagrams {
            ack: [0; SIZE],
            hello: [0; SIZE],
        }
    }

    /// Answers `datagram` if it starts with a connection's first Initial: with a padded instant ACK, then a
    /// datagram with a ServerHello and a Handshake packet with arbitrary contents. `None`: the datagram needs no answer.
    /// It is not decrypted, so that the responder does not slow the measurement down.
    pub fn write(&mut self, datagram: &[u8]) -> Option<()> {
        let packet = parse_packet(datagram, 0, SERVER_CID).ok()?;
        if packet.kind != PacketType::Initial
            || packet.version != Version::V1
            || packet.dcid.len() < 8
        {
            return None;
        }
        let keys = Keys::new(&InitialSecret::new(Version::V1, &packet.dcid)?.server());
        let scid = ConnectionId::new(&packet.dcid.as_slice()[..SERVER_CID]).ok()?;
        self.build(packet.scid, scid, &keys).ok()
    }

    fn build(&mut self, dcid: ConnectionId, scid: ConnectionId, keys: &Keys) -> Result<(), Error> {
        let initial = |packet_number| LongHeader::initial(Version::V1, dcid, scid, packet_number);
        build_packet(&mut self.ack, &initial(0), keys, Some(SIZE), |w| {
            write_ack(w, 0, 12, &[(0, 0)])
        })?;
        let mut room = [0; 128];
        let mut hello = Writer::new(&mut room);
        let share = [0x5a; 32];
        write_server_hello(
            &mut hello,
            &[0xa5; 32],
            &[],
            number::TLS_AES_128_GCM_SHA256,
            number::X25519,
            &share,
        )?;
        let used = build_packet(&mut self.hello, &initial(1), keys, None, |w| {
            write_crypto(w, 0, hello.written())
        })?;
        let handshake = LongHeader {
            kind: PacketType::Handshake,
            ..initial(0)
        };
        build_packet(
            &mut self.hello[used..],
            &handshake,
            keys,
            Some(SIZE - used),
            |w| w.u8(1),
        )
        .map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::{Frame, Frames, Packets};

    #[test]
    fn the_answer_opens_and_a_close_gets_none() {
        let (dcid, scid) = (ConnectionId::from([1; 8]), ConnectionId::from([2; 8]));
        let secret = InitialSecret::new(Version::V1, &dcid).unwrap();
        let client = Keys::new(&secret.client());
        let mut datagram = [0; 1252];
        let header = LongHeader::initial(Version::V1, dcid, scid, 0);
        build_packet(&mut datagram, &header, &client, Some(1252), |w| {
            write_crypto(w, 0, b"x")
        })
        .unwrap();
        let mut answer = AnswerDatagrams::new();
        answer.write(&datagram).unwrap();
        let server = Keys::new(&secret.server());
        let ack = parse_packet(&answer.ack, 0, 8).unwrap();
        let opened = server.open(&mut answer.ack, &ack, None).unwrap();
        assert!(
            matches!(Frames::new(opened.payload).next(), Some(Ok(Frame::Ack(ack))) if ack.contains(0))
        );
        let kinds: Vec<_> = Packets::new(&answer.hello, 8)
            .map(|p| p.unwrap().kind)
            .collect();
        assert_eq!(kinds, [PacketType::Initial, PacketType::Handshake]);
        let close = LongHeader::initial(Version::V1, ack.scid, scid, 1);
        build_packet(&mut datagram, &close, &client, Some(1200), |w| w.u8(1)).unwrap();
        assert!(answer.write(&datagram[..1200]).is_none());
    }
}
