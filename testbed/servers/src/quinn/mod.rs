//! The server for quinn-proto, with the lab's loop over sockets and releases.
//!
//! quinn asks TLS for its answer only after it received a packet, and requests only one ACK threshold per connection. A
//! delayed answer and a second threshold need a patched copy of quinn-proto (testbed/stacks/patched/quinn/changes.toml).
//! `make testbed-setup` builds the program `firstflight-quinn-server` with this copy.

mod connection;
mod session;
mod transport;

use crate::behaviour::{Behaviour, Mode};
use crate::{http, tls};
use bytes::BytesMut;
use connection::Connection;
use firstflight_listener::{Arrival, Config, Host, Releases, Sockets};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Endpoint, EndpointConfig, IdleTimeout, Incoming, ServerConfig,
    TransportConfig,
};
use session::Sessions;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use transport::Later;

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (quinn ",
    env!("BUILT_WITH_QUINN"),
    ")"
);
const IDLE: Duration = Duration::from_secs(5);

/// Runs the program; returns the exit status if it cannot serve. `later` comes from the program, which is built with the
/// patched copy; this crate is also built without it.
pub fn main(later: Later) -> ExitCode {
    firstflight_listener::run("firstflight-quinn-server", VERSION, |config| {
        Edge::new(config, later)
    })
}

struct Edge {
    behaviour: Behaviour,
    endpoint: Endpoint,
    sessions: Arc<Sessions>,
    control: Vec<u8>,
    response: Option<http::Response>,
    connections: BTreeMap<usize, Connection>,
    /// Connections that wait for their certificate.
    releases: Releases<usize>,
    /// Connections with a quinn timer or a due answer.
    timers: Releases<usize>,
}

impl Edge {
    fn new(config: &Config, later: Later) -> Result<Self, String> {
        let behaviour = Behaviour::of(config)?;
        let tls = QuicServerConfig::try_from(tls::config(&behaviour.certificate)?)
            .map_err(|error| error.to_string())?;
        let late = behaviour.mode == Mode::InstantAck;
        let sessions = Arc::new(Sessions::new(tls, late));
        let mut server = ServerConfig::with_crypto(Arc::clone(&sessions) as _);
        // quinn's default settings, with an idle timeout and the requested settings, and without segmentation offload,
        // so that each datagram is a separate packet in the capture.
        let mut transport = TransportConfig::default();
        let idle = IdleTimeout::try_from(IDLE).map_err(|error| error.to_string())?;
        transport.max_idle_timeout(Some(idle));
        transport.enable_segmentation_offload(false);
        transport::apply(&behaviour.transport, &mut transport, later)?;
        server.transport_config(Arc::new(transport));
        // Otherwise, packets between two quinns have no fixed bit (RFC 9287), and tshark does not read them.
        let mut common = EndpointConfig::default();
        common.grease_quic_bit(false);
        // The loop's sockets permit fragmentation, so quinn must not probe for a larger MTU.
        let endpoint = Endpoint::new(Arc::new(common), Some(Arc::new(server)), false, None);
        Ok(Self {
            endpoint,
            sessions,
            control: http::control()?,
            response: behaviour.http.as_ref().map(http::response).transpose()?,
            behaviour,
            connections: BTreeMap::new(),
            releases: Releases::default(),
            timers: Releases::default(),
        })
    }

    fn first(&mut self, sockets: &Sockets, arrival: Arrival, incoming: Incoming) {
        let mut out = Vec::new();
        match self.endpoint.accept(incoming, arrival.at, &mut out, None) {
            Ok((handle, quic)) => {
                let Some(certificate) = self.sessions.newest() else {
                    return;
                };
                let silent = self.behaviour.mode == Mode::Wait;
                let made = Connection::new(quic, certificate, arrival, silent);
                self.connections.insert(handle.0, made);
                self.settle(sockets, handle.0, arrival.at);
            }
            Err(refused) => {
                if let Some(answer) = refused.response {
                    sockets.send(arrival.local, answer.destination, &out[..answer.size]);
                }
            }
        }
    }

    /// Handles everything that is due on a connection, and queues the next events.
    fn settle(&mut self, sockets: &Sockets, id: usize, now: Instant) {
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        connection.advance(&self.control, self.response.as_ref(), now);
        while let Some(event) = connection.quic.poll_endpoint_events() {
            let answer = self.endpoint.handle_event(ConnectionHandle(id), event);
            if let Some(answer) = answer {
                connection.quic.handle_event(answer);
            }
        }
        connection.flush(sockets, now);
        if connection.hello_is_new() {
            // `flush` has just sent the instant ACK.
            let from = match self.behaviour.mode {
                Mode::InstantAck => Instant::now(),
                Mode::Wait => now,
            };
            self.releases.push(from + self.behaviour.delay, id);
        }
        if connection.quic.is_drained() {
            self.connections.remove(&id);
            return;
        }
        if let Some(at) = connection.next_timer() {
            self.timers.push(at, id);
        }
    }

    fn release(&mut self, sockets: &Sockets, id: usize, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.release();
        }
        self.settle(sockets, id, now);
    }

    fn timer(&mut self, sockets: &Sockets, id: usize, now: Instant) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.timer(now);
        }
        self.settle(sockets, id, now);
    }
}

impl Host for Edge {
    fn arrived(&mut self, sockets: &Sockets, arrival: Arrival, bytes: &mut [u8]) {
        let mut out = Vec::new();
        let (at, peer, local) = (arrival.at, arrival.peer, arrival.local);
        let found = self.endpoint.handle(
            at,
            peer,
            Some(local.ip()),
            None,
            BytesMut::from(&*bytes),
            &mut out,
        );
        match found {
            Some(DatagramEvent::NewConnection(incoming)) => self.first(sockets, arrival, incoming),
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(connection) = self.connections.get_mut(&handle.0) {
                    connection.quic.handle_event(event);
                }
                self.settle(sockets, handle.0, at);
            }
            Some(DatagramEvent::Response(answer)) => {
                sockets.send(local, answer.destination, &out[..answer.size]);
            }
            None => {}
        }
    }

    fn next_due(&mut self) -> Option<Instant> {
        let due = [self.releases.next_at(), self.timers.next_at()];
        due.into_iter().flatten().min()
    }

    fn due(&mut self, sockets: &Sockets, now: Instant) {
        let mut now = now;
        loop {
            if let Some(id) = self.releases.pop_due(now) {
                self.release(sockets, id, now);
            } else if let Some(id) = self.timers.pop_due(now) {
                self.timer(sockets, id, now);
            } else {
                return;
            }
            now = Instant::now();
        }
    }
}
