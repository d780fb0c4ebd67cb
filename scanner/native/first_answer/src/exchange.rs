//! One connection attempt. It processes received datagrams with their stamps, and returns the caller's next step. It
//! has no socket and no clock.
//!
//! Rules: docs/definitions.md, 'A probe of the first answer'.

mod initial;
mod unprotected;

use firstflight_wire::{
    ConnectionId, CryptoStream, InitialSecret, KeyMaterial, Keys, PacketType, Version, parse_packet,
};

use crate::ecn::Marks;
use crate::evidence::{FirstAck, FirstHello, PacketNumbers};
use crate::outcome::Outcome;
use firstflight_core::clock::Stamp;

/// The version that is probed.
pub const VERSION: Version = Version::V1;

/// Bytes in a ServerHello that distinguish it from a HelloRetryRequest: header, version, random.
const HELLO_PREFIX: usize = 38;

/// Maximum number of retransmissions with recorded arrival. A server that doubles its probe timeout sends fewer in a
/// minute.
const MOST_RETRANSMISSIONS: usize = 32;

/// The next step of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for more datagrams.
    Wait,
    /// A valid Retry arrived: send the ClientHello again with [`Exchange::token`].
    SendToken,
    /// No more datagrams are expected.
    End,
}

/// State of few attempts. It is separate, so that the common case stays small.
#[derive(Debug, Default)]
pub struct Rare {
    pub token: Box<[u8]>,
    pub retry_at: Option<Stamp>,
    pub close: Option<(u64, String)>,
    /// The Version Negotiation packet: the list, the number of reserved versions in the list, and the arrival.
    pub versions: Option<(String, u16, Stamp)>,
    pub icmp: Option<(u8, u8)>,
    pub detail: Option<String>,
    /// Datagrams with a retransmission: their count, the number of the last one, and the arrival of the first ones.
    pub retransmissions: u16,
    last_retransmission: u16,
    pub retransmitted_at: Vec<Stamp>,
    /// Pieces of a ServerHello, if the first [`HELLO_PREFIX`] bytes are not in a single frame.
    pieces: Option<CryptoStream>,
}

/// One connection attempt.
pub struct Exchange {
    /// Destination connection ID of the Initials: random, or chosen by the server in a Retry.
    pub dcid: ConnectionId,
    pub client_cid: [u8; 8],
    /// Version of our Initials: [`VERSION`], or a reserved one.
    pub version: Version,
    /// Source connection ID of the server's first authenticated packet.
    pub server_cid: Option<ConnectionId>,
    /// Packet number of the Initial with the ClientHello.
    pub hello_number: u64,
    pub ack: Option<FirstAck>,
    pub hello: Option<FirstHello>,
    pub handshake_at: Option<Stamp>,
    pub bytes: u32,
    pub datagrams: u16,
    pub marks: Marks,
    pub discarded: u16,
    pub retried: bool,
    pub hello_retry: bool,
    handshake_seen: bool,
    after_retry: bool,
    refused: bool,
    malformed: bool,
    undecryptable: bool,
    /// Only retransmissions count from now on.
    listening: bool,
    numbers: PacketNumbers,
    /// End offset of the CRYPTO bytes that arrived in Initials.
    crypto_end: u64,
    /// Keys of our packets, and of the server's packets.
    client: KeyMaterial,
    server: KeyMaterial,
    pub rare: Option<Box<Rare>>,
}

impl Exchange {
    /// Creates a connection to `dcid` from `client_cid`.
    pub fn new(dcid: [u8; 8], client_cid: [u8; 8]) -> Self {
        let dcid = ConnectionId::from(dcid);
        let (client, server) = keys(&dcid);
        Exchange {
            dcid,
            client_cid,
            version: VERSION,
            server_cid: None,
            hello_number: 0,
            ack: None,
            hello: None,
            handshake_at: None,
            bytes: 0,
            datagrams: 0,
            marks: Marks::default(),
            discarded: 0,
            retried: false,
            hello_retry: false,
            handshake_seen: false,
            after_retry: false,
            refused: false,
            malformed: false,
            undecryptable: false,
            listening: false,
            numbers: PacketNumbers::default(),
            crypto_end: 0,
            client,
            server,
            rare: None,
        }
    }

