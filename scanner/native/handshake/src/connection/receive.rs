//! What came from the server: packets, frames, TLS messages.

use firstflight_core::clock::{Mono, Stamp};
use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{
    Ack, Frame, Frames, Packet, PacketType, Version, parse_packet, retry_is_intact,
};

use super::observed::{By, Close};
use super::parameters::{self, Credit, Ids};
use super::space::{Level, Sent};
use super::timers::SETTLE;
use super::{CRYPTO_ERROR, Connection, Held, VERSION_NEGOTIATION_ERROR, initial_keys, transport};
use crate::outcome::Outcome;
use crate::tls::{EchOffer, H3};

/// Packets kept until there are keys for them, and bytes of each: no path carries larger ones.
const MOST_HELD: usize = 8;
const MOST_HELD_BYTES: usize = 2048;

/// Bytes of a reason phrase that are kept.
const MOST_REASON: usize = 1000;

/// Longest token of a Retry that is followed: a longer one leaves so little room beside it that the ClientHello
/// takes many datagrams of full size.
const MOST_TOKEN: usize = 512;

/// After so many datagrams of ours nothing is acknowledged any more: each ACK in an Initial is a datagram of
/// full size, for a PING of 40 bytes. More than the largest chain and response need.
const MOST_ACKNOWLEDGED: u16 = 200;

/// PATH_CHALLENGE frames that are answered, each by a datagram of 1200 bytes at most: more than one server needs.
const MOST_CHALLENGES: u8 = 8;

/// Codes of CONNECTION_CLOSE that are TLS alerts (RFC 9001 4.8).
const ALERTS: std::ops::RangeInclusive<u64> = CRYPTO_ERROR..=CRYPTO_ERROR + 0xff;

/// When something came: kernel's stamp, number of the datagram (from 1), the same on our own clock, and when it
/// was read. Of a packet that waited for its keys, `at` and `datagram` are of what brought these, by which it counts;
/// `own` is its own stamp, and so is `came`.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Stamp,
    pub(super) datagram: u16,
    pub(super) own: Stamp,
    pub(super) came: Mono,
    pub(super) now: Mono,
}

impl Connection {
    /// Takes a datagram that came to our connection ID from the server's address at `at`, on our own clock
    /// `came`, and is read `now`; opens it in place.
    pub fn receive(&mut self, at: Stamp, (came, now): (Mono, Mono), datagram: &mut [u8]) {
        if self.is_over() {
            return;
        }
        let observed = &mut self.observed;
        observed.received.add(datagram.len());
        if !self.replied {
            observed.first_flight.add(datagram.len());
        }
        if self.spaces[Level::Handshake as usize].next == 0 {
            observed.received_unvalidated.add(datagram.len());
        }
        let arrival = Arrival {
            at,
            datagram: observed.received.datagrams,
            own: at,
            came,
            now,
        };
        let mut start = 0;
        while start < datagram.len() && !self.is_over() {
            let packet = match parse_packet(datagram, start, self.client_cid.len()) {
                Ok(packet) => packet,
                // Some servers fill a datagram with zeros behind its packets.
                Err(_) if start > 0 && datagram[start..].iter().all(|byte| *byte == 0) => break,
                Err(error) => {
                    self.observed.discard();
                    self.observed
                        .note(|| format!("datagram {}: {error}", arrival.datagram));
                    break;
                }
            };
            start = packet.end;
            if packet.dcid.as_slice() != self.client_cid {
                self.observed.discard();
                continue;
            }
            self.take_packet(arrival, datagram, &packet);
        }
    }

