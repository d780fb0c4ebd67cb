//! Connections to a real server without I/O (quinn-proto). Each datagram may be lost, late, duplicated, reordered or
//! damaged.

mod acknowledgements;
mod certificates;
mod idle;
mod key_updates;
mod noise;
mod paths;
mod permuted;
mod rules;
mod versions;

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use firstflight_core::clock::Mono;
use firstflight_wire::{LongHeader, PacketType, build_packet, write_ping};
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, Incoming, ServerConfig,
    StreamEvent, VarInt,
};
use rustls::Side;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::*;
use crate::outcome::Stage;
use crate::request::{Requests, control};
use crate::tls::{KeyShare, Verify};

const MS: Mono = 1_000_000;
/// One-way delay.
const DELAY: Mono = 10 * MS;
const CLIENT: [u8; 8] = [7; 8];
/// HEADERS for a response with status 200 and nothing else.
const OK: [u8; 5] = [0x01, 0x03, 0x00, 0x00, 0xd9];
/// Control stream with empty SETTINGS.
const SETTINGS: [u8; 3] = [0x00, 0x04, 0x00];

/// A datagram's treatment in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Arrives,
    Lost,
    Twice,
    /// Arrives a millisecond after the datagrams that were sent later.
    Late,
    /// The last bit is flipped.
    Broken,
}

/// A server, the path to it, and the time.
struct World {
    endpoint: Endpoint,
    server: Option<(ConnectionHandle, quinn_proto::Connection)>,
    start: Instant,
    now: Mono,
    /// Datagrams in transit: arrival time, whether to the server, bytes.
    wire: VecDeque<(Mono, bool, Vec<u8>)>,
    /// Number of datagrams sent by the client, by the server.
    sent: [usize; 2],
    /// A datagram's sender (0: client, 1: server), number of the datagram, and the treatment.
    fate: (usize, usize, Fate),
    retry: bool,
    /// Sends a Retry even if a token of NEW_TOKEN proves the address.
    retry_always: bool,
    answer: Reaction,
    answered: bool,
    /// The client's datagrams have another source port from this number on.
    moves: usize,
    /// Datagrams that reached the server.
    served: usize,
    /// The server sends and receives nothing from this time on.
    dies: Mono,
    /// Both endpoints are suspended between these times. Datagrams still arrive.
    suspended: (Mono, Mono),
    /// When the server updates its keys, and sends a PING with the new ones.
    updates: VecDeque<Mono>,
    tls: rustls::ServerConfig,
    config: ServerConfig,
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
enum Reaction {
    Response,
    Nothing,
    Close,
    Reset,
    Broken,
    Half,
}

fn authority() -> &'static (Vec<u8>, Vec<u8>) {
    static MADE: std::sync::OnceLock<(Vec<u8>, Vec<u8>)> = std::sync::OnceLock::new();
    MADE.get_or_init(|| {
        let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
        (made.cert.der().to_vec(), made.signing_key.serialize_der())
    })
}