    /// Creates a connection with a reserved version, so that a server answers with Version Negotiation (RFC 9000 15).
    /// The version is 0x?a?a?a?a; the other digits are from the random `dcid`. Packets are protected as in version 1.
    pub fn reserved(dcid: [u8; 8], client_cid: [u8; 8]) -> Self {
        let [a, b, c, d, ..] = dcid;
        let random = u32::from_be_bytes([a, b, c, d]);
        Exchange {
            version: Version(random & 0xf0f0_f0f0 | 0x0a0a_0a0a),
            ..Exchange::new(dcid, client_cid)
        }
    }

    /// Returns the keys of our packets.
    pub fn client_keys(&self) -> Keys {
        Keys::new(&self.client)
    }

    /// Returns the token for our Initials; empty without a Retry.
    pub fn token(&self) -> &[u8] {
        self.rare.as_ref().map_or(&[], |rare| &rare.token)
    }

    /// Returns whether a packet of the server (other than a Retry) authenticated. A close is then due.
    pub fn is_answered(&self) -> bool {
        self.server_cid.is_some()
    }

    /// Returns whether both the ACK and the ServerHello arrived.
    pub fn is_whole(&self) -> bool {
        self.hello.is_some() && self.ack.is_some()
    }

    /// Returns whether the server keeps state for this connection: it answered, and did not close.
    pub fn has_state(&self) -> bool {
        let closed = self.rare.as_ref().is_some_and(|rare| rare.close.is_some());
        self.is_answered() && !closed
    }

    /// Freezes the outcome. From now on, only retransmissions, bytes and datagrams count.
    pub fn listen(&mut self) {
        self.listening = true;
    }

    /// Processes a datagram with our connection ID that arrived from the server's address at `at`. Decrypts it in
    /// place.
    pub fn receive(&mut self, at: Stamp, datagram: &mut [u8]) -> Step {
        self.datagrams = self.datagrams.saturating_add(1);
        self.bytes = self.bytes.saturating_add(datagram.len() as u32);
        let (mut start, mut keys, mut step) = (0, None, Step::Wait);
        while start < datagram.len() {
            let packet = match parse_packet(datagram, start, self.client_cid.len()) {
                Ok(packet) => packet,
                // Some servers pad a datagram with zeros after the packets.
                Err(_) if start > 0 && datagram[start..].iter().all(|byte| *byte == 0) => break,
                Err(error) => {
                    let number = self.datagrams;
                    self.cannot_decrypt(|| format!("datagram {number}: {error}"));
                    break;
                }
            };
            start = packet.end;
            if packet.dcid.as_slice() != self.client_cid {
                // All packets in a datagram must be for the same connection (RFC 9000 12.2).
                self.discard();
                continue;
            }
            let next = match packet.kind {
                PacketType::Initial if packet.version == self.version => {
                    let keys = keys.get_or_insert_with(|| Keys::new(&self.server));
                    self.initial(at, datagram, &packet, keys)
                }
                _ if self.listening => Step::Wait,
                PacketType::Handshake if packet.version == self.version => {
                    self.handshake(at, &packet)
                }
                PacketType::Retry if packet.version == self.version => {
                    self.retry(at, datagram, &packet)
                }
                PacketType::VersionNegotiation => self.version_negotiation(at, datagram, &packet),
                // 1-RTT data immediately after the server's handshake flight (RFC 9001 5.7).
                PacketType::OneRtt if self.hello.is_some() => Step::Wait,
                kind => {
                    self.cannot_decrypt(|| {
                        format!("a {} packet where none is expected", kind.name())
                    });
                    Step::Wait
                }
            };
            if next != Step::Wait {
                step = next;
            }
        }
        if self.is_whole() && self.handshake_seen {
            Step::End
        } else {
            step
        }
    }

