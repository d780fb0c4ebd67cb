//! A connection's version. The server's first flight may change it (compatible version negotiation). A Version
//! Negotiation packet leads to a second attempt with another version (incompatible version negotiation; RFC 9368).

use std::net::IpAddr;

use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{ConnectionId, Packet, PacketType, Version};
use rustls::quic;

use super::keys::{OwnSecrets, SpaceKeys, initial};
use super::observed::VersionChange;
use super::space::Level;
use super::{Connection, parameters};
use crate::outcome::Outcome;
use crate::tls::TrafficSecrets;

/// Maximum number of the server's versions that are kept.
pub const MOST_VERSIONS: usize = 64;

/// State of the version negotiation.
pub struct Versions {
    /// The version in use.
    pub now: Version,
    /// The version of the first flight. The TLS library makes keys for this version.
    pub begun: Version,
    /// The version of the first attempt, if a Version Negotiation packet ended it.
    abandoned: Option<Version>,
    /// Name and address of the server, for a second attempt. `None`: only one version is offered.
    target: Option<Box<(String, IpAddr)>>,
    /// Secrets for keys with a version that the TLS library does not use in this connection.
    secrets: Option<Box<TrafficSecrets>>,
}

impl Versions {
    /// Starts with `version`, one of the `offered` versions. The last argument is the server's name and address.
    pub fn new(version: Version, offered: &[Version], (domain, ip): (&str, IpAddr)) -> Versions {
        Versions {
            now: version,
            begun: version,
            abandoned: None,
            target: (offered.len() > 1).then(|| Box::new((domain.to_owned(), ip))),
            secrets: None,
        }
    }

    /// Returns whether the server may replace the version of the ClientHello by `version`.
    fn may_become(&self, version: Version, offered: &[Version]) -> bool {
        self.now == self.begun && version != self.now && offered.contains(&version)
    }

    /// Checks the server's version_information (RFC 9368 4, 8). Returns its Available Versions as text, or the reason
    /// why the check fails.
    pub fn check(
        &self,
        parameters: TransportParameters<'_>,
        offered: &[Version],
    ) -> Result<Option<String>, String> {
        let found = parameters
            .version_information()
            .map_err(|e| format!("transport parameters: {e}"))?;
        // If only version 1 is offered, the client sends no version_information, and there is nothing to compare.
        let asked = offered != [Version::V1];
        let Some(information) = found else {
            if asked && self.now != self.begun {
                return Err("the server changed the version without version_information".into());
            }
            // A server of version 1 without version_information counts as a server that supports only version 1.
            if self.abandoned.is_some() && self.now != Version::V1 {
                return Err("no version_information after Version Negotiation".into());
            }
            return Ok(None);
        };
        if asked && information.chosen != self.now {
            return Err(format!(
                "version_information has {} as Chosen Version, but {} is in use",
                information.chosen, self.now
            ));
        }
        if self.abandoned.is_some() {
            let available: Vec<Version> = information.available().collect();
            if choose(offered, &available) != Some(self.begun) {
                return Err(format!(
                    "version_information leads to another version than {}: the Version Negotiation was forged",
                    self.begun
                ));
            }
        }
        Ok(Some(list(information.available().take(MOST_VERSIONS))))
    }
}

/// Returns our first version that the server supports.
fn choose(offered: &[Version], theirs: &[Version]) -> Option<Version> {
    offered
        .iter()
        .copied()
        .find(|version| theirs.contains(version))
}

/// Returns versions joined by commas.
pub fn list(versions: impl Iterator<Item = Version>) -> String {
    let shown: Vec<String> = versions.map(|version| version.to_string()).collect();
    shown.join(",")
}

/// Returns the keys of the Initial space for packets to `destination` (RFC 9001 5.2, RFC 9369 3.3).
pub fn initial_keys(version: Version, destination: &ConnectionId) -> SpaceKeys {
    initial(version, destination)
        .expect("a version that is offered has a salt")
        .into()
}

/// Returns the TLS library's constant for a version.
pub fn of_tls(version: Version) -> quic::Version {
    if version == Version::V2 {
        quic::Version::V2
    } else {
        quic::Version::V1
    }
}

impl Connection {
    /// Returns the versions offered, the one of the first flight first.
    pub fn offered(&self) -> &[Version] {
        &self.context.versions
    }

    /// Returns keys for an Initial of another version than the ClientHello's, if the server may choose this version.
    pub(super) fn keys_of_change(&self, packet: &Packet) -> Option<SpaceKeys> {
        let has_keys = self.spaces[Level::Initial as usize].keys.is_some();
        let changes = packet.kind == PacketType::Initial && self.may_change_to(packet.version);
        let destination = self.retry_cid.unwrap_or(self.original);
        (changes && has_keys).then(|| initial_keys(packet.version, &destination))
    }

    /// Returns whether the server may still choose `version`. Only its first flight may change the version.
    pub(super) fn may_change_to(&self, version: Version) -> bool {
        self.level == Level::Initial && self.versions.may_become(version, self.offered())
    }

    /// Switches to the version that the server chose, after an Initial of this version authenticated with `keys`.
    pub(super) fn change_version(&mut self, version: Version, keys: SpaceKeys) {
        self.versions.now = version;
        self.observed.version_change = Some(VersionChange::Compatible);
        self.space(Level::Initial).keys = Some(keys);
    }

