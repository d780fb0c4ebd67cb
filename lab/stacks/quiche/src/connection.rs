//! A client's connection: the handshake's progress, and datagrams that wait for their release.

use crate::behaviour::{Behaviour, Mode};
use crate::buffer::{Buffer, Limits};
use crate::http::Http;
use crate::log::Log;
use crate::tls::{Allowed, SharedProgress};
use firstflight_listener::{DATAGRAM_BYTES, Sockets};
use quiche::RecvInfo;
use std::net::SocketAddr;
use std::time::Instant;

/// How datagrams are passed to the kernel: one by one, in buffers, or in buffers with a launch time for each
/// datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sending {
    Single,
    Buffers(Limits),
    PacedBuffers(Limits),
}

impl Sending {
    fn limits(self) -> Option<Limits> {
        match self {
            Self::Single => None,
            Self::Buffers(limits) | Self::PacedBuffers(limits) => Some(limits),
        }
    }
}

pub struct Connection {
    pub quic: quiche::Connection,
    pub local: SocketAddr,
    pub peer: SocketAddr,
    pub behaviour: Behaviour,
    /// Whether the ClientHello is complete and `behaviour` belongs to the SNI.
    pub hello_read: bool,
    /// How far TLS may continue now.
    pub allowed: Allowed,
    /// Whether datagrams must wait for the release.
    pub silent: bool,
    /// Finished datagrams that wait for the release.
    held: Vec<Vec<u8>>,
    /// The earliest instant for which a wake-up is queued.
    pub armed: Option<Instant>,
    /// When the pacer lets quiche continue; `None`: the pacer does not delay quiche.
    pub paced_until: Option<Instant>,
    pub http: Http,
    sending: Sending,
    /// The log, with the latest window and number of lost packets in it for this connection.
    log: Option<(Log, (usize, usize))>,
}

impl Connection {
    pub fn new(
        quic: quiche::Connection,
        local: SocketAddr,
        peer: SocketAddr,
        behaviour: Behaviour,
        sending: Sending,
        log: Option<Log>,
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
            paced_until: None,
            http: Http::default(),
            sending,
            log: log.map(|log| (log, (0, 0))),
        }
    }

    /// Logs quiche's window from `at` on if it has changed.
    pub fn note_window(&mut self, at: Instant) {
        let Some((log, known)) = &mut self.log else {
            return;
        };
        let Some(path) = self.quic.path_stats().next() else {
            return;
        };
        let found = (path.cwnd, path.lost);
        if found != *known {
            *known = found;
            log.window(at, found.0, found.1);
        }
    }

    /// Writes the buffered lines of the log.
    pub fn flush_log(&self) {
        if let Some((log, _)) = &self.log {
            log.flush();
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

    /// Sends quiche's pending datagrams, unless the release is still in the future. It sends ahead of the launch
    /// times only as far as the pacer allows: quiche counts a datagram as sent when it returns it, so sending
    /// further ahead would look like a longer round trip.
    pub fn flush(&mut self, progress: &SharedProgress, sockets: &Sockets) {
        self.paced_until = None;
        if self.silent {
            return;
        }
        self.set_progress(progress);
        let mut datagram = [0_u8; DATAGRAM_BYTES];
        let limits = self.sending.limits();
        let mut gathered: Option<Buffer> = None;
        loop {
            self.paced_until = self.next_paced();
            let filling = gathered
                .as_ref()
                .zip(limits)
                .is_some_and(|(buffer, limits)| buffer.is_filling(limits));
            if self.paced_until.is_some() && !filling {
                break;
            }
            // Done, or an error after which quiche closes the connection itself: there is no more to send now.
            let Ok((length, to)) = self.quic.send(&mut datagram) else {
                break;
            };
            let datagram = &datagram[..length];
            if let Some((log, _)) = &self.log {
                log.datagram(to.at, datagram);
            }
            let Some(limits) = limits else {
                sockets.send_at(self.local, to.to, datagram, Some(to.at));
                continue;
            };
            if !gathered
                .as_mut()
                .is_some_and(|buffer| buffer.add(to.to, datagram, to.at, limits))
                && let Some(full) = gathered.replace(Buffer::new(to.to, datagram, to.at))
            {
                self.leave(sockets, &full);
            }
        }
        if let Some(last) = gathered {
            self.leave(sockets, &last);
        }
    }

    fn leave(&self, sockets: &Sockets, buffer: &Buffer) {
        let paced = matches!(self.sending, Sending::PacedBuffers(_));
        let rate = paced.then(|| buffer.rate(sockets.earliest())).flatten();
        sockets.send_buffer(
            self.local,
            buffer.to,
            &buffer.bytes,
            Some(buffer.first),
            rate,
        );
    }

    /// Returns when quiche continues to produce datagrams, or `None` if it may do so now. It waits until half of
    /// the permitted lead is used up, so that it does not wake for each datagram.
    fn next_paced(&self) -> Option<Instant> {
        // The other controllers have no pacer, and reading a guest's clock takes time.
        if self.quic.gcongestion_enabled() != Some(true) {
            return None;
        }
        let now = Instant::now();
        let release = self.quic.get_next_release_time()?;
        let at = release.time(now).filter(|_| !release.can_burst())?;
        let ahead = self.quic.max_release_into_future();
        (at > now + ahead).then(|| at - ahead / 2)
    }

    /// Does the handshake's remaining work, and holds the datagrams until `release`.
    pub fn prepare(&mut self, progress: &SharedProgress) {
        self.allowed = Allowed::All;
        self.silent = true;
        self.set_progress(progress);
        let mut buffer = [0_u8; DATAGRAM_BYTES];
        while let Ok((length, _)) = self.quic.send(&mut buffer) {
            self.held.push(buffer[..length].to_vec());
        }
    }

    /// Sends the held datagrams and all later datagrams of quiche.
    pub fn release(&mut self, progress: &SharedProgress, sockets: &Sockets) {
        for datagram in std::mem::take(&mut self.held) {
            sockets.send(self.local, self.peer, &datagram);
        }
        self.allowed = Allowed::All;
        self.silent = false;
        self.flush(progress, sockets);
    }

    /// Returns whether the client or quiche has closed the connection.
    pub fn is_over(&self) -> bool {
        self.quic.is_draining() || self.quic.is_closed()
    }
}