    fn take_packet(&mut self, arrival: Arrival, datagram: &mut [u8], packet: &Packet) {
        let in_use = packet.version == self.versions.now;
        let mut changed = self.keys_of_change(packet);
        let level = match packet.kind {
            PacketType::Initial if in_use || changed.is_some() => Level::Initial,
            // Of a version that the server may choose it waits for its keys, as any other.
            PacketType::Handshake if in_use || self.may_change_to(packet.version) => {
                Level::Handshake
            }
            PacketType::OneRtt => Level::Data,
            PacketType::Retry if in_use => return self.retry(datagram, packet),
            PacketType::VersionNegotiation => return self.version_negotiation(datagram, packet),
            _ => return self.observed.discard(),
        };
        let space = &mut self.spaces[level as usize];
        let Some(keys) = changed.as_mut().or(space.keys.as_mut()) else {
            // Either it came before its keys, or they are discarded and it is of no more use.
            let fits = packet.size() <= MOST_HELD_BYTES && self.held.len() < MOST_HELD;
            if level > self.level && fits {
                self.held.push(Held {
                    at: arrival.own,
                    came: arrival.came,
                    bytes: datagram[packet.start..packet.end].to_vec(),
                });
            }
            return;
        };
        let Some(opened) = keys.open(datagram, packet, space.received.largest()) else {
            self.observed.discard();
            return self.observed.note(|| {
                let kind = packet.kind.name();
                format!(
                    "datagram {}: {kind} packet does not authenticate",
                    arrival.datagram
                )
            });
        };
        if level != Level::Data && *self.server_cid.get_or_insert(packet.scid) != packet.scid {
            return self.observed.discard();
        }
        self.heard = self.heard.max(arrival.came);
        if let (None, Some(cid)) = (self.peer_ids.current(), self.server_cid) {
            self.peer_ids.begin(0, cid);
        }
        if let Some(keys) = changed {
            self.change_version(packet.version, keys);
        }
        if !self.space(level).received.insert(opened.number) {
            return;
        }
        let which = (packet.kind.name(), opened.number);
        if !opened.reserved_bits_clear {
            return self.end_malformed(|| format!("{} packet {}: reserved bits", which.0, which.1));
        }
        if opened.updated_too_soon {
            return self.end_malformed(|| {
                format!("{} packet {}: key update behind another", which.0, which.1)
            });
        }
        self.frames(arrival, level, which, &datagram[opened.frames]);
        self.open_held(arrival);
    }

    /// Takes the payload of a packet that authenticated; `which`: its kind and number.
    pub(super) fn frames(
        &mut self,
        arrival: Arrival,
        level: Level,
        which: (&str, u64),
        payload: &[u8],
    ) {
        let (mut eliciting, mut crypto) = (false, false);
        for frame in Frames::new(payload) {
            let checked = frame.map_err(|error| error.to_string()).and_then(|frame| {
                eliciting |= frame.is_ack_eliciting();
                if level != Level::Data && !frame.allowed_in_initial() {
                    return Err(format!("no {} may hold {}", which.0, frame.name()));
                }
                crypto |= matches!(frame, Frame::Crypto { .. });
                self.frame(arrival, level, &frame)
            });
            if let Err(why) = checked {
                return self.end_malformed(|| format!("{} packet {}: {why}", which.0, which.1));
            }
        }
        if eliciting && self.observed.sent.datagrams < MOST_ACKNOWLEDGED {
            self.space(level).ack_wanted.get_or_insert(arrival.now);
        }
        if crypto && !self.is_over() {
            self.read_tls(arrival, level);
        }
        self.look_at_streams(arrival);
    }

