//! Handles datagrams that match no live connection: they start a connection, or continue one on another path.

use std::borrow::Cow;

use firstflight_wire::{MAX_CID_LEN, Packet, PacketType, parse_cut_header};

use super::Table;
use crate::net::ip::Datagram;
use crate::quic::connection::lookup::directory::{Id, Tuple};
use crate::quic::connection::path::Path;
use crate::quic::connection::scratch::Bytes;
use crate::quic::connection::{Arrival, Connection};
use crate::quic::packet_log::PacketLog;

/// Port of HTTP/3. A datagram to it may start a connection even if no key decrypts it.
const HTTPS: u16 = 443;
/// Smallest datagram that starts a connection (RFC 9000 14.1).
const MIN_INITIAL: usize = 1200;
/// Bytes needed to read the longest connection IDs in a long header (RFC 9000 17.2). If fewer bytes were captured, the
/// first Initial with readable connection IDs may be from the middle of a connection.
const LONGEST_NAMES: usize = 7 + 2 * MAX_CID_LEN;
/// Shortest original destination connection ID from a client (RFC 9000 7.2).
const MIN_ODCID: usize = 8;

/// The result for a datagram.
pub(super) enum Begun {
    /// A new connection, which has processed the datagram.
    New(Id),
    /// A live connection, and whether its client sent the datagram. The datagram is not processed yet.
    Id(Id, bool),
    /// The datagram waits for the connection's Initial.
    Held,
    Late,
    No,
}

impl Table {
    /// Finds the live connection for a short header on an unknown path, or starts a new connection.
    pub(super) fn moved_or_begun(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        tuple: Tuple,
        first: Option<&Packet>,
        log: &mut PacketLog<'_>,
    ) -> Begun {
        let is_short = first.is_some_and(|packet| packet.kind == PacketType::OneRtt);
        if is_short
            && let Some(id) = self.by_cid.of_short(datagram.payload)
            && let Some(connection) = self.connections.get_mut(id)
        {
            let path: Path = (datagram.src, datagram.dst);
            let sender = connection.sender(&path.0, &path.1);
            if sender.is_none() && connection.add_path(path) {
                self.by_tuple.add(tuple, id);
            }
            // Only clients send to connection IDs of servers.
            return Begun::Id(id, sender.unwrap_or(true));
        }
        self.begin(arrival, datagram, tuple, first, log)
    }

    /// Starts a connection if `first` is a client's Initial that decrypts with keys from its destination connection ID.
    /// On a QUIC port, an Initial that the capture cut and a packet of an unknown version start a connection, too. A
    /// new connection has processed the datagram.
    fn begin(
        &mut self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        tuple: Tuple,
        first: Option<&Packet>,
        log: &mut PacketLog<'_>,
    ) -> Begun {
        let is_cut = first.is_none() && arrival.is_cut(datagram.payload);
        let packet = match first {
            Some(first) => Some(Cow::Borrowed(first)),
            None if is_cut => parse_cut_header(datagram.payload, 0).map(Cow::Owned),
            None => None,
        };
        let Some(packet) = packet else {
            return self.not_begun(tuple);
        };
        if packet.kind == PacketType::ZeroRtt && self.may_come_first(datagram, tuple, &packet) {
            self.counters.other_udp += self.held.add(arrival, datagram, packet.dcid);
            return Begun::Held;
        }
        let may_begin = match packet.kind {
            // A client uses the same source connection ID in all its long headers (RFC 9000 7.2).
            PacketType::Initial if is_cut => {
                datagram.payload.len() >= LONGEST_NAMES
                    && packet.dcid.len() >= MIN_ODCID
                    && self.is_expected(arrival, datagram, tuple, |c| c.client_scid == packet.scid)
            }
            PacketType::Initial => true,
            // Other traffic to the port, such as DNS, has no connection ID of this length.
            PacketType::UnknownVersion => {
                packet.dcid.len() >= MIN_ODCID
                    && self.is_expected(arrival, datagram, tuple, |_| true)
            }
            _ => false,
        };
        if !may_begin {
            return self.not_begun(tuple);
        }
        if self
            .tombstones
            .contains(self.by_tuple.with_cid(tuple, &packet.dcid))
        {
            return Begun::Late;
        }
        let path: Path = (datagram.src, datagram.dst);
        let windows = self.limits.windows;
        let new = Connection::new(path, &packet, arrival.ns, windows);
        let mut connection = match self.spare.take() {
            Some(mut spare) => {
                *spare = new;
                spare
            }
            None => Box::new(new),
        };
        connection.acks = self.limits.acks.then(Box::default);
        connection.datagram(
            &self.keyring,
            arrival,
            (true, path),
            first,
            &mut Bytes::new(datagram.payload, &mut self.scratch),
            log.as_deref_mut(),
        );
        if packet.kind == PacketType::Initial && !is_cut && !connection.has_decrypted() {
            self.forget(connection, log);
            return self.not_begun(tuple);
        }
        if let Some(id) = self.continued_by(tuple, &connection, &packet) {
            self.forget(connection, log);
            return Begun::Id(id, true);
        }
        let cids = connection.new_server_cids.take();
        let is_closed = connection.closed;
        let id = self.connections.insert(connection);
        for cid in cids.into_iter().flat_map(|cids| *cids) {
            self.by_cid.add(cid, id);
        }
        if is_closed {
            self.expiry.close(id, arrival.ns);
        }
        self.by_tuple.add(tuple, id);
        self.expiry.add(id, arrival.ns);
        Begun::New(id)
    }

