//! Where a connection begins, or goes on elsewhere: what to do with a datagram that is addressed to no live
//! connection.

use std::borrow::Cow;

use firstflight_wire::{MAX_CID_LEN, Packet, PacketType, parse_cut_header};

use super::Table;
use crate::net::ip::Datagram;
use crate::quic::connection::directory::{Id, Tuple};
use crate::quic::connection::path::Path;
use crate::quic::connection::scratch::Bytes;
use crate::quic::connection::{Arrival, Connection};
use crate::quic::packet_log::PacketLog;

/// Port of HTTP/3: a datagram to it may begin a connection although no key opens it.
const HTTPS: u16 = 443;
/// Smallest datagram that begins a connection (RFC 9000 14.1).
const MIN_INITIAL: usize = 1200;
/// How far connection IDs reach at most in a long header (RFC 9000 17.2). Where less was captured, an Initial
/// in the middle of a connection may be the first whose connection IDs can be read.
const LONGEST_NAMES: usize = 7 + 2 * MAX_CID_LEN;
/// Shortest connection ID that a client begins with (RFC 9000 7.2).
const MIN_ODCID: usize = 8;

/// What became of a datagram.
pub(super) enum Begun {
    /// It has taken the datagram.
    New(Id),
    /// A live one, and whether its client sent the datagram, which is still to be taken.
    Id(Id, bool),
    /// It waits for the Initial of its connection.
    Held,
    Late,
    No,
}

impl Table {
    /// The client's short header from or to an address that its connection did not use before, or a new
    /// connection.
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

    /// Begins a connection if `first` is a client's Initial that opens by the keys of its own connection ID.
    /// Where QUIC is expected, one that asks for a version that is not known here begins one, too, and one
    /// that the capture cut, so that nothing opens it. The connection has taken the datagram then.
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
            // A client keeps the connection ID that it gave itself in all its long headers (RFC 9000 7.2).
            PacketType::Initial if is_cut => {
                datagram.payload.len() >= LONGEST_NAMES
                    && packet.dcid.len() >= MIN_ODCID
                    && self.is_expected(arrival, datagram, tuple, |c| c.client_scid == packet.scid)
            }
            PacketType::Initial => true,
            // Whatever else goes to the port, such as a DNS message, names no connection ID that long.
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

    /// What was taken for a new connection begins nothing.
    fn forget(&mut self, connection: Box<Connection>, log: &mut PacketLog<'_>) {
        if let Some(log) = log {
            log.packets.clear();
        }
        self.scratch.forget_newest();
        self.give_back(connection);
    }

    /// The live connection that continues by `packet`, which seemed to begin `connection`, after a Retry that
    /// is not in the capture. The datagram is still to be taken.
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

    /// Whether a client's 0-RTT `packet` may have overtaken its Initial: it names no connection ID that is over, and
    /// no live connection of this client.
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

    /// Whether a datagram that nothing opens may begin a connection: long enough, to a port of QUIC's, and no
    /// live connection between these ends `may_own` it.
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