    /// Takes one frame; says what is wrong with it.
    fn frame(&mut self, arrival: Arrival, level: Level, frame: &Frame<'_>) -> Result<(), String> {
        match *frame {
            Frame::Ack(ref ack) => self.acknowledge(arrival, level, ack)?,
            Frame::Crypto { offset, data } => {
                let incoming = &mut self.space(level).incoming;
                if incoming.insert(offset, data).is_err() {
                    return Err("more CRYPTO data than a handshake needs".into());
                }
            }
            Frame::ConnectionClose { code, reason, .. } => self.closed(code, false, reason),
            Frame::ApplicationClose { code, reason } => self.closed(code, true, reason),
            Frame::HandshakeDone => {
                self.observed
                    .confirmed
                    .get_or_insert((arrival.at, arrival.datagram));
                // RFC 9001 4.9.2.
                self.space(Level::Handshake).discard();
            }
            Frame::NewToken { token } => {
                self.observed.tokens = self.observed.tokens.saturating_add(1);
                if let Some(memory) = &mut self.memory {
                    memory.keep_token(token);
                }
            }
            Frame::Stream {
                id,
                offset,
                fin,
                data,
            } => self.streams.receive(id, offset, fin, data)?,
            Frame::NewConnectionId {
                sequence,
                retire_prior_to,
                cid,
                ..
            } => self.peer_ids.add(sequence, retire_prior_to, cid)?,
            // Ours is the only one, of number 0, and stays in use (RFC 9000 19.16).
            Frame::RetireConnectionId { sequence } if sequence > 0 => {
                return Err("RETIRE_CONNECTION_ID of an ID that was never given".into());
            }
            Frame::PathChallenge(data) if self.challenged < MOST_CHALLENGES => {
                self.challenged += 1;
                self.challenges.push(data);
            }
            Frame::ResetStream { id, .. } => self.streams.reset(id),
            Frame::MaxData(most) => raise(&mut self.streams.credit.data, most),
            Frame::MaxStreamData { id, max } => {
                let credit = &mut self.streams.credit;
                let of_request = id & 2 == 0;
                let place = if of_request {
                    &mut credit.request
                } else {
                    &mut credit.control
                };
                raise(place, max);
            }
            Frame::MaxStreams { bidirectional, max } => {
                let credit = &mut self.streams.credit;
                let place = if bidirectional {
                    &mut credit.streams
                } else {
                    &mut credit.control_streams
                };
                raise(place, max);
            }
            _ => {}
        }
        Ok(())
    }

    fn acknowledge(&mut self, arrival: Arrival, level: Level, ack: &Ack<'_>) -> Result<(), String> {
        let fresh = self.space(level).acknowledge(ack);
        let fresh = fresh.ok_or("an ACK of a packet that was never sent")?;
        for sent in &fresh {
            self.streams.acknowledge(sent.content.streams);
            self.peer_ids.acknowledge(sent.content.retired);
        }
        if level == Level::Initial && !fresh.is_empty() {
            self.hello_acknowledged(arrival, &fresh);
        }
        let Some(newest) = fresh.last() else {
            return Ok(());
        };
        self.recovery.acknowledged();
        self.touched = arrival.now;
        if newest.number == ack.largest {
            let stamp = self.stamp_of(newest.datagram);
            if let Some(rtt) = stamp
                .map(|stamp| arrival.own - stamp)
                .filter(|rtt| *rtt >= 0)
            {
                self.observed.round_trip(rtt);
                self.recovery.sample(rtt as Mono);
            }
        }
        Ok(())
    }

    /// The packets `fresh` of the ClientHello are acknowledged: all of it, or a part.
    fn hello_acknowledged(&mut self, arrival: Arrival, fresh: &[Sent]) {
        let here = (arrival.at, arrival.datagram);
        let whole = self.spaces[0].out.is_acknowledged();
        let observed = &mut self.observed;
        if observed.first_ack.is_none() {
            observed.first_ack = Some(here);
            observed.ack_covers_hello = Some(whole);
            let number = |sent: &Sent| sent.datagram.saturating_sub(self.reference) + 1;
            observed.first_acked = fresh.iter().map(number).collect();
        }
        if whole {
            observed.ack.get_or_insert(here);
        }
    }

    fn closed(&mut self, code: u64, by_application: bool, reason: &[u8]) {
        let kept = &reason[..reason.len().min(MOST_REASON)];
        let reason = String::from_utf8_lossy(kept).into_owned();
        self.observed.close = Some(Close {
            code,
            by_application,
            reason,
        });
        let is_alert = !by_application && ALERTS.contains(&code);
        if is_alert {
            self.observed.alert = Some((code as u8, By::Server));
        }
        let outcome = match self.observed.handshake {
            _ if is_alert && self.observed.response.is_none() => Outcome::HandshakeFailed,
            Some(_) => Outcome::Done,
            None => Outcome::Closed,
        };
        // Whoever closed needs no close (RFC 9000 10.2.2).
        self.end(outcome, None);
    }

