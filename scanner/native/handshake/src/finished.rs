//! Writes the record for a finished connection: observations, negotiated parameters and the response, column by column.

mod certificates;
mod response;
mod second;

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use firstflight_core::Failure;
use firstflight_core::clock::Stamp;
use firstflight_core::records::{RowSink, Rows, Segments, SideTables};
use firstflight_core::targets::{TargetList, TargetRef};
use firstflight_wire::transport::{TransportParameters, id};

pub use certificates::Inspector;

use crate::cdn::Rules;
use crate::connection::observed::{By, Observed};
use crate::connection::{Connection, versions};
use crate::outcome::Outcome;
use crate::row::{CertificateColumns, Columns, HandshakeRow, ResponseColumns, Text};
use crate::stack;

/// Maximum number of transport parameters in a record, and maximum number of their bytes.
const MOST_PARAMETERS: usize = 64;
const MOST_PARAMETER_BYTES: usize = 4096;

/// A finished target.
pub struct Finished {
    pub target: TargetRef,
    pub outcome: Outcome,
    /// The connection. `None`: nothing was sent.
    pub sent: Option<Box<Sent>>,
    /// Reason why nothing was sent.
    pub why: Option<String>,
    /// The second connection, if there was one.
    pub second: Option<Box<Second>>,
}

/// A finished second connection.
pub struct Second {
    pub outcome: Outcome,
    /// `None`: nothing was sent.
    pub sent: Option<Box<Sent>>,
    pub why: Option<String>,
}

/// A connection that sent at least one datagram.
pub struct Sent {
    pub connection: Box<Connection>,
    /// The server.
    pub to: SocketAddr,
    /// `None`: the routing table gives the address.
    pub src_ip: Option<IpAddr>,
    pub src_port: u16,
    pub after_close: u16,
    pub ttl: Option<u8>,
}

/// Segments of certificates and responses. `None`: not written.
#[derive(Default)]
pub struct Sides {
    pub certificates: Option<Segments<CertificateColumns>>,
    pub responses: Option<Segments<ResponseColumns>>,
}

impl SideTables for Sides {
    fn close(&mut self) -> std::io::Result<()> {
        self.certificates.as_mut().map_or(Ok(()), Segments::close)?;
        self.responses.as_mut().map_or(Ok(()), Segments::close)
    }
}

/// Inputs for making rows.
pub struct RowContext {
    pub list: Arc<TargetList>,
    pub inspector: Inspector,
    /// Rules that identify CDNs from headers and certificates. `None`: CDNs are not identified.
    pub rules: Option<Rules>,
}

impl Rows for Finished {
    type Columns = Columns;
    type Sides = Sides;
    type Context = RowContext;
    // Each record has a TLS connection.
    const BATCH: usize = 32;
    const MOST_KEPT: usize = 2048;

    fn write(&self, context: &RowContext, to: &mut RowSink<Columns, Sides>) -> Result<(), Failure> {
        let target = context.list.look(&self.target);
        let mut row = HandshakeRow {
            target: target.line,
            domain: target.domain.into(),
            ip: target.ip_text.into(),
            port: target.port,
            outcome: records_name(self.outcome).into(),
            detail: self.why.as_deref().map(Text::from),
            ..HandshakeRow::default()
        };
        if let Some(sent) = &self.sent {
            sent.fill(&mut row);
            certificates::fill(&mut row, &sent.connection, &target, context, &mut to.sides);
            response::fill(&mut row, &sent.connection, &target, context, &mut to.sides);
            if let Some(second) = &self.second {
                second.fill(&mut row, &sent.connection.observed);
            }
        }
        to.row(&row, target.asn)
    }

    fn has_asn(context: &RowContext) -> bool {
        context.list.has_asn()
    }
}

fn records_name(outcome: Outcome) -> &'static str {
    firstflight_core::records::Outcome::name(outcome)
}

impl Sent {
    fn fill<'a>(&'a self, row: &mut HandshakeRow<'a>) {
        let connection = &self.connection;
        let observed = &connection.observed;
        row.sent_at = connection.sent_at();
        row.src_ip = self.src_ip.and_then(text);
        row.src_port = Some(self.src_port);
        row.client_cid = Some(hex(&connection.client_cid).into());
        row.server_cid = connection.server_cid.map(|cid| hex(cid.as_slice()).into());
        row.sni = Some(connection.names_server);
        row.hello_datagrams = Some(observed.hello_datagrams);
        row.version = text(connection.version());
        row.versions_offered = text(versions::list(connection.offered().iter().copied()));
        row.version_change = observed.version_change.map(|change| change.name().into());
        row.after_close = self.after_close;
        row.ttl = self.ttl;
        times(row, observed);
        counts(row, observed);
        ending(row, observed);
        if observed.handshake.is_some() {
            negotiated(row, connection);
        }
    }
}

