//! A connection's test datagrams, and a table that processes them.

mod packets;

pub(crate) use packets::*;

use std::net::SocketAddr;

use firstflight_records::Style;

use super::{Arrival, Connection, Limits, Table};
use crate::flow::expiry::Bounds;
use crate::net::ip::{Datagram, IpLength};
use crate::quic::keylog::Keyring;
use crate::quic::packet_log::Log;
use crate::quic::timeline::Windows;

pub(crate) const MS: i64 = 1_000_000;
pub(crate) const HELLO: P<'_> = initial(0, &[F::ClientHello]);
/// More than a ServerHello's length.
pub(crate) const WHOLE: usize = usize::MAX;
/// A server's usual first Initial.
pub(crate) const ANSWER: P<'_> = initial(0, &[F::Ack(0, 0), F::ServerHello(WHOLE)]);

/// A table with one client and one server.
pub(crate) struct Feed {
    pub table: Table,
    pub client: SocketAddr,
    pub server: SocketAddr,
    pub client_ttl: u8,
    pub server_ttl: u8,
    /// Lengths of IP packets are estimates.
    pub is_guessed: bool,
    /// The packet log, if packets are logged.
    pub log: Option<Log>,
    frames: u64,
}

impl Feed {
    pub(crate) fn new(keys: &str) -> Feed {
        Feed::with(keys, 8, Vec::new())
    }

    pub(crate) fn with(keys: &str, max_live: usize, ports: Vec<u16>) -> Feed {
        let mut keyring = Keyring::default();
        if !keys.is_empty() {
            keyring.add(keys.as_bytes());
        }
        let limits = Limits {
            windows: Windows {
                answer_ns: 3_000 * MS,
                settle_ns: 100 * MS,
            },
            bounds: Bounds {
                idle_ns: 60_000 * MS,
                closing_ns: 10_000 * MS,
                max_live,
            },
            max_decided: max_live,
            ports,
            acks: true,
        };
        Feed {
            table: Table::new(limits, keyring),
            client: SocketAddr::from(([192, 0, 2, 1], 50_000)),
            server: SocketAddr::from(([198, 51, 100, 1], 443)),
            client_ttl: 64,
            server_ttl: 57,
            is_guessed: false,
            log: None,
            frames: 0,
        }
    }

    /// A table with a ClientHello at 0 ms.
    pub(crate) fn begun(keys: &str) -> Feed {
        let mut feed = Feed::new(keys);
        feed.packets(0, true, &[HELLO]).expect("a connection");
        feed
    }

    /// As [`Feed::begun`], with the server's answer at 10 ms.
    pub(crate) fn answered(keys: &str) -> Feed {
        let mut feed = Feed::begun(keys);
        feed.packets(10, false, &[ANSWER]).expect("its connection");
        feed
    }

    /// The arrival of a datagram of `length` bytes.
    pub(crate) fn arrival(&self, ms: i64, from_client: bool, length: usize) -> Arrival {
        let ip_length = IpLength {
            bytes: length + 28,
            is_guessed: self.is_guessed,
        };
        Arrival {
            ns: ms * MS,
            frame_number: self.frames,
            length,
            ip_length,
            ttl: if from_client {
                self.client_ttl
            } else {
                self.server_ttl
            },
        }
    }

    /// Feeds a datagram with `captured` captured bytes. Returns the connection and whether the client sent it.
    pub(crate) fn cut(
        &mut self,
        ms: i64,
        from_client: bool,
        bytes: &[u8],
        captured: usize,
    ) -> Option<(&Connection, bool)> {
        self.frames += 1;
        let (src, dst) = if from_client {
            (self.client, self.server)
        } else {
            (self.server, self.client)
        };
        let arrival = self.arrival(ms, from_client, bytes.len());
        let datagram = Datagram {
            src,
            dst,
            ttl: arrival.ttl,
            payload: &bytes[..captured.min(bytes.len())],
            length: bytes.len(),
            ip_length: arrival.ip_length,
        };
        self.table.datagram(&arrival, &datagram, self.log.as_mut())
    }

    /// Feeds a whole datagram.
    pub(crate) fn bytes(
        &mut self,
        ms: i64,
        from_client: bool,
        bytes: &[u8],
    ) -> Option<(&Connection, bool)> {
        self.cut(ms, from_client, bytes, usize::MAX)
    }

    /// Feeds a datagram with `packets`.
    pub(crate) fn packets(
        &mut self,
        ms: i64,
        from_client: bool,
        packets: &[P<'_>],
    ) -> Option<(&Connection, bool)> {
        self.bytes(ms, from_client, &datagram(from_client, ODCID, &[], packets))
    }

    /// Feeds a datagram with `packets` from `sender`.
    pub(crate) fn sent(
        &mut self,
        ms: i64,
        sender: &Sender<'_>,
        packets: &[P<'_>],
    ) -> Option<(&Connection, bool)> {
        self.bytes(ms, sender.from_client, &sender.datagram(packets))
    }

    /// Logs the following packets.
    pub(crate) fn log_packets(&mut self) {
        self.log = Some(Log::new(Style::Plain));
    }

    /// The packets logged since the last call: (type, whether it was decrypted, frames or reason).
    pub(crate) fn logged(&mut self) -> Vec<(&'static str, bool, String)> {
        let log = self.log.as_mut().expect("a log").packets.drain(..);
        log.map(|p| (p.kind, p.opened, p.frames.unwrap_or_default()))
            .collect()
    }

    /// The only live connection.
    pub(crate) fn one(&mut self) -> Box<Connection> {
        let connection = self.table.drain().expect("a connection");
        assert!(self.table.drain().is_none(), "one connection only");
        connection
    }
}
