//! Assigns datagrams to connections and releases their answers in time.

mod accept;

use crate::behaviour::{Behaviour, Mode, PROTOCOL};
use crate::buffer::Limits;
use crate::connection::Sending;
use crate::http::Answers;
use crate::log::Log;
use crate::table::{Connections, Id};
use crate::tls::{self, Allowed, SharedProgress};
use crate::token::Tokens;
use boring::rand::rand_bytes;
use firstflight_listener::{
    Arrival, Config, DATAGRAM_BYTES, Host, Releases, Routes, Sockets, Transport,
};
use quiche::{CongestionControlAlgorithm, Header, PROTOCOL_VERSION, Type};
use std::time::{Duration, Instant};

/// The length of the connection IDs that this server chooses.
const CID_BYTES: usize = 16;
const IDLE: Duration = Duration::from_secs(5);
/// TLS work starts this long before the datagrams are sent, because it takes 0.2 ms and other connections may delay
/// it.
const LEAD: Duration = Duration::from_micros(1500);
/// TLS work of another connection waits for a release that is nearer than this.
const NEAR: Duration = Duration::from_micros(400);

pub struct Edge {
    routes: Routes<Behaviour>,
    quic: quiche::Config,
    progress: SharedProgress,
    tokens: Tokens,
    answers: Answers,
    connections: Connections,
    releases: Releases<Id>,
    /// Connections with due TLS work, and their releases.
    preparations: Releases<(Id, Instant)>,
    /// Connections with a timer of quiche (retransmission or idle) or a due answer.
    timers: Releases<Id>,
    sending: Sending,
    log: Option<Log>,
}

impl Edge {
    /// Reads the certificates and checks every endpoint. Errors are sentences for display.
    pub fn new(config: &Config) -> Result<Self, String> {
        let others = Transport {
            congestion_control: None,
            launch_clock: None,
            gso: false,
            gso_segments: None,
            gso_paced: false,
            log: None,
            ..config.transport.clone()
        };
        others.refuse()?;
        let sending = sending(&config.transport)?;
        let log = config
            .transport
            .log
            .as_deref()
            .map(Log::create)
            .transpose()?;
        let progress = SharedProgress::default();
        let context = tls::context(config.certificates.iter(), &progress)?;
        let configured = |error: quiche::Error| format!("quiche cannot be set up: {error}");
        let mut quic = quiche::Config::with_boring_ssl_ctx_builder(PROTOCOL_VERSION, context)
            .map_err(configured)?;
        quic.set_application_protos(&[PROTOCOL.as_bytes()])
            .map_err(configured)?;
        if let Some(name) = &config.transport.congestion_control {
            quic.set_cc_algorithm(controller(name)?);
        }
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
            progress,
            tokens: Tokens::new(key, Instant::now()),
            answers: Answers::new(config)?,
            connections: Connections::default(),
            releases: Releases::default(),
            preparations: Releases::default(),
            timers: Releases::default(),
            sending,
            log,
        })
    }

    /// Does the immediate work of the endpoint's mode, and queues the rest.
    fn answer(&mut self, sockets: &Sockets, id: Id, arrived: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
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
            connection.flush(&self.progress, sockets);
            let release = Instant::now() + delay;
            let prepare = release.checked_sub(LEAD).unwrap_or(release);
            self.preparations.push(prepare, (id, release));
        } else if delay.is_zero() {
            connection.release(&self.progress, sockets);
        } else {
            connection.silent = true;
            self.releases.push(arrived + delay, id);
        }
    }

    /// Updates a connection after an event: sends, queues the timer, or removes it if it is closed.
    fn settle(&mut self, sockets: &Sockets, id: Id) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let number = connection.behaviour.endpoint;
        connection
            .http
            .advance(&mut connection.quic, &self.answers, number, Instant::now());
        connection.flush(&self.progress, sockets);
        if connection.is_over() {
            connection.flush_log();
            self.connections.bury(id, Instant::now() + IDLE);
            return;
        }
        let due = [
            connection.quic.timeout_instant(),
            connection.http.next_at(),
            connection.paced_until,
        ];
        if let Some(at) = due.into_iter().flatten().min()
            && connection.armed.is_none_or(|armed| at < armed)
        {
            connection.armed = Some(at);
            self.timers.push(at, id);
        }
    }

    fn timer(&mut self, sockets: &Sockets, id: Id, now: Instant) {
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        connection.armed = None;
        let due = connection.quic.timeout_instant();
        if due.is_some_and(|at| at <= now) {
            connection.quic.on_timeout();
            connection.note_window(now);
        }
        self.settle(sockets, id);
    }

    fn release(&mut self, sockets: &Sockets, id: Id) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.release(&self.progress, sockets);
        }
        self.settle(sockets, id);
    }

    fn prepare(&mut self, id: Id, release: Instant) {
        if let Some(connection) = self.connections.get_mut(id) {
            connection.prepare(&self.progress);
            self.releases.push(release, id);
        }
    }

    /// Returns the next due preparation, unless it would delay a near release.
    fn preparation_is_due(&self, now: Instant) -> bool {
        let release_is_near = self.releases.next_at().is_some_and(|at| at < now + NEAR);
        self.preparations.next_at().is_some_and(|at| at <= now) && !release_is_near
    }
}