/// A server configuration with `chain_length` copies of the certificate in the chain, and this OCSP response.
fn tls_with(chain_length: usize, ocsp: &[u8]) -> rustls::ServerConfig {
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
    fn new(alpn: &[u8]) -> World {
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
    fn change_tls(&mut self, change: impl FnOnce(&mut rustls::ServerConfig)) {
        change(&mut self.tls);
        self.config.crypto = Arc::new(QuicServerConfig::try_from(self.tls.clone()).unwrap());
        let config = Arc::new(self.config.clone());
        self.endpoint.set_server_config(Some(config));
    }

    /// Lets the server issue tokens and tickets, and permits or rejects 0-RTT.
    fn allow_early_data(&mut self, allowed: bool) {
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

    fn serve(&mut self, bytes: &[u8]) {
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
    fn drive(&mut self) {
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
    fn run(&mut self, client: &mut Connection) {
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

fn context(key_share: KeyShare, verify: Verify) -> Arc<Context> {
    Arc::new(Context {
        tls: Tls::new(key_share, verify, None, false).unwrap(),
        versions: vec![Version::V1],
        control: control().unwrap().into(),
        contact: b"me@example.org".to_vec(),
        timeout: 10_000 * MS,
    })
}

fn client_with(context: Arc<Context>) -> Connection {
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let requests = Requests::new("/".to_owned(), "test".to_owned());
    let request = requests.to("a.test", (ip, 443).into());
    Connection::new(context, ("a.test", ip), (CLIENT, [8; 8]), request, 1252, 0).unwrap()
}

fn client() -> Connection {
    client_with(context(KeyShare::X25519, Verify::Signature))
}

/// Returns a milestone's time, in one-way delays.
fn delays(milestone: observed::Milestone) -> Option<u64> {
    milestone.map(|(at, _)| at as u64 / DELAY)
}

#[test]
fn a_handshake_and_a_response_take_two_round_trips() {
    for (key_share, first_flight) in [(KeyShare::X25519, 1), (KeyShare::X25519mlkem768, 2)] {
        let mut world = World::new(b"h3");
        let mut client = client_with(context(key_share, Verify::Signature));
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, observed.stage()),
            (Some(Outcome::Done), Stage::Response)
        );
        assert_eq!(client.http(), Http::Response);
        assert_eq!(
            (delays(observed.ack), delays(observed.hello)),
            (Some(2), Some(2))
        );
        assert_eq!(
            (delays(observed.certificate), delays(observed.handshake)),
            (Some(2), Some(2))
        );
        let later = [observed.confirmed, observed.settings, observed.response].map(delays);
        assert_eq!(later, [Some(4); 3]);
        assert_eq!(observed.retransmissions, 0);
        assert_eq!(observed.sent_unvalidated.datagrams, first_flight);
        assert!(observed.first_flight.bytes > 500, "{key_share:?}");
        assert_eq!(observed.first_flight, observed.received_unvalidated);
        assert_eq!(
            observed.received_handshake,
            Some(observed.first_flight.bytes)
        );
        assert!(observed.received.bytes > observed.first_flight.bytes);
        assert_eq!(
            observed.rtt.map(|(first, ..)| first),
            Some(2 * DELAY as i64)
        );
        assert_eq!(client.note.signature_valid, Some(true));
        assert!(
            observed.discarded == 0 && observed.detail.is_none(),
            "{observed:?}"
        );
        // The server has received our close.
        let (_, server) = world.server.as_mut().unwrap();
        assert!(server.is_drained() || server.is_closed());
    }
}

#[test]
fn an_ack_of_half_a_client_hello_is_told_from_one_of_all() {
    use KeyShare::{X25519, X25519mlkem768};
    for (key_share, fate, number, acked, answers) in [
        (X25519, Fate::Arrives, 0, vec![1], ["coalesced"; 2]),
        (
            X25519mlkem768,
            Fate::Arrives,
            0,
            vec![1, 2],
            ["coalesced"; 2],
        ),
        // For a millisecond, the server has only half of the ClientHello.
        (
            X25519mlkem768,
            Fate::Late,
            0,
            vec![2],
            ["coalesced", "iack"],
        ),
        (
            X25519mlkem768,
            Fate::Late,
            1,
            vec![1],
            ["coalesced", "iack"],
        ),
    ] {
        let mut world = World::new(b"h3");
        world.fate = (0, number, fate);
        let mut client = client_with(context(key_share, Verify::Signature));
        world.run(&mut client);
        let observed = &client.observed;
        let datagrams = key_share.hello_datagrams() as u8;
        assert_eq!(
            (observed.outcome, observed.hello_datagrams),
            (Some(Outcome::Done), datagrams)
        );
        assert_eq!(
            observed.first_acked, acked,
            "{key_share:?} {fate:?} {number}"
        );
        let covers = acked.len() == usize::from(datagrams);
        assert_eq!(observed.ack_covers_hello, Some(covers));
        let found = [observed.first_answer(), observed.first_answer_any_ack()];
        assert_eq!(found, answers.map(Some), "{key_share:?} {fate:?} {number}");
        assert_eq!(observed.first_ack == observed.ack, covers);
    }
}

#[test]
fn datagrams_of_a_client_hello_are_counted_once_and_again_after_a_retry() {
    for (retry, fate) in [(false, Fate::Lost), (true, Fate::Arrives)] {
        let mut world = World::new(b"h3");
        world.retry = retry;
        world.fate = (0, 1, fate);
        let mut client = client_with(context(KeyShare::X25519mlkem768, Verify::None));
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, observed.retry),
            (Some(Outcome::Done), retry)
        );
        assert_eq!(observed.hello_datagrams, 2, "retry: {retry}");
        assert_eq!(observed.first_acked.first(), Some(&1), "retry: {retry}");
    }
}

#[test]
fn a_server_of_another_protocol_is_asked_nothing() {
    let mut world = World::new(b"hq-interop");
    let offer = ["h3".to_owned(), "hq-interop".to_owned()];
    let shared = context(KeyShare::X25519, Verify::None);
    let tls = Tls::new(KeyShare::X25519, Verify::None, None, false).unwrap();
    let shared = Arc::new(Context {
        tls: tls.with_hello(&offer, false),
        versions: vec![Version::V1],
        control: shared.control.clone(),
        contact: Vec::new(),
        timeout: shared.timeout,
    });
    let mut client = client_with(shared);
    world.run(&mut client);
    let observed = &client.observed;
    assert_eq!(
        (observed.outcome, observed.stage()),
        (Some(Outcome::Done), Stage::Confirmed)
    );
    assert_eq!(client.http(), Http::NotOffered);
    assert!(!client.names_server && !world.answered);
    let (_, server) = world.server.as_mut().unwrap();
    let session = server.crypto_session().handshake_data().unwrap();
    let data = session
        .downcast::<quinn_proto::crypto::rustls::HandshakeData>()
        .unwrap();
    assert_eq!(
        (data.protocol.as_deref(), data.server_name),
        (Some(&b"hq-interop"[..]), None)
    );
}

#[test]
fn what_is_not_checked_is_unknown() {
    let mut client = client_with(context(KeyShare::X25519, Verify::None));
    World::new(b"h3").run(&mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::Done));
    assert_eq!(client.note.signature_valid, None);
}

#[test]
fn no_single_datagram_is_needed_more_than_once() {
    for from in [0, 1] {
        for number in 0..6 {
            for fate in [Fate::Lost, Fate::Twice, Fate::Late, Fate::Broken] {
                let mut world = World::new(b"h3");
                world.fate = (from, number, fate);
                let mut client = client();
                world.run(&mut client);
                let observed = &client.observed;
                assert_eq!(
                    (observed.outcome, client.http()),
                    (Some(Outcome::Done), Http::Response),
                    "{fate:?} {number} of {from}: {observed:?}"
                );
                let milestones = [observed.hello, observed.handshake, observed.response];
                let times = milestones.map(|milestone| milestone.map(|(at, _)| at));
                assert!(times.is_sorted(), "{fate:?} {number} of {from}: {times:?}");
            }
        }
    }
}

#[test]
fn a_retry_is_followed_and_times_begin_again() {
    let mut world = World::new(b"h3");
    world.retry = true;
    let mut client = client();
    world.run(&mut client);
    let observed = &client.observed;
    assert_eq!(
        (observed.outcome, observed.retry),
        (Some(Outcome::Done), true)
    );
    assert_eq!(client.sent_at(), Some(2 * DELAY as i64));
    assert_eq!(
        (delays(observed.hello), delays(observed.response)),
        (Some(4), Some(6))
    );
    assert_eq!(observed.first_flight.datagrams, 1);
}

#[test]
fn what_becomes_of_the_request() {
    for (answer, http, close) in [
        (Reaction::Nothing, Http::NoResponse, None),
        (Reaction::Close, Http::NoResponse, Some(0x105)),
        (Reaction::Reset, Http::Reset, None),
        (Reaction::Broken, Http::Malformed, None),
        (Reaction::Half, Http::Incomplete, None),
    ] {
        let mut world = World::new(b"h3");
        world.answer = answer;
        let mut client = client();
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, client.http()),
            (Some(Outcome::Done), http),
            "{answer:?}"
        );
        let found = observed.close.as_ref();
        assert_eq!(found.map(|close| close.code), close, "{answer:?}");
        assert!(found.is_none_or(|close| close.by_application && close.reason == "enough"));
    }
}

