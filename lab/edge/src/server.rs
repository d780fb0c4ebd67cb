//! From datagrams to connections, and the instants at which their answers leave.

use crate::behaviour::{Behaviour, Mode};
use crate::connection::{Connection, DATAGRAM_BYTES};
use crate::tls::{self, Allowed, SharedGate};
use crate::token::Tokens;
use boring::rand::rand_bytes;
use firstflight_listener::{Arrival, Config, Host, Releases, Routes, Sockets};
use quiche::{ConnectionId, Header, PROTOCOL_VERSION, Type};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The length of the connection IDs that this server chooses.
const CID_BYTES: usize = 16;
/// Clients pad datagrams with Initials to this size (RFC 9000, 14.1).
const MIN_INITIAL_BYTES: usize = 1200;
const IDLE: Duration = Duration::from_secs(5);
/// TLS work starts this long before its datagrams leave: it takes 0.2 ms, and other connections
/// may be in the way.
const LEAD: Duration = Duration::from_micros(1500);
/// A release this near is waited for before TLS work of another connection begins.
const NEAR: Duration = Duration::from_micros(400);

/// A client's address and a connection ID that it uses: what a datagram is recognised by.
type Key = (SocketAddr, Vec<u8>);

struct Known {
    connection: Connection,
    keys: [Key; 2],
}

enum Wake {
    /// quiche's own timer: retransmission or idle.
    Timer(u64),
    /// The keys of a connection that is over: copies of its packets have arrived by now.
    Forget(u64, [Key; 2]),
}

pub struct Edge {
    routes: Routes<Behaviour>,
    quic: quiche::Config,
    gate: SharedGate,
    tokens: Tokens,
    connections: HashMap<u64, Known>,
    /// Holds the keys of connections that are over for a while, so that late packets do not open them again.
    by_key: HashMap<Key, u64>,
    next_id: u64,
    releases: Releases<u64>,
    /// (connection, its release) whose TLS work is to be done.
    preparations: Releases<(u64, Instant)>,
    wakes: Releases<Wake>,
}

