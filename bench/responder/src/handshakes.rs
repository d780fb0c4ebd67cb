//! Completes QUIC handshakes with quinn-proto, each with one HTTP/3 response, as fast as this process can.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddrV4;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event,
    ServerConfig, StreamEvent, StreamId,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::PAUSE;
use crate::batch::{self, BATCH, Batch, Route};

/// Control stream: its type, and SETTINGS with a QPACK table of 0 (RFC 9114 6.2.1, 7.2.4).
const CONTROL: [u8; 5] = [0x00, 0x04, 0x02, 0x01, 0x00];

/// A header section with the static table of QPACK (RFC 9204 appendix A) and literal values: status 200, content-length
/// 0, server and alt-svc.
const RESPONSE: &[u8] = b"\x01\x1e\x00\x00\xd9\xc4\x5f\x4d\x0bfirstflight\x5f\x44\x09h3=\":443\"";

/// The state that all connections of the server share.
struct Server {
    endpoint: Endpoint,
    live: HashMap<ConnectionHandle, Live>,
    timers: BinaryHeap<Reverse<(Instant, usize)>>,
    /// Requests without a response, the oldest first.
    asked: VecDeque<(Instant, ConnectionHandle, StreamId)>,
    delay: Duration,
    buffer: Vec<u8>,
}

/// A connection and the route to the client.
struct Live {
    connection: Connection,
    route: Route,
    timer: Option<Instant>,
}

/// Serves forever on `listen` with the chain and the key of these PEM files; responds to a request `delay` after it
/// arrives.
pub fn serve(
    listen: SocketAddrV4,
    (chain, key): (&Path, &Path),
    delay: Duration,
) -> io::Result<()> {
    let mut server = Server::new(chain, key, delay).map_err(io::Error::other)?;
    let socket = batch::open(listen)?;
    println!("READY");
    io::stdout().flush()?;
    let (mut received, mut answers) = (Batch::new(BATCH), Answers::new(socket));
    loop {
        let came = match received.receive(&answers.socket) {
            Ok(came) => came,
            Err(e) if e.kind() == ErrorKind::WouldBlock => {
                std::thread::sleep(PAUSE);
                0
            }
            Err(e)
                if matches!(
                    e.kind(),
                    ErrorKind::Interrupted | ErrorKind::ConnectionRefused
                ) =>
            {
                0
            }
            Err(e) => return Err(e),
        };
        let now = Instant::now();
        for i in 0..came {
            let (message, route) = received.get(i);
            server.take(now, message, route, &mut answers)?;
        }
        server.due(now, &mut answers)?;
        answers.flush()?;
    }
}

/// Datagrams to send together.
struct Answers {
    socket: std::net::UdpSocket,
    batch: Batch,
    count: usize,
}

impl Answers {
    fn new(socket: std::net::UdpSocket) -> Self {
        Answers {
            socket,
            batch: Batch::new(BATCH),
            count: 0,
        }
    }

    fn put(&mut self, bytes: &[u8], route: &Route) -> io::Result<()> {
        if self.count == BATCH {
            self.flush()?;
        }
        self.batch.put(self.count, bytes, route);
        self.count += 1;
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        let count = std::mem::take(&mut self.count);
        self.batch.send(&self.socket, count)
    }
}

impl Server {
    fn new(chain: &Path, key: &Path, delay: Duration) -> Result<Self, String> {
        let shown = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let certificates = CertificateDer::pem_file_iter(chain)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(|e| shown(chain, &e))?;
        let secret = PrivateKeyDer::from_pem_file(key).map_err(|e| shown(key, &e))?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut tls = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .and_then(|tls| {
                tls.with_no_client_auth()
                    .with_single_cert(certificates, secret)
            })
            .map_err(|e| shown(chain, &e))?;
        // Like most servers, regardless of the features that other programs of this build enable.
        tls.cert_compressors.clear();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let crypto = QuicServerConfig::try_from(tls).map_err(|e| e.to_string())?;
        let config = Arc::new(ServerConfig::with_crypto(Arc::new(crypto)));
        let settings = Arc::new(EndpointConfig::default());
        Ok(Server {
            endpoint: Endpoint::new(settings, Some(config), true, None),
            live: HashMap::new(),
            timers: BinaryHeap::new(),
            asked: VecDeque::new(),
            delay,
            buffer: Vec::new(),
        })
    }