#[test]
fn a_server_without_http3_ends_the_handshake_by_an_alert() {
    let mut world = World::new(b"other");
    let mut client = client();
    world.run(&mut client);
    let observed = &client.observed;
    assert_eq!(observed.outcome, Some(Outcome::HandshakeFailed));
    // no_application_protocol (RFC 9001 8.1).
    assert_eq!(observed.alert, Some((120, observed::By::Server)));
}

#[test]
fn a_server_that_never_answers_is_sent_little() {
    let mut client = client();
    let (mut now, mut sent, mut room) = (0, 0, [0; 2048]);
    while !client.is_over() {
        while client.transmit(now, &mut room).unwrap().is_some() {
            sent += 1;
        }
        now = client.next_at().unwrap().max(now);
        client.expire(now);
    }
    assert_eq!(client.observed.outcome, Some(Outcome::Timeout));
    assert_eq!((now, sent), (10_000 * MS, 4), "after 1, 3 and 7 seconds");
    assert_eq!(client.transmit(now, &mut room), Ok(None), "nobody to close");
}

#[test]
fn a_server_that_floods_is_sent_little() {
    let (mut client, mut room) = (client(), [0; 2048]);
    let suite = TLS13_AES_128_GCM_SHA256.tls13().unwrap();
    let (v1, cid) = (quic::Version::V1, client.original);
    let keys = quic::Keys::initial(v1, suite, suite.quic.unwrap(), cid.as_slice(), Side::Server);
    let keys = SpaceKeys::from(keys);
    let (mut now, mut sent) = (0, 0);
    for packet_number in 0..2000 {
        while client.transmit(now, &mut room).unwrap().is_some() {
            sent += 1;
        }
        now += MS;
        let header = LongHeader {
            kind: PacketType::Initial,
            version: Version::V1,
            dcid: client.client_cid.into(),
            scid: [1; 8].into(),
            token: &[],
            packet_number,
            pn_len: 2,
        };
        let size = build_packet(&mut room, &header, &keys, None, write_ping).unwrap();
        client.receive(
            packet_number as i64,
            Times { came: now, now },
            &mut room[..size],
        );
        client.expire(now);
    }
    assert_eq!(client.observed.outcome, None);
    // A probe after a second, and the acknowledgements.
    assert!((100..=202).contains(&sent), "{sent}");
}

