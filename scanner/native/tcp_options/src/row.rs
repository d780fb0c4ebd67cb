//! The names, types and order of a record's columns. schemas/records/tcp_option.yaml describes them (`from:
//! tcp_options`); a test compares the two.

use std::borrow::Cow;
use std::net::SocketAddr;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstflight_core::clock::Stamp;
use firstflight_core::connects::Agreed;
use firstflight_core::records::{self, ArrowColumns};
use firstflight_core::targets::{Target, TargetRef};
use firstflight_records::{Record as _, columns};
use serde::Serialize;

use crate::offered::Offered;
use crate::outcome::Outcome;

/// Usually borrowed text.
type Text<'a> = Cow<'a, str>;

columns! {
    /// One record.
    #[derive(Debug, Default, Serialize)]
    pub struct TcpOptionRow<'a> {
        /// Line of the target in the input; first column of segments, absent from JSON.
        #[serde(skip)]
        target: u32,
        domain: Text<'a>,
        ip: Text<'a>,
        port: u16,
        outcome: Text<'a>,
        detail: Option<Text<'a>>,
        sent_at: Option<i64>,
        src_ip: Option<Text<'a>>,
        src_port: Option<u16>,
        connects: u8,
        syn_retransmissions: Option<u16>,
        mss: Option<u32>,
        window_scaling: Option<bool>,
        wscale: Option<u8>,
        sack: Option<bool>,
        timestamps: Option<bool>,
        ecn: Option<bool>,
        rtt_us: Option<i64>,
    }
}

/// Rows for a segment.
pub struct Columns(ArrowColumns);

impl Default for Columns {
    fn default() -> Self {
        Columns(ArrowColumns::new(&TcpOptionRow::columns()))
    }
}

impl records::Columns for Columns {
    type Row<'a> = TcpOptionRow<'a>;

    fn schema() -> Arc<Schema> {
        ArrowColumns::schema(&TcpOptionRow::columns())
    }

    fn push(&mut self, row: &TcpOptionRow<'_>) {
        self.0.push(row);
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        self.0.finish(schema)
    }
}

/// The connection that a row describes: the answered one, else the last one.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub sent_at: Stamp,
    pub local: Option<SocketAddr>,
}

/// A finished target.
#[derive(Debug)]
pub struct Finished {
    pub target: TargetRef,
    pub outcome: Outcome,
    pub detail: Option<String>,
    /// `None` if no connection was started.
    pub connection: Option<Connection>,
    pub connects: u8,
    pub agreed: Option<Agreed>,
    /// The server sent a SYN-ACK that does not agree to ECN. The kernel's report on a later SYN-ACK is
    /// ignored.
    pub not_ecn: bool,
    pub offered: Offered,
}

impl Finished {
    /// Returns whether the server agreed to ECN. `None` if ECN was not offered, or if the SYN that offered it
    /// may be lost.
    fn ecn(&self) -> Option<bool> {
        if self.not_ecn {
            return Some(false);
        }
        let agreed = self.agreed?;
        let offered = self.offered.ecn && (agreed.ecn || agreed.syn_retransmissions == 0);
        offered.then_some(agreed.ecn)
    }
}

impl records::Record for Finished {
    type Columns = Columns;

    fn target(&self) -> &TargetRef {
        &self.target
    }

    fn row<'a>(&'a self, target: &Target<'a>) -> TcpOptionRow<'a> {
        let Offered {
            timestamps,
            sack,
            window_scaling,
            ..
        } = self.offered;
        let agreed = self.agreed.as_ref();
        let local = self.connection.and_then(|connection| connection.local);
        TcpOptionRow {
            target: target.line,
            domain: target.domain.into(),
            ip: target.ip_text.into(),
            port: target.port,
            outcome: records::Outcome::name(self.outcome).into(),
            detail: self.detail.as_deref().map(Into::into),
            sent_at: self.connection.map(|connection| connection.sent_at),
            src_ip: local.map(|local| local.ip().to_string().into()),
            src_port: local.map(|local| local.port()),
            connects: self.connects,
            syn_retransmissions: agreed
                .map(|agreed| u16::try_from(agreed.syn_retransmissions).unwrap_or(u16::MAX)),
            mss: agreed.and_then(|agreed| agreed.mss),
            window_scaling: agreed
                .filter(|_| window_scaling)
                .map(|agreed| agreed.wscale.is_some()),
            wscale: agreed.and_then(|agreed| agreed.wscale),
            sack: agreed.filter(|_| sack).map(|agreed| agreed.sack),
            timestamps: agreed
                .filter(|_| timestamps)
                .map(|agreed| agreed.timestamps),
            ecn: self.ecn(),
            rtt_us: agreed.and_then(|agreed| agreed.rtt_us).map(i64::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use firstflight_records::difference;

    #[test]
    fn the_columns_are_those_of_the_kind() {
        let columns = &TcpOptionRow::columns()[1..];
        assert_eq!(difference("tcp_option", &["tcp_options"], columns), None);
    }

    #[test]
    fn what_was_not_offered_is_not_known() {
        let all = Offered {
            timestamps: true,
            sack: true,
            window_scaling: true,
            ecn: true,
        };
        let agreed = Agreed {
            timestamps: false,
            sack: false,
            wscale: None,
            ecn: false,
            mss: Some(1460),
            rtt_us: None,
            syn_retransmissions: 0,
        };
        let shown = |offered, agreed, not_ecn| {
            let finished = Finished {
                target: TargetRef::Listed(0),
                outcome: Outcome::Answered,
                detail: None,
                connection: None,
                connects: 1,
                agreed: Some(agreed),
                not_ecn,
                offered,
            };
            let target = Target {
                line: 2,
                ip_text: "192.0.2.1",
                domain: "",
                port: 443,
                group: 0,
                asn: 0,
            };
            let row = records::Record::row(&finished, &target);
            [row.timestamps, row.sack, row.window_scaling, row.ecn]
        };
        let no = Some(false);
        for (offered, agreed, expected) in [
            (all, agreed, [no; 4]),
            (
                Offered {
                    timestamps: false,
                    ..all
                },
                agreed,
                [None, no, no, no],
            ),
            (Offered { sack: false, ..all }, agreed, [no, None, no, no]),
            (
                Offered {
                    window_scaling: false,
                    ..all
                },
                agreed,
                [no, no, None, no],
            ),
            (Offered { ecn: false, ..all }, agreed, [no, no, no, None]),
            (
                all,
                Agreed {
                    syn_retransmissions: 1,
                    ..agreed
                },
                [no, no, no, None],
            ),
            (
                all,
                Agreed {
                    timestamps: true,
                    sack: true,
                    wscale: Some(7),
                    ecn: true,
                    ..agreed
                },
                [Some(true); 4],
            ),
        ] {
            let found = shown(offered, agreed, false);
            assert_eq!(found, expected, "{offered:?} {agreed:?}");
            let found = shown(offered, agreed, true);
            assert_eq!(found[3], no, "a SYN-ACK did not agree to it");
        }
    }
}