fn sending(asked: &Transport) -> Result<Sending, String> {
    let limits = Limits::new(asked.gso_segments)?;
    match (asked.gso, asked.gso_paced, &asked.launch_clock) {
        (false, _, _) if asked.gso_segments.is_some() => {
            Err("`gso_segments` needs `gso`".to_owned())
        }
        (false, false, _) => Ok(Sending::Single),
        (true, false, _) => Ok(Sending::Buffers(limits)),
        (true, true, Some(_)) => Ok(Sending::PacedBuffers(limits)),
        _ => Err("`gso_paced` needs `gso` and `launch_clock`".to_owned()),
    }
}

fn controller(name: &str) -> Result<CongestionControlAlgorithm, String> {
    match name {
        "cubic" => Ok(CongestionControlAlgorithm::CUBIC),
        "reno" => Ok(CongestionControlAlgorithm::Reno),
        "bbr" => Ok(CongestionControlAlgorithm::Bbr2Gcongestion),
        other => Err(format!(
            "congestion_control `{other}` is none of cubic, reno and bbr"
        )),
    }
}

impl Host for Edge {
    fn arrived(&mut self, sockets: &Sockets, arrival: Arrival, bytes: &mut [u8]) {
        let Ok(header) = Header::from_slice(bytes, CID_BYTES) else {
            return;
        };
        let key = (arrival.peer, header.dcid.to_vec());
        let Some(id) = self.connections.find(&key) else {
            if header.ty != Type::Short {
                self.first(sockets, arrival, &header, bytes);
            }
            return;
        };
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        if connection.hello_read {
            connection.receive(&self.progress, bytes);
            connection.note_window(arrival.at);
        } else if accept::read_hello(&self.progress, &self.routes, connection, bytes) {
            self.answer(sockets, id, arrival.at);
        }
        self.settle(sockets, id);
    }

    fn next_due(&mut self) -> Option<Instant> {
        [
            self.releases.next_at(),
            self.preparations.next_at(),
            self.timers.next_at(),
            self.connections.next_at(),
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
            } else if let Some(id) = self.timers.pop_due(now) {
                self.timer(sockets, id, now);
            } else {
                self.connections.forget(now);
                return;
            }
            now = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paced_buffers_need_buffers_and_launch_times() {
        let limits = Limits::new(None).unwrap();
        for (gso, gso_paced, timed, expected) in [
            (false, false, false, Some(Sending::Single)),
            (false, false, true, Some(Sending::Single)),
            (true, false, false, Some(Sending::Buffers(limits))),
            (true, false, true, Some(Sending::Buffers(limits))),
            (true, true, true, Some(Sending::PacedBuffers(limits))),
            (true, true, false, None),
            (false, true, true, None),
            (false, true, false, None),
        ] {
            let asked = Transport {
                gso,
                gso_paced,
                launch_clock: timed.then(|| "monotonic".to_owned()),
                ..Transport::default()
            };
            assert_eq!(sending(&asked).ok(), expected, "{asked:?}");
        }
    }

    #[test]
    fn a_number_of_segments_needs_buffers() {
        for (gso, segments, words) in [(false, 4, "needs `gso`"), (true, 1, "give 2 to 54")] {
            let asked = Transport {
                gso,
                gso_segments: Some(segments),
                ..Transport::default()
            };
            let problem = sending(&asked).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
    }
}
