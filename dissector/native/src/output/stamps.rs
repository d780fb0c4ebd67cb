//! Provenance from a campaign: columns with the same value in each row.

use std::fmt;

use firstflight_records::{Column, Row, Type, Value, Visitor};

use super::Kind;

/// Position of a column relative to a `quic_connection`'s columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Before,
    Behind,
}

/// The columns that can be stamped, in the order of records.
const STAMPABLE: [(&str, Type, Side); 4] = [
    ("run", Type::String, Side::Before),
    ("vantage", Type::String, Side::Before),
    ("repetition", Type::U16, Side::Before),
    ("tool_version", Type::String, Side::Behind),
];

/// A column and the value in every row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Index in [`STAMPABLE`].
    index: usize,
    value: Owned,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Owned {
    Text(String),
    Integer(i64),
}

impl Stamp {
    /// Parses KEY=VALUE.
    pub fn parse(text: &str) -> Result<Stamp, String> {
        let (key, value) = text
            .split_once('=')
            .ok_or_else(|| format!("{text} is not a stamp: expected KEY=VALUE"))?;
        let index = STAMPABLE
            .iter()
            .position(|(name, ..)| *name == key)
            .ok_or_else(|| {
                let names = STAMPABLE.map(|(name, ..)| name).join(", ");
                format!("{key} is not a column to stamp: expected one of {names}")
            })?;
        let value = match STAMPABLE[index].1 {
            Type::U16 => value.parse().map(u16::into).map(Owned::Integer).ok(),
            _ => Some(value)
                .filter(|value| !value.is_empty())
                .map(|value| Owned::Text(value.to_owned())),
        };
        let value = value.ok_or_else(|| match STAMPABLE[index].1 {
            Type::U16 => format!("{key} must be an integer from 0 to {}", u16::MAX),
            _ => format!("{key} must not be empty"),
        })?;
        Ok(Stamp { index, value })
    }

    fn column(&self) -> Column {
        let (name, kind, _) = STAMPABLE[self.index];
        Column {
            name,
            kind,
            nullable: false,
        }
    }

    fn side(&self) -> Side {
        STAMPABLE[self.index].2
    }

    fn value(&self) -> Value<'_> {
        match &self.value {
            Owned::Text(text) => Value::Text(text),
            Owned::Integer(value) => Value::Int(*value),
        }
    }
}

/// A column that is stamped twice.
#[derive(Debug)]
pub struct Twice(&'static str);

impl fmt::Display for Twice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--stamp {} is given twice", self.0)
    }
}

/// All stamps, in the order of their columns.
#[derive(Clone, Debug, Default)]
pub struct Stamps(Vec<Stamp>);

