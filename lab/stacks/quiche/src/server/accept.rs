//! A client's first datagram: version, token, and the ClientHello. The SNI selects the behaviour.

use super::{CID_BYTES, Edge};
use crate::behaviour::Behaviour;
use crate::connection::Connection;
use crate::tls::SharedProgress;
use boring::rand::rand_bytes;
use firstflight_listener::{Arrival, DATAGRAM_BYTES, Routes, Sockets};
use quiche::{ConnectionId, Header, Type};

/// Clients pad datagrams with Initials to this size (RFC 9000, 14.1).
const MIN_INITIAL_BYTES: usize = 1200;

impl Edge {
    /// Handles a datagram with a long header that belongs to no connection.
    pub(super) fn first(
        &mut self,
        sockets: &Sockets,
        arrival: Arrival,
        header: &Header,
        bytes: &mut [u8],
    ) {
        if bytes.len() < MIN_INITIAL_BYTES {
            return;
        }
        if !quiche::version_is_supported(header.version) {
            let mut out = [0_u8; DATAGRAM_BYTES];
            if let Ok(length) = quiche::negotiate_version(&header.scid, &header.dcid, &mut out) {
                sockets.send(arrival.local, arrival.peer, &out[..length]);
            }
            return;
        }
        let mut random = [0_u8; CID_BYTES];
        if header.ty != Type::Initial || rand_bytes(&mut random).is_err() {
            return;
        }
        let token = header.token.as_deref().unwrap_or_default();
        let odcid = self
            .tokens
            .check(arrival.peer, token, &header.dcid, arrival.at);
        let odcid = odcid.map(ConnectionId::from_vec);
        // After a Retry, the client already uses the connection ID from the Retry.
        let scid = match odcid {
            Some(_) => header.dcid.clone(),
            None => ConnectionId::from_ref(&random),
        };
        let Ok(quic) = quiche::accept(
            &scid,
            odcid.as_ref(),
            arrival.local,
            arrival.peer,
            &mut self.quic,
        ) else {
            return;
        };
        // Any behaviour works until the ClientHello has been read, because TLS may not continue yet.
        let Some(behaviour) = self.routes.find(arrival.local.ip(), None) else {
            return;
        };
        let mut connection = Connection::new(
            quic,
            arrival.local,
            arrival.peer,
            behaviour,
            self.sending,
            self.log.clone(),
        );
        let answerable = read_hello(&self.progress, &self.routes, &mut connection, bytes);
        if answerable && connection.behaviour.wants_retry() && odcid.is_none() {
            self.retry(sockets, arrival, header, &scid);
            return;
        }
        // Without a timer, quiche has accepted no part of the datagram: it is damaged or forged.
        if connection.is_over() || connection.quic.timeout_instant().is_none() {
            return;
        }
        let keys = [&header.dcid, &scid].map(|cid| (arrival.peer, cid.to_vec()));
        let id = self.connections.insert(connection, keys);
        if answerable {
            self.answer(sockets, id, arrival.at);
        }
        self.settle(sockets, id);
    }

    /// Sends a Retry: the client must repeat its Initial with a token, to `scid`.
    fn retry(&self, sockets: &Sockets, arrival: Arrival, header: &Header, scid: &ConnectionId) {
        let (client, odcid) = (&header.scid, &header.dcid);
        let Some(token) = self.tokens.mint(arrival.peer, odcid, scid, arrival.at) else {
            return;
        };
        let mut out = [0_u8; DATAGRAM_BYTES];
        if let Ok(length) = quiche::retry(client, odcid, scid, &token, header.version, &mut out) {
            sockets.send(arrival.local, arrival.peer, &out[..length]);
        }
    }
}

/// Passes a datagram to a connection that may not answer yet. When the ClientHello is complete, sets the
/// connection's behaviour from the SNI and returns true.
pub(super) fn read_hello(
    progress: &SharedProgress,
    routes: &Routes<Behaviour>,
    connection: &mut Connection,
    bytes: &mut [u8],
) -> bool {
    progress.lock().hello_seen = false;
    connection.receive(progress, bytes);
    let (seen, sni) = {
        let mut progress = progress.lock();
        (progress.hello_seen, progress.sni.take())
    };
    if let Some(behaviour) = routes
        .find(connection.local.ip(), sni.as_deref())
        .filter(|_| seen)
    {
        connection.behaviour = behaviour;
        connection.hello_read = true;
    }
    connection.hello_read
}
