//! The names, types and order of a record's columns. schemas/records/dns_answer.yaml describes them (`from:
//! resolve`); a test compares the two.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, Schema};
use firstflight_core::Failure;
use firstflight_core::records::{self, ArrowColumns, RowSink, Rows};
use firstflight_records::{Record as _, columns};
use serde::Serialize;

use crate::results::outcome::{Finished, Outcome};
use crate::wire::record::Record;

/// Usually borrowed text.
type Text<'a> = Cow<'a, str>;

columns! {
    /// One record.
    #[derive(Debug, Default, Serialize)]
    pub struct DnsAnswerRow<'a> {
        /// Line of the name in the input; first column of segments, absent from JSON.
        #[serde(skip)]
        target: u32,
        asked_at: i64,
        domain: &'a str,
        qtype: &'static str,
        status: &'static str,
        rcode: Option<u16>,
        answer_rank: Option<u16>,
        address: Option<Text<'a>>,
        ttl: Option<u32>,
        cname_chain: &'a [String],
        cname_ttls: &'a [u32],
        https_priority: Option<u16>,
        https_target: Option<&'a str>,
        https_port: Option<u16>,
        https_alpn: &'a [String],
        https_ipv4hint: &'a [String],
        https_ipv6hint: &'a [String],
        https_ech: Option<bool>,
        https_ech_config_ids: &'a [u32],
        https_ech_public_names: &'a [String],
        data: Option<&'a str>,
        records_left_out: Option<u16>,
        resolver: &'a str,
        attempts: u8,
        transport: Option<&'static str>,
        duration_us: i64,
        detail: Option<&'a str>,
    }
}

/// Maximum number of bytes of text in a segment. Texts from the network have no fixed size.
const MOST_BYTES: usize = 8 << 20;

/// Rows for a segment.
pub struct Columns {
    rows: ArrowColumns,
    /// Total size of the columns without a fixed size.
    bytes: usize,
}

impl Default for Columns {
    fn default() -> Self {
        Columns {
            rows: ArrowColumns::new(&DnsAnswerRow::columns()),
            bytes: 0,
        }
    }
}

impl records::Columns for Columns {
    // With the buffered rows, this needs a few megabytes.
    const MOST_ROWS: usize = 16_384;

    type Row<'a> = DnsAnswerRow<'a>;

    fn schema() -> Arc<Schema> {
        ArrowColumns::schema(&DnsAnswerRow::columns())
    }

    fn push(&mut self, row: &DnsAnswerRow<'_>) {
        self.bytes += row.bytes();
        self.rows.push(row);
    }

    fn len(&self) -> usize {
        self.rows.len()
    }

    fn is_full(&self) -> bool {
        self.len() >= Self::MOST_ROWS || self.bytes >= MOST_BYTES
    }

    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        self.bytes = 0;
        self.rows.finish(schema)
    }
}

impl DnsAnswerRow<'_> {
    /// Returns the size of the columns without a fixed size.
    fn bytes(&self) -> usize {
        let lists = [
            self.cname_chain,
            self.https_alpn,
            self.https_ipv4hint,
            self.https_ipv6hint,
            self.https_ech_public_names,
        ];
        let texts: usize = lists.into_iter().flatten().map(String::len).sum();
        texts + self.data.map_or(0, str::len) + self.detail.map_or(0, str::len)
    }
}

/// Context for writing rows.
pub struct Context {
    pub labels: Vec<String>,
    /// Sum of [`Finished::weight`] of all written names.
    pub written: Arc<AtomicU64>,
}

impl Rows for Finished {
    type Columns = Columns;
    type Sides = ();
    type Context = Context;
    const BATCH: usize = 32;
    const MOST_KEPT: usize = 4096;

    fn write(&self, context: &Context, to: &mut RowSink<Columns>) -> Result<(), Failure> {
        for outcome in &self.outcomes {
            let label = context
                .labels
                .get(outcome.resolver)
                .map_or("", String::as_str);
            write_outcome(self, outcome, label, &mut |row| to.row(row, 0))?;
        }
        context.written.fetch_add(self.weight(), Ordering::Relaxed);
        Ok(())
    }
}

