//! Keys of Handshake, 0-RTT and 1-RTT packets, made from a key log's secrets when a packet needs them.

use firstflight_wire::{
    CipherSuite, OneRttKeys, OpenError, Opened, Packet, PacketType, SuiteMaterial, TrafficSecret,
    Version,
};

use super::scratch::Bytes;
use crate::quic::keylog::{Keyring, Secret, Secrets};

/// A value for each side.
#[derive(Default)]
struct Both<T> {
    client: T,
    server: T,
}

impl<T> Both<T> {
    fn get(&self, from_client: bool) -> &T {
        if from_client {
            &self.client
        } else {
            &self.server
        }
    }

    fn of(&mut self, from_client: bool) -> &mut T {
        if from_client {
            &mut self.client
        } else {
            &mut self.server
        }
    }
}

/// Keys for packets other than Initials.
#[derive(Default)]
pub(super) struct Protection {
    /// Boxed: in a capture without keys, most connections have no secrets.
    secrets: Option<Box<Secrets>>,
    /// Whether the logs were searched after the ClientHello's random became known.
    asked: bool,
    /// The ServerHello's suite, or a suite that decrypted a packet.
    pub(super) suite: Option<CipherSuite>,
    /// Boxed for the same reason.
    keys: Option<Box<TrafficKeys>>,
}

/// The keys derived from the secrets, each on first use.
#[derive(Default)]
struct TrafficKeys {
    early: Option<SuiteMaterial>,
    handshake: Both<Option<SuiteMaterial>>,
    one_rtt: Both<Option<OneRttKeys>>,
}

impl Protection {
    /// Searches the logs for the connection's secrets, once.
    pub(super) fn ask(&mut self, keyring: &Keyring, random: Option<&[u8; 32]>) {
        let Some(random) = random.filter(|_| !self.asked) else {
            return;
        };
        self.asked = true;
        let found = keyring.look_up(random);
        let is_empty = found.client_early.is_none()
            && found.client_handshake.is_none()
            && found.server_handshake.is_none()
            && found.client_application.is_none()
            && found.server_application.is_none();
        self.secrets = Some(found).filter(|_| !is_empty).map(Box::new);
    }

    /// Whether the logs were searched without finding a secret of the connection.
    pub(super) fn has_nothing_to_open(&self) -> bool {
        self.asked && self.secrets.is_none()
    }

    /// Whether 1-RTT packets of both sides can be decrypted.
    pub(super) fn has_one_rtt(&self) -> bool {
        self.secrets
            .as_ref()
            .is_some_and(|s| s.client_application.is_some() && s.server_application.is_some())
    }

    /// Key updates of client and server so far.
    pub(super) fn key_updates(&self) -> (u64, u64) {
        let generation = |from_client| {
            let keys = self.keys.as_ref()?;
            keys.one_rtt.get(from_client).as_ref().map(|k| k.generation)
        };
        (
            generation(true).unwrap_or(0),
            generation(false).unwrap_or(0),
        )
    }

    /// Drops the keys, unless a key update means that the first secrets do not give them again.
    pub(super) fn release(&mut self) {
        if self.key_updates() == (0, 0) {
            self.keys = None;
        }
    }

    /// Decrypts a Handshake, 0-RTT or 1-RTT packet in place. `version` is the version in use; `largest` as for
    /// [`Keys::open`].
    pub(super) fn decrypt<'a>(
        &mut self,
        version: Version,
        from_client: bool,
        datagram: &'a mut Bytes<'_>,
        packet: &Packet,
        largest: Option<u64>,
    ) -> Result<Opened<'a>, OpenError> {
        self.make_keys(version, from_client, datagram.sealed, packet, largest)?;
        let (bytes, cache) = datagram.copy_and_keys();
        let missing = OpenError::Unauthentic;
        let keys = self.keys.as_mut().ok_or(missing)?;
        let material = match packet.kind {
            PacketType::OneRtt => {
                let keys = keys.one_rtt.of(from_client).as_mut().ok_or(missing)?;
                return keys.open(cache, bytes, packet, largest);
            }
            PacketType::Handshake => keys.handshake.get(from_client),
            _ => &keys.early,
        };
        let keys = cache.keys(material.as_ref().ok_or(missing)?);
        keys.open(bytes, packet, largest)
    }

    /// Derives the keys that `packet` needs, unless they exist.
    fn make_keys(
        &mut self,
        version: Version,
        from_client: bool,
        datagram: &[u8],
        packet: &Packet,
        largest: Option<u64>,
    ) -> Result<(), OpenError> {
        let secret = self.secret(packet.kind, from_client);
        let secret = secret.ok_or(OpenError::Unauthentic)?;
        let are_there = self.keys.as_ref().is_some_and(|keys| match packet.kind {
            PacketType::OneRtt => keys.one_rtt.get(from_client).is_some(),
            PacketType::Handshake => keys.handshake.get(from_client).is_some(),
            _ => keys.early.is_some(),
        });
        if are_there {
            return Ok(());
        }
        // The suite of the resumed session protects 0-RTT. The server may choose another suite if it does not accept
        // early data (RFC 8446 4.2.10).
        let is_early = packet.kind == PacketType::ZeroRtt;
        let suite = match self.suite.filter(|_| !is_early) {
            Some(suite) => suite,
            None => find_suite(version, secret, datagram, packet, largest)
                .ok_or(OpenError::Unauthentic)?,
        };
        let traffic = TrafficSecret::new(version, suite, secret.as_slice());
        let traffic = traffic.ok_or(OpenError::Unauthentic)?;
        if !is_early {
            self.suite = Some(suite);
        }
        let keys = self.keys.get_or_insert_default();
        match packet.kind {
            PacketType::OneRtt => *keys.one_rtt.of(from_client) = Some(OneRttKeys::new(traffic)),
            PacketType::Handshake => *keys.handshake.of(from_client) = Some(traffic.material()),
            _ => keys.early = Some(traffic.material()),
        }
        Ok(())
    }

    fn secret(&self, kind: PacketType, from_client: bool) -> Option<&Secret> {
        let secrets = self.secrets.as_ref()?;
        match (kind, from_client) {
            (PacketType::ZeroRtt, true) => secrets.client_early.as_ref(),
            (PacketType::Handshake, true) => secrets.client_handshake.as_ref(),
            (PacketType::Handshake, false) => secrets.server_handshake.as_ref(),
            (PacketType::OneRtt, true) => secrets.client_application.as_ref(),
            (PacketType::OneRtt, false) => secrets.server_application.as_ref(),
            _ => None,
        }
    }
}

/// Finds the suite that decrypts `packet` if there is no ServerHello.
fn find_suite(
    version: Version,
    secret: &Secret,
    datagram: &[u8],
    packet: &Packet,
    largest: Option<u64>,
) -> Option<CipherSuite> {
    let suites = [
        CipherSuite::Aes128GcmSha256,
        CipherSuite::Aes256GcmSha384,
        CipherSuite::ChaCha20Poly1305Sha256,
    ];
    suites.into_iter().find(|&suite| {
        TrafficSecret::new(version, suite, secret.as_slice()).is_some_and(|traffic| {
            let mut copy = datagram.to_vec();
            traffic.keys().open(&mut copy, packet, largest).is_ok()
        })
    })
}

#[cfg(test)]
mod tests;
