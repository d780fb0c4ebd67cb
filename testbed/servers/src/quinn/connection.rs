//! One connection: when it may send, its HTTP/3, and its timers.

use super::session::Certificate;
use crate::http::{Pieces, Response};
use firstflight_listener::{Arrival, Sockets};
use quinn_proto::{Dir, Event, ReadError, StreamId};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

pub struct Connection {
    pub quic: quinn_proto::Connection,
    certificate: Arc<Certificate>,
    local: SocketAddr,
    /// The connection must not send yet.
    silent: bool,
    /// The release is queued.
    released: bool,
    connected: bool,
    /// Incomplete requests.
    asking: Vec<StreamId>,
    /// Complete requests and the times to answer them.
    pending: Vec<(Instant, StreamId)>,
    /// Bytes of streams that quinn has not accepted yet; the flag finishes the stream after them.
    unsent: Vec<(StreamId, Pieces, bool)>,
    /// The earliest instant for which a wake-up is queued.
    armed: Option<Instant>,
}

impl Connection {
    pub fn new(
        quic: quinn_proto::Connection,
        certificate: Arc<Certificate>,
        arrival: Arrival,
        silent: bool,
    ) -> Self {
        Self {
            quic,
            certificate,
            local: arrival.local,
            silent,
            released: false,
            connected: false,
            asking: Vec::new(),
            pending: Vec::new(),
            unsent: Vec::new(),
            armed: None,
        }
    }

    /// Returns true only once, when the ClientHello is complete.
    pub fn hello_is_new(&mut self) -> bool {
        let new = !self.released && self.certificate.has_hello();
        self.released |= new;
        new
    }

    /// Makes the certificate available.
    pub fn release(&mut self) {
        self.silent = false;
        self.certificate.arrive();
    }

    /// Sends quinn's pending datagrams, unless the connection is silent.
    pub fn flush(&mut self, sockets: &Sockets, now: Instant) {
        if self.silent {
            return;
        }
        let mut out = Vec::new();
        while let Some(sent) = self.quic.poll_transmit(now, 1, &mut out) {
            sockets.send(self.local, sent.destination, &out[..sent.size]);
            out.clear();
        }
    }

    /// Handles quinn's expired timers.
    pub fn timer(&mut self, now: Instant) {
        self.armed = None;
        if self.quic.poll_timeout().is_some_and(|at| at <= now) {
            self.quic.handle_timeout(now);
        }
    }

    /// Returns the time of the next wake-up, if it is earlier than the queued one.
    pub fn next_timer(&mut self) -> Option<Instant> {
        let answer = self.pending.iter().map(|(at, _)| *at).min();
        let at = [self.quic.poll_timeout(), answer]
            .into_iter()
            .flatten()
            .min()?;
        if self.armed.is_some_and(|armed| armed <= at) {
            return None;
        }
        self.armed = Some(at);
        self.armed
    }

    /// Handles HTTP/3 as far as the handshake permits: sends SETTINGS and due answers.
    pub fn advance(&mut self, control: &[u8], response: Option<&Response>, now: Instant) {
        while let Some(event) = self.quic.poll() {
            if matches!(event, Event::Connected) {
                self.connected = true;
                if let Some(id) = self.quic.streams().open(Dir::Uni) {
                    self.unsent
                        .push((id, Pieces::new(control.to_vec(), 0), false));
                }
            }
        }
        if !self.connected || self.quic.is_closed() {
            return;
        }
        while let Some(id) = self.quic.streams().accept(Dir::Bi) {
            self.asking.push(id);
        }
        if let Some(response) = response {
            for id in std::mem::take(&mut self.asking) {
                match self.read(id) {
                    Some(true) => self.pending.push((now + response.delay, id)),
                    Some(false) => self.asking.push(id),
                    None => {}
                }
            }
            for (at, id) in std::mem::take(&mut self.pending) {
                if at <= now {
                    self.unsent.push((id, response.bytes.clone(), true));
                } else {
                    self.pending.push((at, id));
                }
            }
        }
        self.write();
    }

    /// Reads a request; returns whether it is complete, or `None` if the client has reset it.
    fn read(&mut self, id: StreamId) -> Option<bool> {
        let mut stream = self.quic.recv_stream(id);
        let mut chunks = stream.read(true).ok()?;
        let read = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => {}
                Ok(None) => break Some(true),
                Err(ReadError::Blocked) => break Some(false),
                Err(ReadError::Reset(_)) => break None,
            }
        };
        let _ = chunks.finalize();
        read
    }

    fn write(&mut self) {
        for (id, mut pieces, ends) in std::mem::take(&mut self.unsent) {
            let mut stream = self.quic.send_stream(id);
            let mut piece = pieces.front();
            while !piece.is_empty() {
                // It fails if the buffer is full, or the client has stopped the stream.
                let Ok(written) = stream.write(&piece) else {
                    break;
                };
                pieces.advance(written);
                piece = pieces.front();
            }
            if !piece.is_empty() {
                self.unsent.push((id, pieces, ends));
            } else if ends {
                let _ = stream.finish();
            }
        }
    }
}