    /// Handles a datagram.
    fn take(
        &mut self,
        now: Instant,
        message: &[u8],
        route: Route,
        answers: &mut Answers,
    ) -> io::Result<()> {
        self.buffer.clear();
        let (peer, local) = (route.peer().into(), route.local().into());
        let bytes = BytesMut::from(message);
        let buffer = &mut self.buffer;
        match self
            .endpoint
            .handle(now, peer, Some(local), None, bytes, buffer)
        {
            Some(DatagramEvent::NewConnection(incoming)) => {
                match self.endpoint.accept(incoming, now, buffer, None) {
                    Ok((handle, connection)) => {
                        let live = Live {
                            connection,
                            route,
                            timer: None,
                        };
                        self.live.insert(handle, live);
                        self.drive(now, handle, answers)
                    }
                    Err(refused) => match refused.response {
                        Some(transmit) => answers.put(&self.buffer[..transmit.size], &route),
                        None => Ok(()),
                    },
                }
            }
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let Some(live) = self.live.get_mut(&handle) else {
                    return Ok(());
                };
                live.connection.handle_event(event);
                self.drive(now, handle, answers)
            }
            Some(DatagramEvent::Response(transmit)) => {
                answers.put(&self.buffer[..transmit.size], &route)
            }
            None => Ok(()),
        }
    }

    /// Handles all due events: timers of connections, responses to requests.
    fn due(&mut self, now: Instant, answers: &mut Answers) -> io::Result<()> {
        while self.asked.front().is_some_and(|(at, ..)| *at <= now) {
            let Some((_, handle, stream)) = self.asked.pop_front() else {
                break;
            };
            if let Some(live) = self.live.get_mut(&handle) {
                respond(&mut live.connection, stream);
                self.drive(now, handle, answers)?;
            }
        }
        while let Some(Reverse((at, number))) = self.timers.peek().copied() {
            if at > now {
                break;
            }
            self.timers.pop();
            let handle = ConnectionHandle(number);
            if let Some(live) = self.live.get_mut(&handle)
                && live.timer == Some(at)
            {
                live.timer = None;
                live.connection.handle_timeout(now);
                self.drive(now, handle, answers)?;
            }
        }
        Ok(())
    }

    /// Handles a connection's events and sends datagrams; removes it when it is drained.
    fn drive(
        &mut self,
        now: Instant,
        handle: ConnectionHandle,
        answers: &mut Answers,
    ) -> io::Result<()> {
        let Some(live) = self.live.get_mut(&handle) else {
            return Ok(());
        };
        let connection = &mut live.connection;
        while let Some(event) = connection.poll() {
            if let Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) = event
                && let Some(stream) = connection.streams().accept(Dir::Bi)
            {
                control(connection);
                if self.delay.is_zero() {
                    respond(connection, stream);
                } else {
                    self.asked.push_back((now + self.delay, handle, stream));
                }
            }
        }
        let mut drained = false;
        while let Some(event) = connection.poll_endpoint_events() {
            drained |= event.is_drained();
            if let Some(event) = self.endpoint.handle_event(handle, event) {
                connection.handle_event(event);
            }
        }
        self.buffer.clear();
        while let Some(transmit) = connection.poll_transmit(now, 1, &mut self.buffer) {
            answers.put(&self.buffer[..transmit.size], &live.route)?;
            self.buffer.clear();
        }
        if drained {
            self.live.remove(&handle);
        } else if let Some(at) = connection.poll_timeout()
            && live.timer != Some(at)
        {
            live.timer = Some(at);
            self.timers.push(Reverse((at, handle.0)));
        }
        Ok(())
    }
}

/// Sends SETTINGS, unless the client permits no stream.
fn control(connection: &mut Connection) {
    if let Some(stream) = connection.streams().open(Dir::Uni) {
        let _ = connection.send_stream(stream).write(&CONTROL);
    }
}

/// Sends the response, unless the client has stopped the stream.
fn respond(connection: &mut Connection, stream: StreamId) {
    let mut stream = connection.send_stream(stream);
    if stream.write(RESPONSE).is_ok() {
        let _ = stream.finish();
    }
}