impl Edge {
    /// Reads the certificates and checks every endpoint. Errors are sentences for a person.
    pub fn new(config: &Config) -> Result<Self, String> {
        let gate = SharedGate::default();
        let context = tls::context(config.certificates.iter(), &gate)?;
        let configured = |error: quiche::Error| format!("quiche cannot be set up: {error}");
        let mut quic = quiche::Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, context)
            .map_err(configured)?;
        quic.set_application_protos(&[b"h3"]).map_err(configured)?;
        quic.set_max_idle_timeout(IDLE.as_millis() as u64);
        quic.set_max_send_udp_payload_size(DATAGRAM_BYTES);
        quic.set_initial_max_data(1 << 20);
        quic.set_initial_max_stream_data_bidi_remote(1 << 18);
        quic.set_initial_max_stream_data_uni(1 << 18);
        quic.set_initial_max_streams_bidi(100);
        quic.set_initial_max_streams_uni(3);
        let mut key = [0; 32];
        rand_bytes(&mut key).map_err(|error| format!("no random numbers: {error}"))?;
        Ok(Self {
            routes: Routes::new(config, |endpoint| Behaviour::of(endpoint, config))?,
            quic,
            gate,
            tokens: Tokens::new(key, Instant::now()),
            connections: HashMap::new(),
            by_key: HashMap::new(),
            next_id: 0,
            releases: Releases::default(),
            preparations: Releases::default(),
            wakes: Releases::default(),
        })
    }

    /// A first Initial: version, token, then the ClientHello, whose SNI decides everything else.
    fn first(&mut self, sockets: &Sockets, arrival: Arrival, header: &Header, bytes: &mut [u8]) {
        if bytes.len() < MIN_INITIAL_BYTES {
            return;
        }
        let mut out = [0_u8; DATAGRAM_BYTES];
        if !quiche::version_is_supported(header.version) {
            if let Ok(length) = quiche::negotiate_version(&header.scid, &header.dcid, &mut out) {
                sockets.send(arrival.local, arrival.peer, &out[..length]);
            }
            return;
        }
        if header.ty != Type::Initial {
            return;
        }
        let token = header.token.as_deref().unwrap_or_default();
        let validated = self
            .tokens
            .check(arrival.peer, token, &header.dcid, arrival.at)
            .map(ConnectionId::from_vec);
        let mut scid = [0_u8; CID_BYTES];
        if rand_bytes(&mut scid).is_err() {
            return;
        }
        // After a Retry the client already uses the connection ID that the Retry chose.
        let scid = match validated {
            Some(_) => header.dcid.clone(),
            None => ConnectionId::from_ref(&scid),
        };
        let Ok(quic) = quiche::accept(
            &scid,
            validated.as_ref(),
            arrival.local,
            arrival.peer,
            &mut self.quic,
        ) else {
            return;
        };
        // Any behaviour will do until the ClientHello has been seen: nothing is allowed yet.
        let Some(behaviour) = self.routes.find(arrival.local.ip(), None) else {
            return;
        };
        let mut connection = Connection::new(quic, arrival.local, arrival.peer, behaviour);
        let answerable = read_hello(&self.gate, &self.routes, &mut connection, bytes);
        if answerable && connection.behaviour.wants_retry() && validated.is_none() {
            let token = self
                .tokens
                .mint(arrival.peer, &header.dcid, &scid, arrival.at);
            if let Some(token) = token
                && let Ok(length) = quiche::retry(
                    &header.scid,
                    &header.dcid,
                    &scid,
                    &token,
                    header.version,
                    &mut out,
                )
            {
                sockets.send(arrival.local, arrival.peer, &out[..length]);
            }
            return;
        }
        if connection.quic.is_closed() {
            return;
        }
        let id = self.next_id;
        self.next_id += 1;
        let keys = [
            (arrival.peer, header.dcid.to_vec()),
            (arrival.peer, scid.to_vec()),
        ];
        for key in &keys {
            self.by_key.insert(key.clone(), id);
        }
        self.connections.insert(id, Known { connection, keys });
        if answerable {
            self.answer(sockets, id, arrival.at);
        }
        self.settle(sockets, id);
    }

    /// Does what the endpoint's mode says at once, and queues the rest.
    fn answer(&mut self, sockets: &Sockets, id: u64, arrived: Instant) {
        let Some(known) = self.connections.get_mut(&id) else {
            return;
        };
        let connection = &mut known.connection;
        let delay = connection.behaviour.delay;
        let two_steps = match connection.behaviour.mode {
            Mode::InstantAck | Mode::RetryInstantAck => {
                connection.allowed = Allowed::Nothing;
                true
            }
            Mode::ServerHelloThenCertificate => {
                connection.allowed = Allowed::ServerHello;
                true
            }
            Mode::Wait | Mode::Retry | Mode::HelloRetry => false,
        };
        if two_steps {
            connection.flush(&self.gate, sockets);
            let release = Instant::now() + delay;
            let prepare = release.checked_sub(LEAD).unwrap_or(release);
            self.preparations.push(prepare, (id, release));
        } else if delay.is_zero() {
            connection.release(&self.gate, sockets);
        } else {
            connection.silent = true;
            self.releases.push(arrived + delay, id);
        }
    }

    /// After anything happened to a connection: send, queue its timer, or forget it when it is over.
    fn settle(&mut self, sockets: &Sockets, id: u64) {
        let Some(known) = self.connections.get_mut(&id) else {
            return;
        };
        let connection = &mut known.connection;
        connection.flush(&self.gate, sockets);
        if connection.is_over() {
            if let Some(known) = self.connections.remove(&id) {
                self.wakes
                    .push(Instant::now() + IDLE, Wake::Forget(id, known.keys));
            }
            return;
        }
        if let Some(at) = connection.quic.timeout_instant()
            && connection.armed.is_none_or(|armed| at < armed)
        {
            connection.armed = Some(at);
            self.wakes.push(at, Wake::Timer(id));
        }
    }

    fn wake(&mut self, sockets: &Sockets, wake: Wake, now: Instant) {
        match wake {
            Wake::Forget(id, keys) => {
                for key in keys {
                    // The key may belong to a younger connection by now.
                    if self.by_key.get(&key) == Some(&id) {
                        self.by_key.remove(&key);
                    }
                }
            }
            Wake::Timer(id) => {
                let Some(known) = self.connections.get_mut(&id) else {
                    return;
                };
                let connection = &mut known.connection;
                connection.armed = None;
                if connection
                    .quic
                    .timeout_instant()
                    .is_some_and(|at| at <= now)
                {
                    connection.quic.on_timeout();
                }
                self.settle(sockets, id);
            }
        }
    }

    fn release(&mut self, sockets: &Sockets, id: u64) {
        if let Some(known) = self.connections.get_mut(&id) {
            known.connection.release(&self.gate, sockets);
        }
        self.settle(sockets, id);
    }

    fn prepare(&mut self, id: u64, release: Instant) {
        if let Some(known) = self.connections.get_mut(&id) {
            known.connection.prepare(&self.gate);
            self.releases.push(release, id);
        }
    }

    /// The preparation to do now, unless a release is so near that it would come late.
    fn preparation_is_due(&self, now: Instant) -> bool {
        let release_is_near = self.releases.next_at().is_some_and(|at| at < now + NEAR);
        self.preparations.next_at().is_some_and(|at| at <= now) && !release_is_near
    }
}

/// Gives a datagram to a connection that may not answer yet. Once the ClientHello is whole, the connection
/// gets the behaviour of its SNI: then true.
fn read_hello(
    gate: &SharedGate,
    routes: &Routes<Behaviour>,
    connection: &mut Connection,
    bytes: &mut [u8],
) -> bool {
    gate.lock().hello_seen = false;
    connection.receive(gate, bytes);
    let (seen, sni) = {
        let mut gate = gate.lock();
        (gate.hello_seen, gate.sni.take())
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

impl Host for Edge {
    fn arrived(&mut self, sockets: &Sockets, arrival: Arrival, bytes: &mut [u8]) {
        let Ok(header) = Header::from_slice(bytes, CID_BYTES) else {
            return;
        };
        let key = (arrival.peer, header.dcid.to_vec());
        let Some(&id) = self.by_key.get(&key) else {
            if header.ty != Type::Short {
                self.first(sockets, arrival, &header, bytes);
            }
            return;
        };
        let Some(known) = self.connections.get_mut(&id) else {
            return;
        };
        let connection = &mut known.connection;
        if connection.hello_read {
            connection.receive(&self.gate, bytes);
        } else if read_hello(&self.gate, &self.routes, connection, bytes) {
            self.answer(sockets, id, arrival.at);
        }
        self.settle(sockets, id);
    }

    fn next_due(&mut self) -> Option<Instant> {
        [
            self.releases.next_at(),
            self.preparations.next_at(),
            self.wakes.next_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn due(&mut self, sockets: &Sockets, now: Instant) {
        let mut now = now;
        loop {
            if let Some(id) = self.releases.pop_due(now) {
                self.release(sockets, id);
            } else if self.preparation_is_due(now) {
                if let Some((id, release)) = self.preparations.pop_due(now) {
                    self.prepare(id, release);
                }
            } else if let Some(wake) = self.wakes.pop_due(now) {
                self.wake(sockets, wake, now);
            } else {
                return;
            }
            now = Instant::now();
        }
    }
}