#[test]
fn an_unreachable_port_ends_only_what_was_never_answered() {
    let mut unanswered = client();
    unanswered.icmp(3, 1, false);
    assert_eq!(unanswered.observed.outcome, None);
    unanswered.icmp(3, 3, true);
    assert_eq!(unanswered.observed.outcome, Some(Outcome::Refused));
    assert_eq!(unanswered.observed.icmp, Some((3, 1)));
    let mut answered = client();
    answered.server_cid = Some([1; 8].into());
    answered.icmp(3, 3, true);
    assert_eq!(answered.observed.outcome, None);
}

#[test]
fn what_a_server_says_is_kept_in_part_if_it_is_long() {
    let answer = |bytes: &mut [u8], client: &mut Connection| {
        client.receive(1, Times { came: MS, now: MS }, bytes)
    };
    let mut negotiation = [0; 8192];
    let versions = vec![Version::V2; 1000];
    let size = firstflight_wire::write_version_negotiation(
        &mut negotiation,
        &CLIENT.into(),
        &[8; 8].into(),
        &versions,
        0,
    )
    .unwrap();
    let mut client = client();
    answer(&mut negotiation[..size], &mut client);
    assert_eq!(client.observed.outcome, Some(Outcome::VersionNegotiation));
    let list = client.observed.versions.unwrap();
    assert_eq!(list.split(',').count(), 64);
}

#[test]
fn no_bytes_make_it_panic() {
    // A small generator is enough, if every byte is changed and every length is cut.
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state as usize
    };
    let shared = context(KeyShare::X25519, Verify::None);
    for _ in 0..300 {
        let mut world = World::new(b"h3");
        let mut client = client_with(shared.clone());
        let mut room = [0; 2048];
        for round in 0..4 {
            while let Some(datagram) = client.transmit(world.now, &mut room).unwrap() {
                world.serve(&room[..datagram.size]);
            }
            world.drive();
            world.now += 30 * MS;
            for (_, _, mut bytes) in std::mem::take(&mut world.wire) {
                if random() % 3 == 0 {
                    let place = random() % bytes.len();
                    bytes[place] ^= random() as u8;
                }
                if random() % 5 == 0 {
                    bytes.truncate(random() % (bytes.len() + 1));
                }
                client.receive(
                    round,
                    Times {
                        came: world.now,
                        now: world.now,
                    },
                    &mut bytes,
                );
            }
            client.expire(world.now);
        }
    }
}