    /// Returns whether the attempt was finished before `at`: `settle` ns after the ServerHello, or `window` ns after
    /// sending.
    pub fn is_over(&self, at: Stamp, sent: Stamp, window: i64, settle: i64) -> bool {
        at - sent > window || self.hello.is_some_and(|hello| at - hello.at > settle)
    }

    /// Processes a datagram from the server's address to our port with another connection ID.
    pub fn receive_stray(&mut self, datagram: &[u8]) {
        match parse_packet(datagram, 0, self.client_cid.len()).map(|packet| packet.kind) {
            Ok(PacketType::VersionNegotiation) => self.discard(),
            Ok(kind) => self
                .cannot_decrypt(|| format!("a {} packet for another connection ID", kind.name())),
            Err(error) => self.cannot_decrypt(|| format!("no QUIC packet: {error}")),
        }
    }

    /// Processes an ICMP message that quotes our Initial. `unreachable`: it proves that the port is unreachable.
    pub fn icmp(&mut self, kind: u8, code: u8, unreachable: bool) -> Step {
        self.rare().icmp.get_or_insert((kind, code));
        if unreachable {
            self.rare().icmp = Some((kind, code));
            self.refused = true;
            return Step::End;
        }
        Step::Wait
    }

    /// Returns the outcome: the first row of the table of outcomes that fits.
    pub fn outcome(&self) -> Outcome {
        match (&self.ack, &self.hello) {
            (Some(ack), Some(hello)) if ack.datagram < hello.datagram => Outcome::Iack,
            (Some(ack), Some(hello)) if ack.datagram == hello.datagram => Outcome::Coalesced,
            (_, Some(_)) => Outcome::ShFirst,
            _ if self.rare.as_ref().is_some_and(|rare| rare.close.is_some()) => Outcome::Closed,
            (Some(_), None) => Outcome::AckOnly,
            _ if self.retried && !self.after_retry => Outcome::Retry,
            _ if self
                .rare
                .as_ref()
                .is_some_and(|rare| rare.versions.is_some()) =>
            {
                Outcome::VersionNegotiation
            }
            _ if self.refused => Outcome::Refused,
            _ if self.malformed || self.undecryptable || self.is_answered() => Outcome::Malformed,
            _ => Outcome::Timeout,
        }
    }

    /// Records that the datagram with the stamp `at` has a retransmission. Counts each datagram once.
    fn retransmitted(&mut self, at: Stamp) {
        let number = self.datagrams;
        let rare = self.rare();
        if rare.last_retransmission == number {
            return;
        }
        rare.last_retransmission = number;
        rare.retransmissions = rare.retransmissions.saturating_add(1);
        if rare.retransmitted_at.len() < MOST_RETRANSMISSIONS {
            rare.retransmitted_at.push(at);
        }
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    fn discard(&mut self) {
        self.discarded = self.discarded.saturating_add(1);
    }

    fn cannot_decrypt(&mut self, what: impl FnOnce() -> String) {
        self.discard();
        if !self.listening {
            self.undecryptable = true;
            self.note(what);
        }
    }

    /// Sets the remark, unless there is an earlier one.
    pub fn note(&mut self, what: impl FnOnce() -> String) {
        if self.rare.as_ref().is_none_or(|rare| rare.detail.is_none()) {
            let what = what();
            self.rare().detail = Some(what);
        }
    }
}

/// Returns the keys of the client's and the server's Initials for `dcid`.
fn keys(dcid: &ConnectionId) -> (KeyMaterial, KeyMaterial) {
    let secret = InitialSecret::new(VERSION, dcid).expect("the version is known");
    (secret.client(), secret.server())
}

#[cfg(test)]
mod tests;