impl Stamps {
    pub fn new(mut stamps: Vec<Stamp>) -> Result<Stamps, Twice> {
        stamps.sort_by_key(|stamp| stamp.index);
        match stamps
            .windows(2)
            .find(|pair| pair[0].index == pair[1].index)
        {
            Some(pair) => Err(Twice(pair[0].column().name)),
            None => Ok(Stamps(stamps)),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The stamps for rows of `kind`. Only rows of connections have these columns.
    pub(super) fn of(&self, kind: Kind) -> Stamps {
        match kind {
            Kind::QuicConnection | Kind::QuicAck => self.clone(),
            _ => Stamps::default(),
        }
    }

    /// `columns` and the stamps' columns, in order.
    pub(super) fn around(&self, columns: Vec<Column>) -> Vec<Column> {
        let on = |side| self.on(side).map(Stamp::column);
        let before = on(Side::Before);
        before.chain(columns).chain(on(Side::Behind)).collect()
    }

    /// Adds the stamps' cells to `row`.
    pub(super) fn stamp<'a, R: Row + ?Sized>(&'a self, row: &'a R) -> Stamped<'a, R> {
        Stamped { stamps: self, row }
    }

    fn on(&self, side: Side) -> impl Iterator<Item = &Stamp> {
        self.0.iter().filter(move |stamp| stamp.side() == side)
    }
}

/// A row with its stamps' cells.
pub(super) struct Stamped<'a, R: ?Sized> {
    stamps: &'a Stamps,
    row: &'a R,
}

impl<R: Row + ?Sized> Row for Stamped<'_, R> {
    fn visit(&self, to: &mut impl Visitor) {
        for stamp in self.stamps.on(Side::Before) {
            to.value(stamp.value());
        }
        self.row.visit(to);
        for stamp in self.stamps.on(Side::Behind) {
            to.value(stamp.value());
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;
    use firstflight_records::difference;

    use super::*;

    fn stamps(texts: &[&str]) -> Result<Stamps, String> {
        let stamps: Result<_, _> = texts.iter().copied().map(Stamp::parse).collect();
        Stamps::new(stamps?).map_err(|twice| twice.to_string())
    }

    const ALL: [&str; 4] = ["tool_version=1 2", "repetition=3", "run=a=b", "vantage=v"];

    #[test]
    fn columns_of_every_kind_are_those_of_the_description() {
        let all = stamps(&ALL).unwrap();
        for kind in Kind::value_variants() {
            let ours = all.of(*kind).around(kind.columns());
            assert_eq!(
                difference(kind.name(), &["stage", "dissector"], &ours),
                None,
                "{kind:?}"
            );
        }
    }

    #[test]
    fn cells_stand_where_their_columns_do() {
        struct Texts(Vec<String>);
        impl Visitor for Texts {
            fn value(&mut self, value: Value<'_>) {
                self.0.push(match value {
                    Value::Int(value) => value.to_string(),
                    Value::Text(text) => text.to_owned(),
                    _ => unreachable!("no other cells are visited"),
                });
            }
        }
        for (given, expected) in [
            (&ALL[..], &["a=b", "v", "3", "row", "1 2"][..]),
            (&ALL[1..2], &["3", "row"]),
            (&[], &["row"]),
        ] {
            let stamps = stamps(given).unwrap();
            let mut texts = Texts(Vec::new());
            stamps.stamp(&[Value::Text("row")][..]).visit(&mut texts);
            assert_eq!(texts.0, expected);
            assert_eq!(stamps.around(Vec::new()).len(), expected.len() - 1);
        }
    }

    #[test]
    fn what_is_no_stamp_is_refused() {
        for (given, expected) in [
            (&["run"][..], "run is not a stamp: expected KEY=VALUE"),
            (
                &["source_file=x"],
                "source_file is not a column to stamp: expected one of run, vantage, repetition, \
                 tool_version",
            ),
            (&["run="], "run must not be empty"),
            (
                &["repetition=65536"],
                "repetition must be an integer from 0 to 65535",
            ),
            (
                &["run=a", "vantage=v", "run=a"],
                "--stamp run is given twice",
            ),
        ] {
            assert_eq!(stamps(given).unwrap_err(), expected);
        }
    }

    #[test]
    fn stamps_belong_to_connections() {
        let all = stamps(&ALL).unwrap();
        assert!(!all.is_empty() && stamps(&[]).unwrap().is_empty());
        for kind in Kind::value_variants() {
            let is_stamped = [Kind::QuicConnection, Kind::QuicAck].contains(kind);
            assert_eq!(all.of(*kind).is_empty(), !is_stamped, "{kind:?}");
        }
    }

    #[test]
    fn stamps_end_at_the_first_equals_sign_and_repetitions_at_16_bits() {
        for (given, value) in [
            ("run=", None),
            ("run==", Some(Owned::Text("=".into()))),
            ("repetition=65535", Some(Owned::Integer(65_535))),
            ("repetition=0", Some(Owned::Integer(0))),
            ("repetition=", None),
            ("repetition=-1", None),
        ] {
            let found = Stamp::parse(given).ok().map(|stamp| stamp.value);
            assert_eq!(found, value, "{given}");
        }
    }
}