/// A server that issues tokens and tickets for 0-RTT, and accepts or rejects 0-RTT.
fn resuming_world(early_data: bool) -> World {
    let mut world = World::new(b"h3");
    world.allow_early_data(early_data);
    world
}

fn second(world: &mut World, first: &mut Connection) -> Connection {
    world.server = None;
    world.answered = false;
    let ip = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let request = Requests::new("/".to_owned(), "test".to_owned()).to("a.test", (ip, 443).into());
    let memory = first.memory();
    assert!(memory.is_some(), "{:?}", first.observed);
    let shared = first.context.clone();
    let cids = ([6; 8], [5; 8]);
    Connection::begin(
        shared,
        ("a.test", ip),
        cids,
        request,
        1252,
        world.now,
        memory,
    )
    .unwrap()
}

fn remembering() -> Connection {
    let tls = Tls::new(KeyShare::X25519, Verify::Signature, None, false).unwrap();
    client_with(Arc::new(Context {
        tls: tls.with_tickets(true),
        versions: vec![Version::V1],
        control: control().unwrap().into(),
        contact: Vec::new(),
        timeout: 10_000 * MS,
    }))
}

#[test]
fn a_second_connection_asks_in_its_first_flight() {
    for (permitted, accepted, early) in [
        (true, true, Some(true)),
        (true, false, Some(false)),
        (false, false, None),
    ] {
        let mut world = resuming_world(permitted);
        let mut first = remembering();
        world.run(&mut first);
        assert_eq!(first.observed.outcome, Some(Outcome::Done));
        assert_eq!(
            (first.observed.early_data, first.again),
            (permitted, Again::default())
        );
        world.allow_early_data(accepted);
        let begun = world.now;
        let mut client = second(&mut world, &mut first);
        world.run(&mut client);
        let (observed, again) = (&client.observed, &client.again);
        assert_eq!(
            (observed.outcome, client.http()),
            (Some(Outcome::Done), Http::Response),
            "{observed:?}"
        );
        assert!(again.ticket && again.token && again.resumed == Some(true));
        assert_eq!(again.early_data, early, "{permitted} {accepted}");
        let passed = |at: observed::Milestone| at.map(|(at, _)| (at as u64 - begun) / DELAY);
        let response = if early == Some(true) { 2 } else { 4 };
        assert_eq!(
            (passed(observed.hello), passed(observed.response)),
            (Some(2), Some(response))
        );
        assert!(client.certificate().is_none() && client.note.signature_valid.is_none());
        assert!(
            client.memory().is_none(),
            "nothing is kept of a second connection"
        );
    }
}

#[test]
fn a_second_connection_survives_the_loss_of_any_datagram_and_a_retry() {
    let losses = [0, 1]
        .into_iter()
        .flat_map(|from| (0..5).map(move |number| (from, number)));
    for (retry, lost) in losses
        .map(|lost| (false, lost))
        .chain([(true, (0, usize::MAX))])
    {
        let mut world = resuming_world(true);
        let mut first = remembering();
        world.run(&mut first);
        (world.sent, world.retry_always) = ([0; 2], retry);
        world.fate = (lost.0, lost.1, Fate::Lost);
        let mut client = second(&mut world, &mut first);
        world.run(&mut client);
        let observed = &client.observed;
        assert_eq!(
            (observed.outcome, client.http(), observed.retry),
            (Some(Outcome::Done), Http::Response, retry),
            "{lost:?} {observed:?}"
        );
        assert_eq!(client.again.early_data, Some(true), "{lost:?}");
    }
}

#[test]
fn nothing_is_kept_unless_it_is_asked_for() {
    let mut client = client();
    resuming_world(true).run(&mut client);
    assert!(client.observed.tickets > 0 && client.memory().is_none());
}
