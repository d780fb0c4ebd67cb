//! Initial packets of the server: decrypts them and interprets their frames.

use firstflight_wire::tls::{HelloKind, hello_kind};
use firstflight_wire::{Ack, CryptoStream, Error, Frame, Frames, Keys, Packet};

use super::{Exchange, HELLO_PREFIX, Step};
use crate::evidence::{FirstAck, FirstHello, FrameKinds};
use firstflight_core::clock::Stamp;

/// Maximum number of bytes kept from a reason phrase.
const MOST_REASON: usize = 1000;

impl Exchange {
    pub(super) fn initial(
        &mut self,
        at: Stamp,
        datagram: &mut [u8],
        packet: &Packet,
        keys: &Keys,
    ) -> Step {
        if !packet.token.is_empty() || self.server_cid.is_some_and(|known| known != packet.scid) {
            // A server's Initial has no token, and its connection ID does not change (RFC 9000 17.2.2, 7.2).
            self.discard();
            return Step::Wait;
        }
        let size = datagram.len();
        let opened = match keys.open(datagram, packet, self.numbers.largest()) {
            Ok(opened) => opened,
            Err(error) => {
                self.cannot_decrypt(|| format!("Initial packet: {error}"));
                return Step::Wait;
            }
        };
        let number = opened.packet_number;
        let mut kinds = FrameKinds::default();
        let mut eliciting = false;
        let read = Frames::new(opened.payload).try_for_each(|frame| {
            let frame = frame?;
            kinds.push(&frame);
            eliciting |= frame.is_ack_eliciting();
            match frame {
                Frame::ApplicationClose { .. } => Ok(()),
                _ if frame.allowed_in_initial() => Ok(()),
                _ => Err(Error::Malformed("frame that no Initial may hold")),
            }
        });
        let read = if opened.payload.is_empty() {
            Err(Error::Malformed("packet without frames"))
        } else {
            read
        };
        self.server_cid = Some(packet.scid);
        if let Err(error) = read {
            self.discard();
            if !self.listening {
                self.malformed = true;
                self.after_retry = self.retried;
                self.note(|| format!("Initial packet {number}: {error}"));
            }
            return Step::Wait;
        }
        if !self.numbers.insert(number) {
            self.discard();
            return Step::Wait;
        }
        self.after_retry = self.retried;
        let mut step = Step::Wait;
        let mut again = false;
        for frame in Frames::new(opened.payload).map_while(Result::ok) {
            match frame {
                Frame::Ping => again = true,
                Frame::Crypto { offset, data } => {
                    again |= offset < self.crypto_end;
                    self.crypto_end = self.crypto_end.max(offset + data.len() as u64);
                    if !self.listening {
                        self.crypto(at, number, offset, data);
                    }
                }
                _ if self.listening => {}
                Frame::Ack(ack) => self.acknowledged(&ack, |ack| FirstAck {
                    at,
                    datagram: 0,
                    datagram_bytes: size as u16,
                    packet_number: number,
                    delay: ack.delay,
                    largest: ack.largest,
                    first_range: ack.first_range,
                    ecn: ack.ecn,
                    frames: kinds,
                    eliciting,
                }),
                Frame::ConnectionClose { code, reason, .. }
                | Frame::ApplicationClose { code, reason } => {
                    let kept = &reason[..reason.len().min(MOST_REASON)];
                    let reason = String::from_utf8_lossy(kept).into_owned();
                    self.rare().close.get_or_insert((code, reason));
                    step = Step::End;
                }
                _ => {}
            }
        }
        // A probe packet of the server repeats CRYPTO bytes, or has a PING (RFC 9002 6.2.4).
        if again
            && self
                .hello
                .is_some_and(|hello| hello.datagram < self.datagrams)
        {
            self.retransmitted(at);
        }
        step
    }

    fn acknowledged(&mut self, ack: &Ack<'_>, seen: impl FnOnce(&Ack<'_>) -> FirstAck) {
        if self.ack.is_none() && ack.contains(self.hello_number) {
            self.ack = Some(FirstAck {
                datagram: self.datagrams,
                ..seen(ack)
            });
        }
    }

    fn crypto(&mut self, at: Stamp, packet_number: u64, offset: u64, data: &[u8]) {
        let waiting = self.rare.as_ref().is_some_and(|rare| rare.pieces.is_some());
        let decided = self.hello_retry || self.hello.is_some() && !waiting;
        if decided || data.is_empty() || offset >= HELLO_PREFIX as u64 {
            return;
        }
        if offset == 0 && self.hello.is_none() {
            let gap = self.numbers.gap();
            self.hello = Some(FirstHello {
                at,
                datagram: self.datagrams,
                packet_number,
                gap,
            });
        }
        let data = &data[..data.len().min(HELLO_PREFIX - offset as usize)];
        if !waiting && offset == 0 && data.len() == HELLO_PREFIX {
            self.decide(hello_kind(data));
            return;
        }
        let pieces = self
            .rare()
            .pieces
            .get_or_insert_with(|| CryptoStream::new(2 * HELLO_PREFIX));
        // Pieces that do not fit repeat known bytes.
        let _ = pieces.insert(offset, data);
        let kind = hello_kind(pieces.contiguous());
        if pieces.contiguous().is_empty() || kind == Err(Error::Truncated) {
            return;
        }
        self.rare().pieces = None;
        self.decide(kind);
    }

    /// Decides from the first bytes of the CRYPTO stream whether it has a ServerHello.
    fn decide(&mut self, kind: Result<HelloKind, Error>) {
        match kind {
            Ok(HelloKind::ServerHello) => {}
            Ok(HelloKind::HelloRetryRequest) => {
                self.hello_retry = true;
                self.hello = None;
            }
            Err(error) => {
                self.malformed = true;
                self.hello = None;
                self.note(|| format!("CRYPTO bytes: {error}"));
            }
        }
    }
}
