//! Makes the record for a finished probe.

use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};

use crate::ecn::{Mark, verdict};
use crate::exchange::{Exchange, VERSION};
use crate::outcome::Outcome;
use crate::row::{Columns, ProbeRow, Text};
use firstflight_core::clock::{Mono, SECOND, Stamp};
use firstflight_core::records::{self, Outcome as _, Record};
use firstflight_core::targets::{Target, TargetRef};

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

/// A finished probe.
pub struct FinishedProbe {
    pub target: TargetRef,
    pub outcome: Outcome,
    /// Data of the probe that was sent. `None`: nothing was sent.
    pub sent: Option<Sent>,
    /// Reason why nothing was sent.
    pub why: Option<String>,
    /// Size of the Initial that was not sent, if the command line gives the size.
    pub initial_size: Option<u16>,
}

/// The attempt that counts.
pub struct Sent {
    pub exchange: Exchange,
    pub attempts: u8,
    pub initial_size: u16,
    /// The server.
    pub to: SocketAddr,
    /// `None`: the routing table gives the address.
    pub src_ip: Option<IpAddr>,
    pub src_port: u16,
    /// The kernel's stamp of the connection's first Initial.
    pub first_sent: Option<Stamp>,
    /// The kernel's stamp of the Initial that times are relative to.
    pub sent_at: Option<Stamp>,
    pub after_close: u16,
    pub ttl: Option<u8>,
    /// ECN mark of the datagrams.
    pub ecn: Option<Mark>,
    /// How long the probe listened to the server.
    pub listened: Option<Mono>,
    /// Arrival of retransmissions, in microseconds from `sent_at`. Only if the probe listened.
    pub retransmission_us: Vec<u32>,
}

impl FinishedProbe {
    /// Returns a target to which nothing was sent.
    pub fn unsent(target: TargetRef, outcome: Outcome, why: String) -> FinishedProbe {
        FinishedProbe {
            target,
            outcome,
            sent: None,
            why: Some(why),
            initial_size: None,
        }
    }
}

impl Record for FinishedProbe {
    type Columns = Columns;

    fn target(&self) -> &TargetRef {
        &self.target
    }

    fn row<'a>(&'a self, target: &Target<'a>) -> ProbeRow<'a> {
        let mut row = ProbeRow {
            target: target.line,
            domain: target.domain.into(),
            ip: target.ip_text.into(),
            port: target.port,
            outcome: self.outcome.name().into(),
            detail: self.why.as_deref().map(Text::from),
            initial_size: self.initial_size,
            ..ProbeRow::default()
        };
        if let Some(sent) = &self.sent {
            sent.fill(&mut row);
        }
        row
    }
}

impl records::Columns for Columns {
    type Row<'a> = ProbeRow<'a>;

    fn schema() -> Arc<Schema> {
        Columns::schema()
    }

    fn push(&mut self, row: &ProbeRow<'_>) {
        Columns::push(self, row);
    }

    fn len(&self) -> usize {
        Columns::len(self)
    }

    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        Columns::finish(self, schema)
    }
}

/// Returns the whole microseconds between two stamps, rounded down. Returns `None` if a stamp is missing. Also returns
/// `None` if the clock was set back between the stamps, because the time is then unknown.
fn micros(from: Option<Stamp>, to: Option<Stamp>) -> Option<i64> {
    let passed = to? - from?;
    (passed >= 0).then_some(passed / 1000)
}

/// Returns the whole microseconds from `sent` to each of `stamps`, without stamps before `sent`.
pub fn micros_of(sent: Option<Stamp>, stamps: &[Stamp]) -> Vec<u32> {
    let micros = stamps.iter().map(|at| micros(sent, Some(*at)));
    micros.filter_map(|us| u32::try_from(us?).ok()).collect()
}

/// Returns an ACK Delay in microseconds (RFC 9000 19.3, exponent 3), or `None` if it does not fit the column.
fn delay_us(raw: u64) -> Option<i64> {
    raw.checked_mul(8).and_then(|us| i64::try_from(us).ok())
}

fn text(value: impl Display) -> Option<Text<'static>> {
    Some(value.to_string().into())
}

