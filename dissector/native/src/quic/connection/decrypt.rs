//! Decryption of a connection's packets: Initials with keys from a connection ID, others with a key log's secrets.

use firstflight_wire::{
    ConnectionId, InitialSecret, KeyMaterial, OpenError, Opened, Packet, PacketType, Version,
};

use super::Connection;
use super::duplicates::Duplicates;
use super::protection::Protection;
use super::scratch::Bytes;
use super::tls::HelloReader;
use crate::padding::Padding;
use crate::quic::keylog::Keyring;
use crate::quic::recovery::Space;

/// Keys for Initials with a version and connection ID. A side's keys are derived on first use.
pub(super) struct InitialKeys {
    secret: InitialSecret,
    client: Option<KeyMaterial>,
    server: Option<KeyMaterial>,
}

impl InitialKeys {
    /// Returns `None` for an unknown version.
    pub(super) fn new(version: Version, dcid: &ConnectionId) -> Option<Box<InitialKeys>> {
        Some(Box::new(InitialKeys {
            secret: InitialSecret::new(version, dcid)?,
            client: None,
            server: None,
        }))
    }

    fn of(&mut self, from_client: bool) -> KeyMaterial {
        let secret = &self.secret;
        if from_client {
            *self.client.get_or_insert_with(|| secret.client())
        } else {
            *self.server.get_or_insert_with(|| secret.server())
        }
    }
}

impl Connection {
    /// Decrypts an Initial, Handshake, 0-RTT or 1-RTT packet in place.
    pub(super) fn decrypt<'a>(
        &mut self,
        keyring: &Keyring,
        packet: &Packet,
        from_client: bool,
        datagram: &'a mut Bytes<'_>,
        ns: i64,
    ) -> Result<Opened<'a>, OpenError> {
        if packet.kind == PacketType::Initial {
            return self.decrypt_initial(packet, from_client, datagram, ns);
        }
        self.protection.ask(keyring, self.hello.random.as_ref());
        // A short header has no version field. The version of the last long header applies.
        let version = if packet.kind == PacketType::OneRtt {
            self.version_in_use
        } else {
            packet.version
        };
        let largest = self.numbers.largest(space(packet.kind), from_client);
        let opened = self
            .protection
            .decrypt(version, from_client, datagram, packet, largest)?;
        // 0-RTT keeps the client's first version (RFC 9369 4.1).
        if packet.kind == PacketType::Handshake {
            self.version_in_use = packet.version;
            if !from_client {
                self.server_cids.add(packet.scid);
            }
        }
        Ok(opened)
    }

    /// Decrypts an Initial. The client's first Initial after a Retry changes the keys of both sides (RFC 9001 5.2).
    fn decrypt_initial<'a>(
        &mut self,
        packet: &Packet,
        from_client: bool,
        datagram: &'a mut Bytes<'_>,
        ns: i64,
    ) -> Result<Opened<'a>, OpenError> {
        let follows_retry = from_client && self.follows_retry(packet);
        // The client continues with a version that the server offered (RFC 9000 6.2).
        let follows_offer = from_client
            && packet.version != self.version_in_use
            && self.timeline.offers(packet.version);
        let initial_dcid = if follows_retry || follows_offer {
            packet.dcid
        } else {
            self.initial_dcid
        };
        // Either side may change to a compatible version (RFC 9368 2.3). Its keys are derived from the same connection
        // ID.
        let largest = self.numbers.largest(Space::Initial, from_client);
        let is_in_use = packet.version == self.version_in_use && initial_dcid == self.initial_dcid;
        let kept = self.initial_keys.take_if(|_| is_in_use);
        let keys = kept.or_else(|| InitialKeys::new(packet.version, &initial_dcid));
        let mut keys = keys.ok_or(OpenError::Unauthentic)?;
        let (bytes, cache, paddings) = datagram.parts();
        let material = keys.of(from_client);
        let opened = cache.keys(&material.into()).open(bytes, packet, largest);
        if let (Ok(opened), Some(paddings)) = (&opened, paddings) {
            paddings.push(Padding::of(packet, opened, initial_dcid, material));
        }
        if opened.is_ok() || is_in_use {
            self.initial_keys = Some(keys);
        }
        let opened = opened?;
        self.initial_dcid = initial_dcid;
        if follows_retry {
            self.follow_retry(ns);
        }
        if follows_offer {
            // A new handshake, with a new ClientHello and new packet numbers.
            *self.numbers.of(Space::Initial, true) = Duplicates::default();
            self.hello_reader = HelloReader::default();
            self.protection = Protection::default();
            self.timeline.follow_offer();
            self.recovery.begin_again();
        }
        self.version_in_use = packet.version;
        // Useful if the capture lacks the server's direction.
        if from_client && packet.dcid != self.odcid && Some(packet.dcid) != self.retry_scid {
            self.names_itself(packet.dcid);
            self.server_cids.add(packet.dcid);
        }
        Ok(opened)
    }

    /// Sets the server's connection ID to `scid`, unless it is known already or the capture cut a datagram of the
    /// server, which may have had another.
    pub(super) fn names_itself(&mut self, scid: ConnectionId) {
        if !self.timeline.server_is_cut() {
            self.server_scid.get_or_insert(scid);
        }
    }

    /// Whether an Initial of the client is its first one after a Retry.
    fn follows_retry(&self, packet: &Packet) -> bool {
        !self.retry_followed && Some(packet.dcid) == self.retry_scid
    }

    fn follow_retry(&mut self, ns: i64) {
        self.retry_followed = true;
        self.server_scid = None;
        *self.numbers.of(Space::Initial, false) = Duplicates::default();
        self.hello_reader = HelloReader::default();
        self.timeline.follow_retry(ns);
        self.recovery.begin_again();
    }

    /// Processes an Initial of the client with only the header in the capture.
    pub(super) fn cut_initial(&mut self, packet: &Packet, ns: i64) {
        if self.follows_retry(packet) {
            self.initial_dcid = packet.dcid;
            self.initial_keys = None;
            self.follow_retry(ns);
        }
    }

    /// Whether `later`, which started with `packet`, continues this connection after a Retry that is not in the
    /// capture. It then has a token, another destination connection ID, the same client, and higher packet numbers (RFC
    /// 9000 17.2.5).
    pub(super) fn is_continued_by(&self, later: &Connection, packet: &Packet) -> bool {
        let largest = |c: &Connection| c.numbers.largest(Space::Initial, true);
        let goes_on = largest(self)
            .zip(largest(later))
            .is_some_and(|(a, b)| a < b);
        // A client chooses a new source connection ID for each connection, if it uses any. Some write a new ClientHello
        // after a Retry (aioquic).
        let is_same_client = self.client_scid == later.client_scid
            && (!self.client_scid.is_empty() || self.hello.random == later.hello.random);
        let is_unanswered = self.retry_scid.is_none() && self.server_scid.is_none();
        is_unanswered
            && !packet.token.is_empty()
            && self.version == later.version
            && goes_on
            && is_same_client
    }

    /// Records a Retry that is not in the capture. The client's next Initial shows that it arrived.
    pub(super) fn missed_retry(&mut self, scid: ConnectionId) {
        self.timeline.retry_missed = true;
        self.retry_scid = Some(scid);
        self.server_cids.add(scid);
    }
}

/// The packet number space for a packet type (RFC 9000 12.3).
pub(super) fn space(kind: PacketType) -> Space {
    match kind {
        PacketType::Initial => Space::Initial,
        PacketType::Handshake => Space::Handshake,
        _ => Space::Application,
    }
}

#[cfg(test)]
mod tests;