    /// Passes on the CRYPTO bytes that came.
    fn read_tls(&mut self, arrival: Arrival, level: Level) {
        let (at, datagram) = (arrival.at, arrival.datagram);
        let space = &mut self.spaces[level as usize];
        let bytes = space.incoming.contiguous();
        let new = &bytes[space.read..];
        if new.is_empty() {
            return;
        }
        let from_a_ticket = self.messages.are_tickets(space.read);
        self.messages
            .look(level, bytes, (at, datagram), &mut self.observed);
        let kept = self.memory.is_some() || self.observed.handshake.is_none();
        if !kept && from_a_ticket && self.messages.are_tickets(bytes.len()) {
            // TLS would derive a key for each, and keep a copy of the chain, for no second connection.
            space.read = bytes.len();
            return;
        }
        let result = self.tls.read_hs(new);
        space.read = bytes.len();
        self.keep_secrets();
        let note = self.context.tls.take_note();
        self.note.ocsp |= note.ocsp;
        self.note.signature_valid = note.signature_valid.or(self.note.signature_valid);
        if self.observed.ech == Some(EchOffer::Config) {
            let completed = !self.tls.is_handshaking();
            self.observed.ech_accepted =
                ech_accepted(self.observed.ech_accepted, &result, completed);
        }
        if let Err(error) = result {
            let alert = self.tls.alert().map_or(80, u8::from);
            self.observed.alert = Some((alert, By::Client));
            self.observed.note(|| error.to_string());
            let close = transport(CRYPTO_ERROR + u64::from(alert));
            return self.end(Outcome::HandshakeFailed, Some(close));
        }
        if self.observed.hello_retry {
            // It cannot be taken any more (RFC 8446 4.1.2), and leaves again in 1-RTT packets.
            self.early = None;
        }
        self.write_tls();
        if self.level == Level::Data
            && !self.tls.is_handshaking()
            && self.observed.handshake.is_none()
        {
            self.complete(arrival);
        }
    }

    /// The handshake is complete: our Finished is ready.
    fn complete(&mut self, arrival: Arrival) {
        self.observed.handshake = Some((arrival.at, arrival.datagram));
        self.observed.received_handshake = Some(self.observed.received.bytes);
        let bytes = self
            .tls
            .quic_transport_parameters()
            .unwrap_or_default()
            .to_vec();
        let ids = Ids {
            original: self.original,
            retry: self.retry_cid,
            server: self.server_cid.unwrap_or_default(),
        };
        let theirs = TransportParameters::new(&bytes);
        if let Ok(Some(cid)) = theirs.preferred_address_cid() {
            // RFC 9000 5.1.1.
            self.peer_ids.begin(1, cid);
        }
        match self.versions.check(theirs, self.offered()) {
            Ok(available) => self.observed.available_versions = available,
            Err(why) => return self.end_wrong(VERSION_NEGOTIATION_ERROR, || why),
        }
        let checked = parameters::check(theirs, &ids);
        match checked
            .and_then(|()| Credit::of(theirs).map_err(|e| format!("transport parameters: {e}")))
        {
            Ok(credit) if self.tls.alpn_protocol() == Some(H3) => self.end_early(credit),
            Ok(_) => {
                self.end_resumption();
                self.streams.close();
            }
            Err(why) => self.end_malformed(|| why),
        }
    }

    /// Notes what the streams brought, and ends the connection once nothing more is expected.
    fn look_at_streams(&mut self, arrival: Arrival) {
        if self.is_over() || self.observed.handshake.is_none() {
            return;
        }
        let here = (arrival.at, arrival.datagram);
        if let Some(error) = self.streams.error() {
            self.observed
                .note(|| format!("HTTP/3 error {:#x}: {error}", error.code));
        }
        if self.streams.settings().is_some() {
            self.observed.settings.get_or_insert(here);
        }
        if self.streams.response.response().is_some() {
            self.observed.response.get_or_insert(here);
        }
        if self.observed.response.is_some() || self.streams.is_over() {
            let settings = self.observed.settings.is_some() || !self.streams.is_offered();
            let all = settings && self.observed.confirmed.is_some();
            if all && self.streams.is_over() && !self.awaits_ticket() {
                self.end_done();
            } else {
                self.settled.get_or_insert(arrival.now + SETTLE);
            }
        }
    }

