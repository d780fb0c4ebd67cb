//! Processes received datagrams: packets, frames and TLS messages.

use std::fmt;

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

/// Maximum number of packets kept until their keys are available, and maximum size of each. No path carries larger
/// packets.
const MOST_HELD: usize = 8;
const MOST_HELD_BYTES: usize = 2048;

/// Maximum number of bytes kept from a reason phrase.
const MOST_REASON: usize = 1000;

/// Maximum length of a Retry token that is accepted. With a longer token, an Initial has little room for CRYPTO data,
/// and the ClientHello needs many datagrams of full size.
const MOST_TOKEN: usize = 512;

/// Number of sent datagrams after which we acknowledge no more packets. Each ACK in an Initial is a datagram of full
/// size, even for a PING of 40 bytes. The largest certificate chain and response need fewer datagrams.
const MOST_ACKNOWLEDGED: u16 = 200;

/// Maximum number of PATH_CHALLENGE frames that are answered. Each answer is a datagram of at most 1200 bytes. A server
/// needs fewer.
const MOST_CHALLENGES: u8 = 8;

/// Codes of CONNECTION_CLOSE that are TLS alerts (RFC 9001 4.8).
const ALERTS: std::ops::RangeInclusive<u64> = CRYPTO_ERROR..=CRYPTO_ERROR + 0xff;

/// When a datagram arrived and when it is read, on our clock.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub came: Mono,
    pub now: Mono,
}

/// A packet's name in messages.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) kind: &'a str,
    pub(super) number: u64,
}

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} packet {}", self.kind, self.number)
    }
}

/// A packet's arrival: the kernel's stamp, the number of the datagram (from 1), the stamp of the packet itself, and
/// the times of arrival and reading on our clock. If the packet waited for its keys, `at` and `datagram` describe the
/// datagram that brought the keys, and milestones have these values. `own` and `came` always describe the packet's
/// datagram.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    pub(super) at: Stamp,
    pub(super) datagram: u16,
    pub(super) own: Stamp,
    pub(super) came: Mono,
    pub(super) now: Mono,
}

impl Connection {
    /// Processes a datagram with our connection ID that arrived from the server's address at `at`. Decrypts it in
    /// place.
    pub fn receive(&mut self, at: Stamp, times: Times, datagram: &mut [u8]) {
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
            came: times.came,
            now: times.now,
        };
        let mut start = 0;
        while start < datagram.len() && !self.is_over() {
            let packet = match parse_packet(datagram, start, self.client_cid.len()) {
                Ok(packet) => packet,
                // Some servers pad a datagram with zeros after the packets.
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
            // A packet with a version that the server may choose waits for its keys, like any other packet.
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
            // Either the packet arrived before its keys, or the keys are discarded and the packet is no longer needed.
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
        let name = Named {
            kind: packet.kind.name(),
            number: opened.number,
        };
        if !opened.reserved_bits_clear {
            return self.end_malformed(|| format!("{name}: reserved bits"));
        }
        if opened.updated_too_soon {
            return self.end_malformed(|| {
                format!("{name}: another key update before the previous one was acknowledged")
            });
        }
        self.frames(arrival, level, name, &datagram[opened.frames]);
        self.open_held(arrival);
    }

    /// Processes the payload of the packet `name`, which authenticated.
    pub(super) fn frames(
        &mut self,
        arrival: Arrival,
        level: Level,
        name: Named<'_>,
        payload: &[u8],
    ) {
        let (mut eliciting, mut crypto) = (false, false);
        for frame in Frames::new(payload) {
            let checked = frame.map_err(|error| error.to_string()).and_then(|frame| {
                eliciting |= frame.is_ack_eliciting();
                if level != Level::Data && !frame.allowed_in_initial() {
                    return Err(format!(
                        "{} frames are not allowed in {} packets",
                        frame.name(),
                        name.kind
                    ));
                }
                crypto |= matches!(frame, Frame::Crypto { .. });
                self.frame(arrival, level, &frame)
            });
            if let Err(why) = checked {
                return self.end_malformed(|| format!("{name}: {why}"));
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

    /// Processes a frame. Returns an error if the frame violates the protocol.
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
            // Our only connection ID has number 0 and stays in use (RFC 9000 19.16).
            Frame::RetireConnectionId { sequence } if sequence > 0 => {
                return Err("RETIRE_CONNECTION_ID of an ID that was never issued".into());
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

    /// Records that the packets `fresh` are acknowledged. They contain all or part of the ClientHello.
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
        // A server that has closed the connection needs no close from us (RFC 9000 10.2.2).
        self.end(outcome, None);
    }

    /// Passes the received CRYPTO bytes to the TLS library.
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
            // TLS would derive a key for each ticket and keep a copy of the chain. Without a second connection, nobody
            // uses them.
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
            // A server cannot accept 0-RTT data after a HelloRetryRequest (RFC 8446 4.1.2). 1-RTT packets send it
            // again.
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

    /// Completes the handshake: our Finished is ready.
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

    /// Records the progress of the streams. Ends the connection once no more data is expected.
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

    /// Processes the packets that arrived before their keys, after the datagram `opening` brought the keys. Milestones
    /// that these packets reach have the datagram's stamp and number.
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
                    "a Retry was ignored: its token of {} bytes is too long",
                    token.len()
                )
            });
        }
        if self.observed.retry {
            // RFC 9000 17.2.5.2 allows one Retry. A server that sends another one never accepts the connection.
            self.observed
                .note(|| "a second Retry, in response to the token of the first one".into());
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
        // Times are relative to the Initial with the token.
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

/// Returns whether the server accepted the offered ECH, after TLS read more bytes with this result. `before` is the
/// previous answer. Errors other than a rejection of ECH do not change it.
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
