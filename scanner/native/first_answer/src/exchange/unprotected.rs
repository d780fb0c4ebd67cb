//! Packets that need no keys: Handshake (only its type is used), Retry, Version Negotiation.

use firstflight_wire::{Packet, Version, retry_is_intact};

use super::{Exchange, Step, keys};
use firstflight_core::clock::Stamp;

impl Exchange {
    pub(super) fn handshake(&mut self, at: Stamp, packet: &Packet) -> Step {
        if self.server_cid.is_some_and(|known| known != packet.scid) {
            self.discard();
            return Step::Wait;
        }
        self.handshake_seen = true;
        if self.hello.is_some() {
            self.handshake_at.get_or_insert(at);
        } else {
            // Not counted as discarded: a server should send it, but it arrived too early to be used.
            self.undecryptable = true;
            self.note(|| "a Handshake packet before any ServerHello".to_owned());
        }
        Step::Wait
    }

    pub(super) fn retry(&mut self, at: Stamp, datagram: &[u8], packet: &Packet) -> Step {
        let token = packet.token(datagram);
        let too_late = self.retried || self.is_answered();
        if too_late || token.is_empty() || packet.scid == self.dcid {
            self.discard();
            return Step::Wait;
        }
        if !retry_is_intact(datagram, packet, &self.dcid) {
            self.cannot_decrypt(|| "a Retry with a wrong integrity tag".to_owned());
            return Step::Wait;
        }
        self.retried = true;
        self.dcid = packet.scid;
        (self.client, self.server) = keys(&self.dcid);
        self.hello_number += 1;
        let rare = self.rare();
        rare.token = token.into();
        rare.retry_at = Some(at);
        Step::SendToken
    }

    pub(super) fn version_negotiation(
        &mut self,
        at: Stamp,
        datagram: &[u8],
        packet: &Packet,
    ) -> Step {
        let Ok(versions) = packet.versions(datagram) else {
            self.discard();
            return Step::Wait;
        };
        let versions: Vec<Version> = versions.collect();
        if packet.scid != self.dcid
            || self.retried
            || self.is_answered()
            || versions.contains(&self.version)
        {
            self.discard();
            return Step::Wait;
        }
        let list: Vec<String> = versions.iter().map(Version::to_string).collect();
        let reserved = versions.iter().filter(|version| version.is_reserved());
        let reserved = u16::try_from(reserved.count()).unwrap_or(u16::MAX);
        self.rare().versions = Some((list.join(","), reserved, at));
        Step::End
    }
}