/// Fills the times of milestones.
fn times(row: &mut HandshakeRow<'_>, observed: &Observed) {
    let since = |milestone: Option<(Stamp, u16)>| micros(row.sent_at, milestone.map(|(at, _)| at));
    let all = [
        observed.ack,
        observed.hello,
        observed.certificate,
        observed.handshake,
        observed.confirmed,
        observed.settings,
        observed.response,
    ];
    [
        row.ack_us,
        row.sh_us,
        row.certificate_us,
        row.handshake_us,
        row.confirmed_us,
        row.settings_us,
        row.response_us,
    ] = all.map(since);
    row.ack_to_sh_us = row.sh_us.zip(row.ack_us).map(|(sh, ack)| sh - ack);
    row.first_answer = observed.first_answer().map(Text::from);
    let partial = observed.ack_covers_hello == Some(false);
    row.partial_ack_us = since(observed.first_ack.filter(|_| partial));
    row.ack_covers_hello = observed.ack_covers_hello;
    row.first_answer_any_ack = observed.first_answer_any_ack().map(Text::from);
    let numbers: Vec<String> = observed.first_acked.iter().map(u16::to_string).collect();
    row.first_ack_datagrams = text(numbers.join(",")).filter(|list| !list.is_empty());
    if let Some((first, smallest, samples)) = observed.rtt {
        (row.rtt_first_us, row.rtt_min_us) = (Some(first / 1000), Some(smallest / 1000));
        row.rtt_samples = samples;
    }
}

fn counts(row: &mut HandshakeRow<'_>, observed: &Observed) {
    (row.bytes_sent, row.datagrams_sent) = (observed.sent.bytes, observed.sent.datagrams);
    (row.bytes_received, row.datagrams_received) =
        (observed.received.bytes, observed.received.datagrams);
    row.bytes_first_flight = observed.first_flight.bytes;
    row.datagrams_first_flight = observed.first_flight.datagrams;
    row.bytes_sent_unvalidated = observed.sent_unvalidated.bytes;
    row.bytes_received_unvalidated = observed.received_unvalidated.bytes;
    row.bytes_received_handshake = observed.received_handshake;
    row.retransmissions = observed.retransmissions;
    row.discarded = observed.discarded;
}

/// Fills the outcome and the events before it.
fn ending<'a>(row: &mut HandshakeRow<'a>, observed: &'a Observed) {
    row.stage = Some(observed.stage().name().into());
    row.detail = observed.detail.as_deref().map(Text::from);
    row.alert = observed.alert.map(|(alert, _)| alert);
    row.alert_by = observed.alert.map(|(_, by)| match by {
        By::Client => "client".into(),
        By::Server => "server".into(),
    });
    if let Some(close) = &observed.close {
        row.close_code = Some(int(close.code));
        row.close_by_application = Some(close.by_application);
        row.close_reason = Some(close.reason.as_str().into());
    }
    row.version_list = observed.versions.as_deref().map(Text::from);
    row.versions_available = observed.available_versions.as_deref().map(Text::from);
    row.ech_offered = observed.ech.map(|offer| offer.name().into());
    row.ech_accepted = observed.ech_accepted;
    if let Some(configs) = &observed.ech_retry_configs {
        row.ech_retry_config_ids = &configs.ids;
        row.ech_retry_public_names = &configs.public_names;
    }
    (row.retry, row.hello_retry) = (observed.retry, observed.hello_retry);
    row.icmp_type = observed.icmp.map(|(kind, _)| kind);
    row.icmp_code = observed.icmp.map(|(_, code)| code);
}

/// Fills the negotiated parameters.
fn negotiated<'a>(row: &mut HandshakeRow<'a>, connection: &'a Connection) {
    let (tls, observed) = (connection.tls(), &connection.observed);
    row.cipher = tls
        .negotiated_cipher_suite()
        .and_then(|suite| suite.suite().as_str())
        .map(|name| name.replacen("TLS13_", "TLS_", 1).into());
    row.group = tls
        .negotiated_key_exchange_group()
        .and_then(|group| text(format!("{:?}", group.name())));
    row.alpn = tls
        .alpn_protocol()
        .map(|name| String::from_utf8_lossy(name).into_owned().into());
    row.tickets = Some(observed.tickets);
    row.early_data = Some(observed.early_data);
    row.tokens = Some(observed.tokens);
    row.http = Some(connection.http().name().into());
    let Some(bytes) = tls.quic_transport_parameters() else {
        return;
    };
    let parameters = TransportParameters::new(bytes);
    row.transport_parameters = Some(
        parameters
            .as_json(MOST_PARAMETERS, MOST_PARAMETER_BYTES)
            .into(),
    );
    let fingerprint = parameters.fingerprint(MOST_PARAMETERS);
    row.stack = fingerprint.as_deref().and_then(stack::name).map(Text::from);
    row.stack_fingerprint = fingerprint.map(Text::from);
    let there = |id| parameters.find(id).ok().map(|value| value.is_some());
    row.migration_disabled = there(id::DISABLE_ACTIVE_MIGRATION);
    row.preferred_address = there(id::PREFERRED_ADDRESS);
    row.max_datagram_frame_size = parameters
        .integer(id::MAX_DATAGRAM_FRAME_SIZE)
        .ok()
        .flatten()
        .map(int);
    if let Some((id, value)) = parameters.multipath() {
        row.multipath_id = text(format!("{id:#x}"));
        row.multipath_value = value.map(int);
    }
    if let Some((id, delay)) = parameters.min_ack_delay() {
        row.min_ack_delay_us = Some(int(delay));
        row.min_ack_delay_id = text(format!("{id:#x}"));
    }
}

/// Returns a value for an int64 column. Larger values become the maximum of int64.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

/// Returns the whole microseconds between two stamps, rounded down. Returns `None` if a stamp is missing. Also returns
/// `None` if the clock was set back between the stamps, because the time is then unknown.
fn micros(from: Option<Stamp>, to: Option<Stamp>) -> Option<i64> {
    let passed = to? - from?;
    (passed >= 0).then_some(passed / 1000)
}

fn text(value: impl Display) -> Option<Text<'static>> {
    Some(value.to_string().into())
}