    /// Discards a tentative connection.
    fn forget(&mut self, connection: Box<Connection>, log: &mut PacketLog<'_>) {
        if let Some(log) = log {
            log.packets.clear();
        }
        self.scratch.forget_newest();
        self.give_back(connection);
    }

    /// Finds the live connection that `packet` continues after a Retry that is not in the capture; `connection` is
    /// tentative. The datagram is not processed yet.
    fn continued_by(
        &mut self,
        tuple: Tuple,
        connection: &Connection,
        packet: &Packet,
    ) -> Option<Id> {
        let id = *self.by_tuple.get(tuple).last()?;
        let before = self.connections.get_mut(id)?;
        let is_between_them =
            (before.client, before.server) == (connection.client, connection.server);
        if !is_between_them || !before.is_continued_by(connection, packet) {
            return None;
        }
        before.missed_retry(packet.dcid);
        Some(id)
    }

    fn not_begun(&self, tuple: Tuple) -> Begun {
        if self.tombstones.contains(tuple.hash()) {
            Begun::Late
        } else {
            Begun::No
        }
    }

    /// Whether a client's 0-RTT `packet` may have overtaken its Initial: its connection IDs match neither a removed
    /// connection nor a live one.
    fn may_come_first(&self, datagram: &Datagram<'_>, tuple: Tuple, packet: &Packet) -> bool {
        let is_its_own = |id: &Id| {
            let connection = self.connections.get(*id);
            connection.is_some_and(|c| {
                c.sender(&datagram.src, &datagram.dst).is_some() && c.client_scid == packet.scid
            })
        };
        let over = self.by_tuple.with_cid(tuple, &packet.dcid);
        packet.dcid.len() >= MIN_ODCID
            && !self.tombstones.contains(over)
            && !self.by_tuple.get(tuple).iter().any(is_its_own)
    }

    /// Whether an undecryptable datagram may start a connection: it is long enough and goes to a QUIC port, and no live
    /// connection between these ends satisfies `may_own`.
    fn is_expected(
        &self,
        arrival: &Arrival,
        datagram: &Datagram<'_>,
        tuple: Tuple,
        may_own: impl Fn(&Connection) -> bool,
    ) -> bool {
        let (src, dst) = (&datagram.src, &datagram.dst);
        let is_owner = |id: &Id| {
            let connection = self.connections.get(*id);
            connection.is_some_and(|c| c.sender(src, dst).is_some() && may_own(c))
        };
        arrival.length >= MIN_INITIAL
            && (dst.port() == HTTPS || self.limits.ports.contains(&dst.port()))
            && !self.by_tuple.get(tuple).iter().any(is_owner)
    }
}

#[cfg(test)]
mod tests;
