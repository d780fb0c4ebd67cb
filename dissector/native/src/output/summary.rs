//! Counts of the written rows, as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Kind;

/// Number of rows by kind, and of connections by first answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Summary {
    rows: BTreeMap<Kind, u64>,
    first_answers: BTreeMap<&'static str, u64>,
    without_client_hello: u64,
}

impl Summary {
    pub(super) fn row(&mut self, kind: Kind) {
        *self.rows.entry(kind).or_default() += 1;
    }

    /// Counts a connection's row under its first answer.
    pub(super) fn connection(&mut self, first_answer: &'static str, has_client_hello: bool) {
        *self.first_answers.entry(first_answer).or_default() += 1;
        self.without_client_hello += u64::from(!has_client_hello);
    }

    pub(super) fn add(&mut self, other: Summary) {
        for (kind, n) in other.rows {
            *self.rows.entry(kind).or_default() += n;
        }
        for (answer, n) in other.first_answers {
            *self.first_answers.entry(answer).or_default() += n;
        }
        self.without_client_hello += other.without_client_hello;
    }

    /// An object for each of `kinds` with its number of rows. For connections, also the number with each first answer,
    /// and the number without a ClientHello that is captured and decrypts.
    pub(super) fn to_json(&self, kinds: impl Iterator<Item = Kind>) -> Value {
        let of = |kind| {
            let rows = self.rows.get(&kind).copied().unwrap_or(0);
            match kind {
                Kind::QuicConnection => json!({
                    "rows": rows,
                    "first_answer": self.first_answers,
                    "without_client_hello": self.without_client_hello,
                }),
                _ => json!({ "rows": rows }),
            }
        };
        Value::Object(Map::from_iter(
            kinds.map(|kind| (kind.name().to_owned(), of(kind))),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up() {
        let mut all = Summary::default();
        for answers in [&[("iack", true), ("timeout", false)][..], &[("iack", true)]] {
            let mut part = Summary::default();
            for (answer, has_client_hello) in answers {
                part.row(Kind::QuicConnection);
                part.connection(answer, *has_client_hello);
            }
            part.row(Kind::TcpFlow);
            all.add(part);
        }
        let kinds = [Kind::QuicConnection, Kind::TcpFlow, Kind::Pacing];
        let expected = json!({
            "quic_connection": {
                "rows": 3,
                "first_answer": {"iack": 2, "timeout": 1},
                "without_client_hello": 1,
            },
            "tcp_flow": {"rows": 2},
            "pacing": {"rows": 0},
        });
        assert_eq!(all.to_json(kinds.into_iter()), expected);
    }
}