/// Writes a question's rows: one row per record, or one row with only the status.
fn write_outcome(
    name: &Finished,
    outcome: &Outcome,
    resolver: &str,
    each: &mut dyn FnMut(&DnsAnswerRow<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let chain: Vec<String> = outcome
        .aliases
        .iter()
        .map(|alias| alias.target.clone())
        .collect();
    let ttls: Vec<u32> = outcome.aliases.iter().map(|alias| alias.ttl).collect();
    let base = || DnsAnswerRow {
        target: name.line,
        asked_at: outcome.asked_at,
        domain: &name.domain,
        qtype: outcome.qtype.name(),
        status: outcome.status.name(),
        rcode: outcome.rcode,
        records_left_out: outcome.rcode.map(|_| outcome.left_out),
        ttl: outcome.ttl,
        cname_chain: &chain,
        cname_ttls: &ttls,
        resolver,
        attempts: outcome.attempts,
        transport: outcome.transport.map(|transport| transport.name()),
        duration_us: (outcome.duration / 1000) as i64,
        detail: outcome.detail.as_deref(),
        ..DnsAnswerRow::default()
    };
    if outcome.records.is_empty() {
        return each(&base());
    }
    for (rank, record) in outcome.records.iter().enumerate() {
        let answer_rank = u16::try_from(rank).ok();
        match record {
            Record::Address(address) => {
                let address = Some(address_text(*address));
                each(&DnsAnswerRow {
                    answer_rank,
                    address,
                    ..base()
                })?;
            }
            Record::Data(text) => each(&DnsAnswerRow {
                answer_rank,
                data: Some(text),
                ..base()
            })?,
            Record::Https(https) => {
                let ids: Vec<u32> = https
                    .ech_configs
                    .iter()
                    .map(|(id, _)| u32::from(*id))
                    .collect();
                let names: Vec<String> = https
                    .ech_configs
                    .iter()
                    .map(|(_, name)| name.clone())
                    .collect();
                each(&DnsAnswerRow {
                    answer_rank,
                    https_priority: Some(https.priority),
                    https_target: Some(&https.target),
                    https_port: https.port,
                    https_alpn: &https.alpn,
                    https_ipv4hint: &https.ipv4hint,
                    https_ipv6hint: &https.ipv6hint,
                    https_ech: Some(https.ech),
                    https_ech_config_ids: &ids,
                    https_ech_public_names: &names,
                    ..base()
                })?;
            }
        }
    }
    Ok(())
}

fn address_text(address: IpAddr) -> Text<'static> {
    Cow::Owned(address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::Alias;
    use crate::results::outcome::Transport;
    use crate::status::Status;
    use crate::wire::https::Https;
    use crate::wire::types::QType;
    use firstflight_records::difference;

    fn finished(records: Vec<Record>) -> Finished {
        let outcome = Outcome {
            qtype: QType::A,
            status: Status::NoError,
            asked_at: 5,
            duration: 7_999,
            attempts: 2,
            rcode: Some(0),
            aliases: vec![Alias {
                target: "b.test".into(),
                ttl: 9,
            }],
            records,
            left_out: 0,
            ttl: Some(60),
            transport: Some(Transport::Udp),
            detail: None,
            resolver: 0,
        };
        Finished {
            line: 3,
            domain: "a.test".into(),
            outcomes: vec![outcome],
        }
    }

    fn json(finished: &Finished) -> Vec<serde_json::Value> {
        let mut rows = Vec::new();
        for outcome in &finished.outcomes {
            let result = write_outcome(finished, outcome, "127.0.0.1", &mut |row| {
                rows.push(serde_json::to_value(row).unwrap());
                Ok(())
            });
            result.unwrap();
        }
        rows
    }

    #[test]
    fn columns_are_those_of_the_description() {
        let found = difference("dns_answer", &["resolve"], &DnsAnswerRow::columns()[1..]);
        assert_eq!(found, None);
    }

    #[test]
    fn a_row_per_record_or_one_with_the_status() {
        let address = |text: &str| Record::Address(text.parse().unwrap());
        let two = json(&finished(vec![address("192.0.2.1"), address("192.0.2.2")]));
        assert_eq!(
            (two.len(), &two[1]["address"], &two[1]["answer_rank"]),
            (2, &"192.0.2.2".into(), &1.into())
        );
        assert_eq!(
            (&two[0]["cname_chain"][0], &two[0]["duration_us"]),
            (&"b.test".into(), &7.into())
        );
        let none = json(&finished(Vec::new()));
        assert_eq!(
            (none.len(), &none[0]["answer_rank"]),
            (1, &serde_json::Value::Null)
        );
        assert_eq!(
            none[0].as_object().unwrap().len(),
            DnsAnswerRow::columns().len() - 1
        );
        let data = json(&finished(vec![Record::Data("10 mx.test".into())]));
        assert_eq!(data[0]["data"], "10 mx.test");
    }

    #[test]
    fn https_records_are_whole() {
        let https = Https {
            priority: 1,
            target: ".".into(),
            port: Some(8443),
            alpn: vec!["h3".into()],
            ech: true,
            ech_configs: vec![(42, "public.test".into())],
            ..Https::default()
        };
        let rows = json(&finished(vec![Record::Https(Box::new(https))]));
        let row = &rows[0];
        assert_eq!(
            (&row["https_ech_config_ids"][0], &row["https_port"]),
            (&42.into(), &8443.into())
        );
        assert_eq!(
            (&row["https_ech_public_names"][0], &row["https_ech"]),
            (&"public.test".into(), &true.into())
        );
    }

    #[test]
    fn a_batch_has_every_row() {
        use firstflight_core::records::Columns as _;
        let mut columns = Columns::default();
        let finished = finished(Vec::new());
        let outcome = &finished.outcomes[0];
        write_outcome(&finished, outcome, "r", &mut |row| {
            columns.push(row);
            Ok(())
        })
        .unwrap();
        let batch = columns.finish(Columns::schema()).unwrap();
        assert_eq!((batch.num_rows(), columns.len()), (1, 0));
        let long = "x".repeat(MOST_BYTES / 4);
        for rows in 1..=4 {
            let data = Some(long.as_str());
            columns.push(&DnsAnswerRow {
                data,
                ..DnsAnswerRow::default()
            });
            assert_eq!(columns.is_full(), rows == 4);
        }
    }
}