impl Sent {
    fn fill<'a>(&'a self, row: &mut ProbeRow<'a>) {
        let seen = &self.exchange;
        row.sent_at = self.sent_at;
        row.src_ip = self.src_ip.and_then(text);
        row.src_port = Some(self.src_port);
        row.initial_size = Some(self.initial_size);
        row.version = Some(if seen.version == VERSION {
            "0x00000001".into()
        } else {
            seen.version.to_string().into()
        });
        row.client_cid = Some(hex(&seen.client_cid).into());
        row.attempts = self.attempts;
        row.retried = seen.retried;
        row.hello_retry = seen.hello_retry;
        row.bytes_sent = u32::from(self.initial_size);
        row.bytes_received = seen.bytes;
        row.datagrams_received = seen.datagrams;
        row.amplification = (!seen.retried)
            .then_some((f64::from(seen.bytes) / f64::from(self.initial_size)) as f32);
        row.discarded = seen.discarded;
        row.after_close = self.after_close;
        row.ttl = self.ttl;
        row.server_cid = seen.server_cid.map(|cid| hex(cid.as_slice()).into());
        if let Some(ack) = &seen.ack {
            row.ack_us = micros(self.sent_at, Some(ack.at));
            row.ack_delay_raw = Some(int(ack.delay));
            row.ack_delay_us = delay_us(ack.delay);
            row.ack_datagram_bytes = Some(ack.datagram_bytes);
            row.ack_frames = Some(ack.frames.names().into());
            row.ack_eliciting = Some(ack.eliciting);
            row.ack_pn = Some(int(ack.packet_number));
            row.ack_largest = Some(int(ack.largest));
            row.first_ack_range = Some(int(ack.first_range));
            if let Some([ect0, ect1, ce]) = ack.ecn {
                row.ack_ect0 = Some(int(ect0));
                row.ack_ect1 = Some(int(ect1));
                row.ack_ce = Some(int(ce));
            }
        }
        if let Some(hello) = &seen.hello {
            row.sh_us = micros(self.sent_at, Some(hello.at));
            row.sh_pn = Some(int(hello.packet_number));
            row.gap_before_sh = Some(hello.gap);
            row.sh_to_handshake_us = micros(Some(hello.at), seen.handshake_at);
        }
        if let Some(mark) = self.ecn {
            self.fill_ecn(row, mark);
        }
        if let Some(listened) = self.listened {
            row.listened_s = Some((listened as f64 / SECOND as f64) as f32);
            let heard = seen.rare.as_ref().map(|rare| rare.retransmissions);
            row.retransmissions = Some(heard.unwrap_or(0));
            row.retransmission_us = &self.retransmission_us;
        }
        row.ack_to_sh_us = row.sh_us.zip(row.ack_us).map(|(sh, ack)| sh - ack);
        if let Some(rare) = &seen.rare {
            row.retry_us = micros(self.first_sent, rare.retry_at);
            row.close_code = rare.close.as_ref().map(|(code, _)| int(*code));
            row.close_reason = rare
                .close
                .as_ref()
                .map(|(_, reason)| reason.as_str().into());
            if let Some((list, reserved, at)) = &rare.versions {
                row.version_list = Some(list.as_str().into());
                row.version_grease = Some(*reserved);
                row.vn_us = micros(self.sent_at, Some(*at));
            }
            row.icmp_type = rare.icmp.map(|(kind, _)| kind);
            row.icmp_code = rare.icmp.map(|(_, code)| code);
            row.detail = rare.detail.as_deref().map(Text::from);
        }
    }
}

impl Sent {
    fn fill_ecn(&self, row: &mut ProbeRow<'_>, mark: Mark) {
        let seen = &self.exchange;
        row.ecn = Some(mark.name().into());
        let [ect0, ect1, ce] = seen.marks.counts();
        row.received_ect0 = Some(ect0);
        row.received_ect1 = Some(ect1);
        row.received_ce = Some(ce);
        if let Some(ack) = &seen.ack {
            let initials = 1 + u64::from(seen.retried);
            row.ecn_verdict = Some(verdict(mark, initials, ack.ecn).into());
        }
    }
}

#[cfg(test)]
mod tests;
