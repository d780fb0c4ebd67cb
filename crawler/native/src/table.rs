//! Origins by prefix, and counts. Each RIB record yields an origin or increments a count. Only the record's first
//! route counts: the route of the RIB's first peer or, with additional paths, the first route in the table. If a prefix
//! occurs twice, in one table or in two, its first record with an origin counts.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;
use std::net::IpAddr;
use std::path::Path;

use serde_json::{Map, Value, json};

use crate::attributes;
use crate::entry::{self, Prefix};
use crate::failure::Failure;
use crate::origin;
use crate::records::{Record, Records, TABLE_DUMP_V2};

const PEER_INDEX_TABLE: u16 = 1;
/// A full table has a million records. A compressed file with a few megabytes could contain billions.
const MAX_RECORDS: u64 = 20_000_000;

#[derive(Default)]
pub struct Table {
    /// In the order of the tables.
    pub origins: Vec<(Prefix, u32)>,
    seen: HashSet<Prefix>,
    dumped_at: Option<u32>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    records: u64,
    default_routes: u64,
    repeated: u64,
    no_origin: u64,
    as_sets: u64,
    /// Records of other kinds by type and subtype: multicast, and address families other than IPv4 and IPv6.
    skipped: BTreeMap<(u16, u16), u64>,
}

impl Table {
    /// Adds the routes of the table dump at `path`. After a failure the table must not be used, because an incomplete
    /// table gives wrong origins.
    pub fn read(&mut self, path: &Path) -> Result<(), Failure> {
        self.take(Records::open(path)?, path)
    }

    /// Adds the routes in a table dump from a stream named `path`; otherwise like `read`.
    pub fn read_from(&mut self, stream: Box<dyn Read>, path: &Path) -> Result<(), Failure> {
        self.take(Records::over(stream, path)?, path)
    }

    fn take(&mut self, mut records: Records, path: &Path) -> Result<(), Failure> {
        let mut read = 0;
        while let Some(record) = records.next()? {
            read += 1;
            if read > MAX_RECORDS {
                return Err(Failure::Input(format!(
                    "{} has more than {MAX_RECORDS} records: it is not a routing table",
                    path.display()
                )));
            }
            self.dumped_at.get_or_insert(record.timestamp);
            self.add(&record).map_err(|what| {
                Failure::Input(format!(
                    "the routing table {} has a record at byte {} that cannot be parsed (type {}.{}): {what}; \
                     fetch it again",
                    path.display(),
                    record.offset,
                    record.kind,
                    record.subtype
                ))
            })?;
        }
        if read == 0 {
            return Err(Failure::Input(format!(
                "the routing table {} is empty",
                path.display()
            )));
        }
        Ok(())
    }

    fn add(&mut self, record: &Record) -> Result<(), &'static str> {
        if (record.kind, record.subtype) == (TABLE_DUMP_V2, PEER_INDEX_TABLE) {
            return Ok(());
        }
        if !entry::is_unicast(record) {
            let kind = (record.kind, record.subtype);
            *self.counts.skipped.entry(kind).or_default() += 1;
            return Ok(());
        }
        self.counts.records += 1;
        let entry = entry::first(record)?;
        let segments = attributes::path(entry.attributes, entry.attribute_bytes, entry.width)?;
        let (address, bits) = entry.prefix;
        if bits == 0 && address.is_unspecified() {
            self.counts.default_routes += 1;
        } else if self.seen.contains(&entry.prefix) {
            self.counts.repeated += 1;
        } else if let Some((origin, is_set)) = origin::of(&segments) {
            self.counts.as_sets += u64::from(is_set);
            self.seen.insert(entry.prefix);
            self.origins.push((entry.prefix, origin));
        } else {
            self.counts.no_origin += 1;
        }
        Ok(())
    }

    /// Returns the first record's time (Unix seconds), the prefixes by family, and the counts that are not 0.
    pub fn summary(&self) -> Value {
        let is_v6 = |&&((address, _), _): &&(Prefix, u32)| matches!(address, IpAddr::V6(_));
        let v6 = self.origins.iter().filter(is_v6).count();
        json!({
            "dumped_at": self.dumped_at,
            "prefixes_v4": self.origins.len() - v6,
            "prefixes_v6": v6,
            "counts": self.counts.by_name(),
        })
    }
}

impl Counts {
    fn by_name(&self) -> Map<String, Value> {
        let named = [
            ("records", self.records),
            ("default_routes", self.default_routes),
            ("repeated", self.repeated),
            ("no_origin", self.no_origin),
            ("as_sets", self.as_sets),
        ];
        let skipped = self
            .skipped
            .iter()
            .map(|((kind, subtype), count)| (format!("skipped_type_{kind}_{subtype}"), *count));
        named
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count))
            .chain(skipped)
            .filter(|(_, count)| *count > 0)
            .map(|(name, count)| (name, count.into()))
            .collect()
    }
}