    /// Takes the secrets from the TLS library if packets use another version than the library's keys.
    pub(super) fn keep_secrets(&mut self) {
        let newest = self.context.tls.take_secrets();
        if let Some(newest) = newest.filter(|_| self.versions.now != self.versions.begun) {
            self.versions.secrets.get_or_insert_default().add(newest);
        }
    }

    /// Returns Handshake or 1-RTT keys for the version in use. `keys` are for the version of the ClientHello.
    pub(super) fn of_version(&self, level: Level, keys: SpaceKeys) -> SpaceKeys {
        if self.versions.now == self.versions.begun {
            return keys;
        }
        let made = || {
            let suite = self.tls.negotiated_cipher_suite()?.suite();
            let secrets = self.versions.secrets.as_deref()?;
            let pair = if level == Level::Handshake {
                &secrets.handshake
            } else {
                &secrets.data
            };
            let own = OwnSecrets::new(self.versions.now, u16::from(suite), pair)?;
            if level == Level::Handshake {
                own.keys().map(SpaceKeys::from)
            } else {
                SpaceKeys::one_rtt_of(own)
            }
        };
        made().expect(
            "the library logs the secrets of every key that it makes, for suites of TLS 1.3",
        )
    }

    /// Handles a Version Negotiation packet: tries again with a version that both sides support, or gives up.
    pub(super) fn negotiate(&mut self, versions: &[Version]) {
        self.observed.versions = Some(list(versions.iter().copied().take(MOST_VERSIONS)));
        let next = choose(self.offered(), versions).filter(|_| self.versions.abandoned.is_none());
        let Some(target) = self.versions.target.clone().filter(|_| next.is_some()) else {
            return self.end(Outcome::VersionNegotiation, None);
        };
        let version = next.unwrap_or(self.versions.begun);
        if let Err(why) = self.begin_again(version, (target.0.as_str(), target.1)) {
            self.observed.note(|| why);
            self.end(Outcome::VersionNegotiation, None);
        }
    }

    /// Starts the connection again with `version`. Makes another ClientHello and drops all state of the first attempt.
    fn begin_again(&mut self, version: Version, target: (&str, IpAddr)) -> Result<(), String> {
        let ours = parameters::ours(self.client_cid, version, self.offered());
        let tickets = self.memory.as_ref().map(|memory| memory.tickets.clone());
        let resume = tickets.map(|tickets| (tickets, false));
        let tls = self
            .context
            .tls
            .begin(of_tls(version), target, ours, resume)?;
        *self.tls = tls;
        self.versions.abandoned = Some(self.versions.begun);
        (self.versions.begun, self.versions.now) = (version, version);
        self.observed.version_change = Some(VersionChange::Incompatible);
        self.again = Default::default();
        self.token = Default::default();
        (self.early, self.early_sent) = (None, false);
        self.streams.begin_again();
        self.spaces = Default::default();
        self.level = Level::Initial;
        self.messages = Default::default();
        self.recovery = Default::default();
        self.ping = None;
        self.held.clear();
        self.space(Level::Initial).keys = Some(initial_keys(version, &self.original));
        // Times are relative to this Initial.
        self.reference = self.observed.sent.datagrams;
        self.observed.first_flight = Default::default();
        (self.replied, self.repeated) = (false, self.observed.retransmissions);
        (self.hello_sent, self.observed.hello_datagrams) = (0, 0);
        self.write_tls();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use firstflight_wire::Writer;
    use firstflight_wire::transport::write_version_information;

    const V1: Version = Version::V1;
    const V2: Version = Version::V2;

    /// Returns the error in version_information (chosen, available) of a connection that offers both versions.
    fn wrong(
        (begun, now, abandoned): (Version, Version, Option<Version>),
        information: Option<(Version, &[Version])>,
    ) -> Option<String> {
        let offered = abandoned.map_or([V1, V2], |first| [first, begun]);
        let versions = Versions {
            now,
            abandoned,
            ..Versions::new(begun, &offered, ("", IpAddr::V4(Ipv4Addr::LOCALHOST)))
        };
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        if let Some((chosen, available)) = information {
            write_version_information(&mut w, chosen, available).unwrap();
        }
        versions
            .check(TransportParameters::new(w.written()), &offered)
            .err()
    }

    #[test]
    fn versions_are_authenticated() {
        for (case, information, expected) in [
            // Nothing changed.
            ((V1, V1, None), None, None),
            ((V1, V1, None), Some((V1, &[V1][..])), None),
            ((V1, V1, None), Some((V2, &[V2, V1])), Some("is in use")),
            // Compatible.
            ((V1, V2, None), Some((V2, &[V2, V1])), None),
            ((V1, V2, None), Some((V1, &[V2, V1])), Some("is in use")),
            ((V1, V2, None), None, Some("without version_information")),
            // After Version Negotiation.
            ((V1, V1, Some(V2)), None, None),
            ((V1, V1, Some(V2)), Some((V1, &[V1])), None),
            ((V1, V1, Some(V2)), Some((V1, &[V1, V2])), Some("forged")),
            ((V1, V1, Some(V2)), Some((V1, &[])), Some("forged")),
            ((V2, V2, Some(V1)), None, Some("no version_information")),
            ((V2, V2, Some(V1)), Some((V2, &[V2])), None),
        ] {
            let found = wrong(case, information);
            match expected {
                None => assert_eq!(found, None, "{case:?}"),
                Some(text) => assert!(found.unwrap().contains(text), "{case:?}"),
            }
        }
    }
}
