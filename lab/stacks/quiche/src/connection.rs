//! One client's connection: how far its handshake may go, and datagrams that wait for their release.

use crate::behaviour::{Behaviour, Mode};
use crate::http::Http;
use crate::tls::{Allowed, SharedProgress};
use firstflight_listener::Sockets;
use quiche::RecvInfo;
use std::net::SocketAddr;
use std::time::Instant;

/// The largest datagram that is sent; quiche pads datagrams with Initial packets to 1200 bytes.
pub const DATAGRAM_BYTES: usize = 1200;

pub struct Connection {
    pub quic: quiche::Connection,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub behaviour: Behaviour,
    /// The ClientHello is complete, and `behaviour` is that of its SNI.
    pub hello_read: bool,
    /// How far TLS may go now.
    pub allowed: Allowed,
    /// No datagram may leave before the release.
    pub silent: bool,
    /// Finished datagrams that wait for the release.
    held: Vec<Vec<u8>>,
    /// The earliest instant for which a wake-up is queued.
    pub armed: Option<Instant>,
    pub http: Http,
}

impl Connection {
    pub fn new(
        quic: quiche::Connection,
        local: SocketAddr,
        peer: SocketAddr,
        behaviour: Behaviour,
    ) -> Self {
        Self {
            quic,
            local,
            peer,
            behaviour,
            hello_read: false,
            allowed: Allowed::Nothing,
            silent: false,
            held: Vec::new(),
            armed: None,
            http: Http::default(),
        }
    }

    fn set_progress(&self, progress: &SharedProgress) {
        let mut progress = progress.lock();
        progress.allowed = self.allowed;
        progress.certificate = self.behaviour.certificate;
        progress.other_group_only = self.behaviour.mode == Mode::HelloRetry;
    }

    /// Passes one datagram to quiche, which checks it.
    pub fn receive(&mut self, progress: &SharedProgress, bytes: &mut [u8]) {
        self.set_progress(progress);
        let _ = self.quic.recv(
            bytes,
            RecvInfo {
                from: self.peer,
                to: self.local,
            },
        );
    }

    /// Sends what quiche has to send, unless the release is still in the future.
    pub fn flush(&mut self, progress: &SharedProgress, sockets: &Sockets) {
        if self.silent {
            return;
        }
        self.set_progress(progress);
        let mut buffer = [0_u8; DATAGRAM_BYTES];
        // Done, or an error that quiche turns into a close by itself: nothing more to send now.
        while let Ok((length, to)) = self.quic.send(&mut buffer) {
            sockets.send_at(self.local, to.to, &buffer[..length], Some(to.at));
        }
    }

    /// Does the handshake's remaining work and keeps the datagrams until `release`.
    pub fn prepare(&mut self, progress: &SharedProgress) {
        self.allowed = Allowed::All;
        self.silent = true;
        self.set_progress(progress);
        let mut buffer = [0_u8; DATAGRAM_BYTES];
        while let Ok((length, _)) = self.quic.send(&mut buffer) {
            self.held.push(buffer[..length].to_vec());
        }
    }

    /// Sends the retained datagrams and everything that quiche has produced since.
    pub fn release(&mut self, progress: &SharedProgress, sockets: &Sockets) {
        for datagram in std::mem::take(&mut self.held) {
            sockets.send(self.local, self.peer, &datagram);
        }
        self.allowed = Allowed::All;
        self.silent = false;
        self.flush(progress, sockets);
    }

    /// Returns whether the connection is over: the client closed it, or quiche did.
    pub fn is_over(&self) -> bool {
        self.quic.is_draining() || self.quic.is_closed()
    }
}
