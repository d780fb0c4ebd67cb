//! Rows of `quic_connection`. schemas/records/quic_connection.yaml documents the columns.

mod first_answer;
mod handshake;
mod transfer;

use firstflight_records::{Column, Record, Row, Visitor, columns};

use crate::output::cells::{Cid, Ip, QuicVersion};
use crate::quic::connection::Connection;
use crate::quic::timeline::{Outcome, Timeline, classify};
use first_answer::FirstAnswer;
use handshake::{Negotiated, Validation};
use transfer::{Closing, RoundTrips, Transfer};

/// A connection's row.
pub struct ConnectionRow<'a> {
    columns: Columns<'a>,
}

/// The columns in order.
type Columns<'a> = (
    Identity<'a>,
    FirstAnswer<'a>,
    Negotiated<'a>,
    Validation,
    RoundTrips,
    Transfer,
    Closing<'a>,
    Detail<'a>,
);

impl<'a> ConnectionRow<'a> {
    pub fn new(source_file: &'a str, connection: &'a Connection) -> ConnectionRow<'a> {
        let answer = classify(&connection.timeline);
        // Of an unsupported version, only this is known.
        let unread = connection.version_in_use.why_unread();
        let is_unknown = matches!(answer.outcome, Outcome::Malformed | Outcome::Timeout);
        ConnectionRow {
            columns: (
                Identity::new(source_file, connection),
                FirstAnswer::new(connection, &answer),
                Negotiated::new(connection),
                Validation::new(connection),
                RoundTrips::new(connection),
                Transfer::new(connection),
                Closing::new(connection),
                Detail {
                    detail: unread.filter(|_| is_unknown).or(answer.detail),
                },
            ),
        }
    }

    /// The outcome of the first answer.
    pub fn first_answer(&self) -> &'static str {
        self.columns.1.first_answer
    }

    /// Whether the capture holds a ClientHello that decrypts.
    pub fn has_client_hello(&self) -> bool {
        self.columns.1.hello_time_ns.is_some()
    }
}

impl Row for ConnectionRow<'_> {
    #[inline(always)]
    fn visit(&self, to: &mut impl Visitor) {
        self.columns.visit(to);
    }
}

impl Record for ConnectionRow<'_> {
    fn columns() -> Vec<Column> {
        Columns::columns()
    }
}

columns! {
    /// Identifies the connection.
    struct Identity<'a> {
        source_file: &'a str,
        start_time_ns: i64,
        client_ip: Ip,
        client_port: u16,
        server_ip: Ip,
        server_port: u16,
        version: QuicVersion,
        odcid: Cid,
        client_scid: Cid,
        server_scid: Option<Cid>,
        retry: bool,
        hello_retry: bool,
        sni: Option<&'a str>,
        alpn: Option<&'a str>,
    }
}

columns! {
    /// The reason for the outcome.
    struct Detail<'a> {
        detail: Option<&'a str>,
    }
}

impl<'a> Identity<'a> {
    fn new(source_file: &'a str, c: &'a Connection) -> Identity<'a> {
        let t = &c.timeline;
        Identity {
            source_file,
            start_time_ns: t.start_ns,
            client_ip: Ip(c.client.ip()),
            client_port: c.client.port(),
            server_ip: Ip(c.server.ip()),
            server_port: c.server.port(),
            version: QuicVersion(c.version),
            odcid: Cid(c.odcid),
            client_scid: Cid(c.client_scid),
            server_scid: c.server_scid.map(Cid),
            retry: is_retried(t),
            hello_retry: t.hello_retry,
            sni: c.hello.sni.as_deref(),
            alpn: c.hello.alpn.as_deref(),
        }
    }
}

fn is_retried(t: &Timeline) -> bool {
    t.retry_ns.is_some() || t.retry_missed
}

/// Microseconds from `from` to `to`, rounded down.
fn micros(from: i64, to: i64) -> i64 {
    (to - from).div_euclid(1000)
}

#[cfg(test)]
mod tests;
