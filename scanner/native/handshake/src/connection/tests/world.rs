//! A real server without I/O (quinn-proto) and a path on which each datagram may be lost, late, duplicated, reordered
//! or damaged.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use firstflight_core::clock::Mono;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, Incoming, ServerConfig,
    StreamEvent, VarInt,
};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::{DELAY, MS};
use crate::connection::{Connection, Times};

/// HEADERS for a response with status 200 and nothing else.
pub const OK: [u8; 5] = [0x01, 0x03, 0x00, 0x00, 0xd9];
/// Control stream with empty SETTINGS.
pub const SETTINGS: [u8; 3] = [0x00, 0x04, 0x00];

/// A datagram's treatment in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Arrives a millisecond after the datagrams that were sent later.
    Late,
    /// The last bit is flipped.
    Broken,
}

/// A server, the path to it, and the time.
pub struct World {
    pub endpoint: Endpoint,
    pub server: Option<(ConnectionHandle, quinn_proto::Connection)>,
    start: Instant,
    pub now: Mono,
    /// Datagrams in transit: arrival time, whether to the server, bytes.
    pub wire: VecDeque<(Mono, bool, Vec<u8>)>,
    /// Number of datagrams sent by the client, by the server.
    pub sent: [usize; 2],
    /// A datagram's sender (0: client, 1: server), number of the datagram, and the treatment.
    pub fate: (usize, usize, Fate),
    pub retry: bool,
    /// Sends a Retry even if a token of NEW_TOKEN proves the address.
    pub retry_always: bool,
    pub answer: Reaction,
    pub answered: bool,
    /// The client's datagrams have another source port from this number on.
    pub moves: usize,
    /// Datagrams that reached the server.
    served: usize,
    /// The server sends and receives nothing from this time on.
    pub dies: Mono,
    /// Both endpoints are suspended between these times. Datagrams still arrive.
    pub suspended: (Mono, Mono),
    /// When the server updates its keys, and sends a PING with the new ones.
    pub updates: VecDeque<Mono>,
    tls: rustls::ServerConfig,
    pub config: ServerConfig,
}

/// Accepts every token, even a used one.
struct EveryToken;

impl quinn_proto::TokenLog for EveryToken {
    fn check_and_insert(
        &self,
        _nonce: u128,
        _issued: std::time::SystemTime,
        _lifetime: Duration,
    ) -> Result<(), quinn_proto::TokenReuseError> {
        Ok(())
    }
}

/// Reaction of the server to the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaction {
    Response,
    Nothing,
    Close,
    Reset,
    Broken,
    Half,
}

pub fn authority() -> &'static (Vec<u8>, Vec<u8>) {
    static MADE: std::sync::OnceLock<(Vec<u8>, Vec<u8>)> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        (made.cert.der().to_vec(), made.signing_key.serialize_der())
    })
}

/// A server configuration with `chain_length` copies of the certificate in the chain, and this OCSP response.
pub fn tls_with(chain_length: usize, ocsp: &[u8]) -> rustls::ServerConfig {
    let (certificate, key) = authority().clone();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert_with_ocsp(
            vec![certificate.into(); chain_length],
            PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key)),
            ocsp.to_vec(),
        )
        .unwrap()
}

impl World {
    pub fn new(alpn: &[u8]) -> World {
        let mut tls = tls_with(1, &[]);
        tls.alpn_protocols = vec![alpn.to_vec()];
        let crypto = QuicServerConfig::try_from(tls.clone()).unwrap();
        let config = ServerConfig::with_crypto(Arc::new(crypto));
        World {
            endpoint: Endpoint::new(
                Arc::new(EndpointConfig::default()),
                Some(Arc::new(config.clone())),
                true,
                None,
            ),
            server: None,
            start: Instant::now(),
            now: 0,
            wire: VecDeque::new(),
            sent: [0; 2],
            fate: (0, usize::MAX, Fate::Arrives),
            retry: false,
            retry_always: false,
            answer: Reaction::Response,
            answered: false,
            moves: usize::MAX,
            served: 0,
            dies: Mono::MAX,
            suspended: (Mono::MAX, 0),
            updates: VecDeque::new(),
            tls,
            config,
        }
    }

    /// Changes the server's TLS configuration.
    pub fn change_tls(&mut self, change: impl FnOnce(&mut rustls::ServerConfig)) {
        change(&mut self.tls);
        self.config.crypto = Arc::new(QuicServerConfig::try_from(self.tls.clone()).unwrap());
        let config = Arc::new(self.config.clone());
        self.endpoint.set_server_config(Some(config));
    }

    /// Lets the server issue tokens and tickets, and permits or rejects 0-RTT.
    pub fn allow_early_data(&mut self, allowed: bool) {
        self.config
            .validation_token
            .sent(1)
            .log(Arc::new(EveryToken));
        self.change_tls(|tls| tls.max_early_data_size = if allowed { u32::MAX } else { 0 });
    }

    fn instant(&self) -> Instant {
        self.start + Duration::from_nanos(self.now)
    }

