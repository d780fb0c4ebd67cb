//! Whether a client's ClientHello is complete, from its datagrams or from CRYPTO stream bytes.

use firstflight_wire::{CryptoStream, Frame, Frames, InitialSecret, Keys, PacketType, Packets};

/// Larger than any ClientHello.
const MOST_BYTES: usize = 64 << 10;
const HEADER: usize = 4;
/// Only long headers are read; they contain the lengths of their connection IDs.
const SHORT_DCID: usize = 0;

/// Returns whether `stream`, the start of a CRYPTO stream, contains one whole handshake message.
pub fn is_whole(stream: &[u8]) -> bool {
    let Some([_, a, b, c]) = stream.first_chunk::<HEADER>() else {
        return false;
    };
    stream.len() >= HEADER + u32::from_be_bytes([0, *a, *b, *c]) as usize
}

/// A client's Initials, read in addition to the stack.
pub struct Hello {
    keys: Option<Keys>,
    largest: Option<u64>,
    stream: CryptoStream,
}

impl Default for Hello {
    fn default() -> Self {
        Self {
            keys: None,
            largest: None,
            stream: CryptoStream::new(MOST_BYTES),
        }
    }
}

impl Hello {
    /// Reads a datagram of the client; returns whether its ClientHello is complete. Ignores packets that it cannot
    /// decrypt.
    pub fn read(&mut self, datagram: &[u8]) -> bool {
        for packet in Packets::new(datagram, SHORT_DCID).map_while(Result::ok) {
            if packet.kind != PacketType::Initial {
                continue;
            }
            if self.keys.is_none() {
                self.keys = InitialSecret::new(packet.version, &packet.dcid)
                    .map(|secret| Keys::new(&secret.client()));
            }
            let Some(keys) = &self.keys else { continue };
            let mut copy = datagram.to_vec();
            let Ok(opened) = keys.open(&mut copy, &packet, self.largest) else {
                continue;
            };
            self.largest = self.largest.max(Some(opened.packet_number));
            for frame in Frames::new(opened.payload).map_while(Result::ok) {
                if let Frame::Crypto { offset, data } = frame {
                    let _ = self.stream.insert(offset, data);
                }
            }
        }
        is_whole(self.stream.contiguous())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_wire::{ConnectionId, LongHeader, Version, build_packet, write_crypto};

    #[test]
    fn two_datagrams_in_either_order_make_a_hello() {
        let mut message = vec![1, 0, 2, 0];
        message.resize(HEADER + 512, 7);
        let dcid = ConnectionId::from([1; 8]);
        let secret = InitialSecret::new(Version::V1, &dcid).expect("version 1");
        let keys = Keys::new(&secret.client());
        let datagram = |number: u64, from: usize, to: usize| {
            let header = LongHeader::initial(Version::V1, dcid, ConnectionId::from([2; 8]), number);
            let mut out = [0; 1500];
            let size = build_packet(&mut out, &header, &keys, Some(1200), |writer| {
                write_crypto(writer, from as u64, &message[from..to])
            });
            out[..size.expect("room")].to_vec()
        };
        let (first, second) = (datagram(0, 0, 300), datagram(1, 300, message.len()));
        for order in [[&first, &second], [&second, &first]] {
            let mut hello = Hello::default();
            assert!(!hello.read(order[0]));
            assert!(!hello.read(order[0]), "the same again brings nothing");
            assert!(hello.read(order[1]));
        }
        assert!(!Hello::default().read(&first[..600]), "a part of a packet");
    }

    #[test]
    fn a_message_is_as_long_as_its_header_says() {
        assert!(!is_whole(&[]));
        assert!(!is_whole(&[1, 0, 0]));
        assert!(!is_whole(&[1, 0, 0, 2, 0]));
        assert!(is_whole(&[1, 0, 0, 2, 0, 0]));
    }
}