    /// Opens the packets that came before their keys, once a datagram, `opening`, brought those. What they
    /// complete is complete by that datagram.
    fn open_held(&mut self, opening: Arrival) {
        while let Some(place) = self.held.iter().position(|held| {
            let level = if held.bytes[0] & 0x80 == 0 {
                Level::Data
            } else {
                Level::Handshake
            };
            level <= self.level
        }) {
            let mut held = self.held.remove(place);
            let arrival = Arrival {
                own: held.at,
                came: held.came,
                ..opening
            };
            if let Ok(packet) = parse_packet(&held.bytes, 0, self.client_cid.len()) {
                self.take_packet(arrival, &mut held.bytes, &packet);
            }
        }
    }

    fn retry(&mut self, datagram: &[u8], packet: &Packet) {
        let token = packet.token(datagram);
        if self.server_cid.is_some() || token.is_empty() || packet.scid == self.dcid {
            return self.observed.discard();
        }
        if !retry_is_intact(datagram, packet, &self.dcid) {
            self.observed.discard();
            return self
                .observed
                .note(|| "a Retry with a wrong integrity tag".into());
        }
        if token.len() > MOST_TOKEN {
            self.observed.discard();
            return self.observed.note(|| {
                format!(
                    "a Retry whose token of {} bytes is not followed",
                    token.len()
                )
            });
        }
        if self.observed.retry {
            // RFC 9000 17.2.5.2 allows one; a server that sends more will not let anybody in.
            self.observed
                .note(|| "a second Retry, for the token of the first".into());
            return self.end(Outcome::RetryLoop, None);
        }
        self.observed.retry = true;
        self.dcid = packet.scid;
        self.retry_cid = Some(packet.scid);
        self.token = token.into();
        let keys = initial_keys(self.versions.now, &self.dcid);
        let space = self.space(Level::Initial);
        space.keys = Some(keys);
        space.sent.clear();
        space.out.send_all_again();
        // The answer that counts is to the Initial with the token.
        self.reference = self.observed.sent.datagrams;
        self.observed.first_flight = Default::default();
        (self.replied, self.repeated) = (false, self.observed.retransmissions);
        (self.hello_sent, self.observed.hello_datagrams) = (0, 0);
        if self.early.is_some() {
            self.space(Level::Data).sent.clear();
            self.streams.send_again();
        }
    }

    fn version_negotiation(&mut self, datagram: &[u8], packet: &Packet) {
        let versions: Vec<Version> = match packet.versions(datagram) {
            Ok(versions) => versions.collect(),
            Err(_) => return self.observed.discard(),
        };
        let late = self.server_cid.is_some() || self.observed.retry;
        if packet.scid != self.dcid || late || versions.contains(&self.versions.now) {
            return self.observed.discard();
        }
        self.negotiate(&versions);
    }
}

/// Returns whether the server took the ECH that was offered, after TLS read more with this result; `before`: what
/// was known. Another error than that it did not says nothing about it.
fn ech_accepted(
    before: Option<bool>,
    result: &Result<(), rustls::Error>,
    completed: bool,
) -> Option<bool> {
    match result {
        Ok(()) if completed => Some(true),
        Err(rustls::Error::PeerIncompatible(
            rustls::PeerIncompatible::ServerRejectedEncryptedClientHello(_),
        )) => Some(false),
        _ => before,
    }
}

fn raise(credit: &mut u64, most: u64) {
    *credit = (*credit).max(most);
}

#[cfg(test)]
mod tests {
    use rustls::{Error, PeerIncompatible};

    use super::*;

    #[test]
    fn an_error_behind_the_handshake_does_not_change_whether_ech_was_accepted() {
        let rejected = PeerIncompatible::ServerRejectedEncryptedClientHello(None);
        let another = || Err(Error::DecryptError);
        for (before, result, completed, expected) in [
            (None, Ok(()), false, None),
            (None, Ok(()), true, Some(true)),
            (None, another(), false, None),
            (Some(true), another(), true, Some(true)),
            (None, Err(Error::from(rejected)), false, Some(false)),
        ] {
            let found = ech_accepted(before, &result, completed);
            assert_eq!(found, expected, "{before:?} {result:?}");
        }
    }
}