    /// Sends a datagram from the client (0) or the server (1).
    fn send(&mut self, from: usize, bytes: Vec<u8>) {
        let number = self.sent[from];
        self.sent[from] += 1;
        if from == 1 && self.now >= self.dies {
            return;
        }
        let fate = if (from, number) == (self.fate.0, self.fate.1) {
            self.fate.2
        } else {
            Fate::Arrives
        };
        let mut bytes = bytes;
        let mut at = self.now + DELAY;
        match fate {
            Fate::Lost => return,
            Fate::Twice => self.wire.push_back((at, from == 0, bytes.clone())),
            Fate::Late => at += MS,
            Fate::Broken => *bytes.last_mut().unwrap() ^= 1,
            Fate::Arrives => {}
        }
        self.wire.push_back((at, from == 0, bytes));
    }

    pub fn serve(&mut self, bytes: &[u8]) {
        if self.now >= self.dies {
            return;
        }
        let port = if self.served < self.moves { 999 } else { 1000 };
        let remote: SocketAddr = ([192, 0, 2, 1], port).into();
        self.served += 1;
        let mut buffer = Vec::new();
        let now = self.instant();
        let event =
            self.endpoint
                .handle(now, remote, None, None, BytesMut::from(bytes), &mut buffer);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => self.incoming(incoming, buffer),
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.server {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::Response(transmit)) => {
                self.send(1, buffer[..transmit.size].to_vec());
            }
            None => {}
        }
    }

    fn incoming(&mut self, incoming: Incoming, mut buffer: Vec<u8>) {
        let unproven = self.retry && !incoming.remote_address_validated();
        if unproven || self.retry_always && incoming.may_retry() {
            let transmit = self.endpoint.retry(incoming, &mut buffer).unwrap();
            return self.send(1, buffer[..transmit.size].to_vec());
        }
        let now = self.instant();
        match self.endpoint.accept(incoming, now, &mut buffer, None) {
            Ok(accepted) => self.server = Some(accepted),
            Err(refused) => {
                if let Some(transmit) = refused.response {
                    self.send(1, buffer[..transmit.size].to_vec());
                }
            }
        }
    }

    /// Lets the server process events and send.
    pub fn drive(&mut self) {
        let now = self.instant();
        let Some((handle, connection)) = &mut self.server else {
            return;
        };
        connection.handle_timeout(now);
        while let Some(event) = connection.poll() {
            if let Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) = event
                && !std::mem::replace(&mut self.answered, true)
            {
                answer(connection, self.answer, now);
            }
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        let mut buffer = Vec::new();
        let mut written = Vec::new();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
            written.push(buffer[..transmit.size].to_vec());
            buffer.clear();
        }
        while self.updates.front().is_some_and(|at| *at <= self.now) {
            self.updates.pop_front();
            connection.force_key_update();
            connection.ping();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buffer) {
                written.push(buffer[..transmit.size].to_vec());
                buffer.clear();
            }
        }
        written.into_iter().for_each(|bytes| self.send(1, bytes));
    }

    /// Runs a client until the connection has ended.
    pub fn run(&mut self, client: &mut Connection) {
        let mut room = [0; 2048];
        while self.now < 20_000 * MS {
            let mut passes = 0;
            while let Some(datagram) = client.transmit(self.now, &mut room).unwrap() {
                client.stamped(datagram.number, self.now as i64);
                self.send(0, room[..datagram.size].to_vec());
                passes += 1;
                assert!(passes < 20, "it sends without end");
            }
            self.drive();
            if client.is_over() && self.wire.is_empty() {
                return;
            }
            let arrival = self.wire.iter().map(|(at, ..)| *at).min();
            let timeout = self
                .server
                .as_mut()
                .and_then(|(_, server)| server.poll_timeout());
            let timeout = timeout.map(|at| (at - self.start).as_nanos() as Mono);
            let next = [
                arrival,
                client.next_at(),
                timeout.map(|at| at.max(self.now + 1)),
                self.updates.front().copied(),
            ];
            let Some(next) = next.into_iter().flatten().min() else {
                return;
            };
            self.now = self.now.max(next);
            if self.now >= self.suspended.0 {
                self.now = self.now.max(self.suspended.1);
            }
            let now = self.now;
            let (come, rest): (Vec<_>, Vec<_>) =
                self.wire.drain(..).partition(|(at, ..)| *at <= now);
            self.wire = rest.into();
            for (at, to_server, mut bytes) in come {
                if to_server {
                    self.serve(&bytes);
                } else {
                    client.receive(at as i64, Times { came: at, now }, &mut bytes);
                }
            }
            client.expire(self.now);
        }
    }
}

fn answer(connection: &mut quinn_proto::Connection, answer: Reaction, now: Instant) {
    let request = connection.streams().accept(Dir::Bi).unwrap();
    if let Some(control) = connection.streams().open(Dir::Uni) {
        connection.send_stream(control).write(&SETTINGS).unwrap();
    }
    let mut stream = connection.send_stream(request);
    match answer {
        Reaction::Response => {
            stream.write(&OK).unwrap();
            stream.finish().unwrap();
        }
        Reaction::Half => {
            stream.write(&OK[..3]).unwrap();
            stream.finish().unwrap();
        }
        Reaction::Broken => {
            stream.write(&[0x01, 0x03, 0x00, 0x00, 0x80]).unwrap();
        }
        Reaction::Reset => stream.reset(VarInt::from_u32(0x10c)).unwrap(),
        Reaction::Close => connection.close(now, VarInt::from_u32(0x105), "enough".into()),
        Reaction::Nothing => {}
    }
}
