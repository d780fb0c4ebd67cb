//! The JSON configuration: hosts and addresses, delays, bottlenecks, and drops.

use crate::bottleneck::{Bottleneck, Limits, MAX_RATE_BPS};
use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

/// An Ethernet address.
pub type Mac = [u8; 6];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub lateness: PathBuf,
    pub default_rtt_us: u64,
    pub hosts: Vec<Host>,
    pub rtt_us: Vec<(String, String, u64)>,
    pub drops: Vec<Drop>,
    #[serde(default)]
    pub ecn: Vec<Ecn>,
    #[serde(default)]
    pub bottlenecks: Vec<Narrow>,
}

/// A host at one interface of this namespace. `mac` is the host's eth0 address, `gateway` the address of this end.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Host {
    pub name: String,
    pub interface: String,
    #[serde(deserialize_with = "mac")]
    pub mac: Mac,
    #[serde(deserialize_with = "mac")]
    pub gateway: Mac,
    pub addresses: Vec<IpAddr>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drop {
    pub ip: IpAddr,
    pub rule: Rule,
}

/// A change of the ECN field in datagrams to and from an edge address.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ecn {
    pub ip: IpAddr,
    pub rule: EcnRule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EcnRule {
    /// Clears the field.
    Bleached,
    /// Changes ECT(0) and ECT(1) to CE.
    Congested,
}

/// A rate and a queue for packets from one host to another. Without one of the hosts, all packets that leave or
/// reach the other one share it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Narrow {
    pub from: Option<String>,
    pub to: Option<String>,
    pub rate_bps: NonZeroU64,
    pub queue_packets: Option<NonZeroU64>,
    pub queue_bytes: Option<NonZeroU64>,
}

/// All bottlenecks, and the index of the one for each (from, to).
#[derive(Debug, Default)]
pub struct Bottlenecks {
    pub lines: Vec<Bottleneck>,
    pub of_path: Vec<Vec<Option<usize>>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    OddFlows,
    FirstAnswer,
    #[serde(rename = "over_1350")]
    Over1350,
}

#[derive(Debug)]
pub enum ConfigError {
    Unreadable(std::io::Error),
    NotJson(serde_json::Error),
    NoSuchHost(&'static str, String),
    AddressTwice(IpAddr),
    NoEnd,
    NoLimit(u64),
    TooFast(u64),
    TwoBottlenecks(String, String),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::NotJson(error) => write!(f, "is not a link configuration: {error}"),
            Self::NoSuchHost(key, name) => write!(f, "{key} names {name}, which is not a host"),
            Self::AddressTwice(ip) => write!(f, "{ip} belongs to two hosts"),
            Self::NoEnd => write!(f, "has a bottleneck without `from` and `to`: name a host"),
            Self::NoLimit(rate_bps) => write!(
                f,
                "has a bottleneck of {rate_bps} bit/s without a limit: give `queue_packets` or `queue_bytes`"
            ),
            Self::TooFast(rate_bps) => write!(
                f,
                "has a bottleneck of {rate_bps} bit/s: at most {MAX_RATE_BPS} are possible"
            ),
            Self::TwoBottlenecks(from, to) => write!(
                f,
                "has two bottlenecks for packets from {from} to {to}: declare one for that path"
            ),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(ConfigError::Unreadable)?;
        serde_json::from_str(&text).map_err(ConfigError::NotJson)
    }

    /// Returns the owner (index into `hosts`) of each address.
    pub fn owners(&self) -> Result<HashMap<IpAddr, usize>, ConfigError> {
        let mut owners = HashMap::new();
        for (index, host) in self.hosts.iter().enumerate() {
            for &ip in &host.addresses {
                if owners.insert(ip, index).is_some() {
                    return Err(ConfigError::AddressTwice(ip));
                }
            }
        }
        Ok(owners)
    }

    /// Returns the one-way delays in nanoseconds, by (from, to): half the round-trip time in each direction.
    pub fn delays(&self) -> Result<Vec<Vec<u64>>, ConfigError> {
        let n = self.hosts.len();
        let mut delays = vec![vec![self.default_rtt_us * 500; n]; n];
        for (host, peer, rtt_us) in &self.rtt_us {
            let (a, b) = (self.find("rtt_us", host)?, self.find("rtt_us", peer)?);
            delays[a][b] = rtt_us * 500;
            delays[b][a] = rtt_us * 500;
        }
        Ok(delays)
    }

    /// Returns the bottlenecks. A path's bottleneck takes precedence over those for the hosts.
    pub fn bottlenecks(&self) -> Result<Bottlenecks, ConfigError> {
        let n = self.hosts.len();
        let mut found = Bottlenecks {
            lines: Vec::with_capacity(self.bottlenecks.len()),
            of_path: vec![vec![None; n]; n],
        };
        let find = |name: &Option<String>| {
            let name = name.as_ref();
            name.map(|name| self.find("bottlenecks", name)).transpose()
        };
        let mut ends = Vec::with_capacity(self.bottlenecks.len());
        for narrow in &self.bottlenecks {
            ends.push((find(&narrow.from)?, find(&narrow.to)?));
            found.lines.push(narrow.line()?);
        }
        for from in 0..n {
            for to in (0..n).filter(|&to| to != from) {
                let of = |wanted: (Option<usize>, Option<usize>)| {
                    let matching = ends
                        .iter()
                        .enumerate()
                        .filter(move |(_, each)| **each == wanted);
                    matching.map(|(index, _)| index)
                };
                let mut own = of((Some(from), Some(to)));
                let mut shared = of((Some(from), None)).chain(of((None, Some(to))));
                let (first, second) = match own.next() {
                    Some(index) => (Some(index), own.next()),
                    None => (shared.next(), shared.next()),
                };
                if second.is_some() {
                    let name = |host: usize| self.hosts[host].name.clone();
                    return Err(ConfigError::TwoBottlenecks(name(from), name(to)));
                }
                found.of_path[from][to] = first;
            }
        }
        Ok(found)
    }

    fn find(&self, key: &'static str, name: &str) -> Result<usize, ConfigError> {
        let place = self.hosts.iter().position(|host| host.name == name);
        place.ok_or_else(|| ConfigError::NoSuchHost(key, name.to_owned()))
    }
}

impl Narrow {
    fn line(&self) -> Result<Bottleneck, ConfigError> {
        let limits = Limits {
            packets: self.queue_packets,
            bytes: self.queue_bytes,
        };
        let rate = self.rate_bps.get();
        if self.from.is_none() && self.to.is_none() {
            Err(ConfigError::NoEnd)
        } else if limits == Limits::default() {
            Err(ConfigError::NoLimit(rate))
        } else if rate > MAX_RATE_BPS {
            Err(ConfigError::TooFast(rate))
        } else {
            Ok(Bottleneck::new(self.rate_bps, limits))
        }
    }
}

fn mac<'de, D: Deserializer<'de>>(input: D) -> Result<Mac, D::Error> {
    let text = String::deserialize(input)?;
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        *byte = parts
            .next()
            .and_then(|part| u8::from_str_radix(part, 16).ok())
            .ok_or_else(|| {
                serde::de::Error::custom(format!("{text:?} is not an Ethernet address"))
            })?;
    }
    match parts.next() {
        None => Ok(mac),
        Some(_) => Err(serde::de::Error::custom(format!(
            "{text:?} is not an Ethernet address"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"lateness": "l.csv", "default_rtt_us": 1000,
        "hosts": [
            {"name": "a", "interface": "a", "mac": "02:00:00:00:00:0a", "gateway": "02:00:00:00:00:01", "addresses": ["198.18.0.1"]},
            {"name": "b", "interface": "b", "mac": "02:00:00:00:00:0b", "gateway": "02:00:00:00:00:01", "addresses": ["2001:db8::1"]},
            {"name": "c", "interface": "c", "mac": "02:00:00:00:00:0c", "gateway": "02:00:00:00:00:01", "addresses": []}],
        "rtt_us": [["a", "b", 3000]], "drops": [{"ip": "198.18.0.1", "rule": "first_answer"}]}"#;

    #[test]
    fn half_the_round_trip_each_way() {
        let config: Config = serde_json::from_str(TEXT).expect("the text above");
        let delays = config.delays().expect("its hosts exist");
        assert_eq!(delays[0][1], 1_500_000);
        assert_eq!(delays[1][0], 1_500_000);
        assert_eq!(delays[2][0], 500_000);
        assert_eq!(config.hosts[1].mac, [2, 0, 0, 0, 0, 11]);
    }

    #[test]
    fn mistakes_are_named() {
        let twice = TEXT.replace("2001:db8::1", "198.18.0.1");
        let config: Config = serde_json::from_str(&twice).expect("well formed");
        assert!(matches!(config.owners(), Err(ConfigError::AddressTwice(_))));
        let unknown = TEXT.replace(r#"["a", "b", 3000]"#, r#"["a", "x", 3000]"#);
        let config: Config = serde_json::from_str(&unknown).expect("well formed");
        assert!(matches!(
            config.delays(),
            Err(ConfigError::NoSuchHost("rtt_us", _))
        ));
        assert!(
            serde_json::from_str::<Config>(&TEXT.replace("02:00:00:00:00:0a", "02:00")).is_err()
        );
    }

    fn narrowed(bottlenecks: &str) -> Result<Bottlenecks, ConfigError> {
        let more = format!(r#""bottlenecks": [{bottlenecks}], "drops""#);
        let text = TEXT.replace(r#""drops""#, &more);
        let config: Config = serde_json::from_str(&text).map_err(ConfigError::NotJson)?;
        config.bottlenecks()
    }

    #[test]
    fn which_bottleneck_a_packet_passes() {
        let own = r#"{"from": "a", "to": "b", "rate_bps": 8, "queue_packets": 1}"#;
        let leaves = r#"{"from": "a", "rate_bps": 8, "queue_bytes": 1500}"#;
        let reaches = r#"{"to": "b", "rate_bps": 8, "queue_bytes": 1500}"#;
        let none = [None; 3];
        for (entries, of_path) in [
            (String::new(), [none; 3]),
            (own.to_owned(), [[None, Some(0), None], none, none]),
            (
                leaves.to_owned(),
                [[None, Some(0), Some(0)], none, none],
            ),
            (
                reaches.to_owned(),
                [[None, Some(0), None], none, [None, Some(0), None]],
            ),
            (
                format!("{leaves}, {own}"),
                [[None, Some(1), Some(0)], none, none],
            ),
            (
                r#"{"from": "c", "rate_bps": 8, "queue_packets": 1}, {"to": "c", "rate_bps": 8, "queue_packets": 1}"#
                    .to_owned(),
                [
                    [None, None, Some(1)],
                    [None, None, Some(1)],
                    [Some(0), Some(0), None],
                ],
            ),
            (
                format!("{leaves}, {reaches}, {own}"),
                [
                    [None, Some(2), Some(0)],
                    none,
                    [None, Some(1), None],
                ],
            ),
        ] {
            let found = narrowed(&entries).expect("no path has two");
            assert_eq!(found.of_path, of_path, "{entries}");
        }
    }

    #[test]
    fn each_direction_is_a_line_of_its_own() {
        let mut found = narrowed(
            r#"{"from": "a", "to": "b", "rate_bps": 8000000, "queue_packets": 1},
               {"from": "b", "to": "a", "rate_bps": 80000000, "queue_packets": 1}"#,
        )
        .expect("no path has two");
        let (there, back) = (found.of_path[0][1], found.of_path[1][0]);
        let lengths = [
            (there, Some(1_000_000)),
            (back, Some(100_000)),
            (there, None),
            (back, None),
        ];
        for (index, wait) in lengths {
            let line = &mut found.lines[index.expect("declared")];
            assert_eq!(line.admit(0, 1000), wait);
        }
    }

    #[test]
    fn mistakes_of_bottlenecks_are_named() {
        for (entries, message) in [
            (
                r#"{"rate_bps": 8, "queue_packets": 1}"#,
                "without `from` and `to`",
            ),
            (
                r#"{"from": "a", "rate_bps": 8}"#,
                "of 8 bit/s without a limit",
            ),
            (
                r#"{"from": "x", "rate_bps": 8, "queue_packets": 1}"#,
                "bottlenecks names x, which is not a host",
            ),
            (
                r#"{"from": "a", "rate_bps": 0, "queue_packets": 1}"#,
                "nonzero",
            ),
            (
                r#"{"from": "a", "rate_bps": 8, "queue_packets": 0}"#,
                "nonzero",
            ),
            (
                r#"{"from": "a", "rate_bps": 8, "queue_bytes": -1}"#,
                "nonzero",
            ),
            (
                r#"{"from": "a", "rate_bps": 1000000000001, "queue_packets": 1}"#,
                "at most 1000000000000",
            ),
            (
                r#"{"from": "a", "rate_bps": 8, "queue_packets": 1}, {"to": "b", "rate_bps": 8, "queue_packets": 1}"#,
                "two bottlenecks for packets from a to b",
            ),
            (
                r#"{"from": "a", "to": "c", "rate_bps": 8, "queue_packets": 1},
                   {"from": "a", "to": "c", "rate_bps": 9, "queue_packets": 1}"#,
                "two bottlenecks for packets from a to c",
            ),
        ] {
            let error = narrowed(entries).expect_err(entries).to_string();
            assert!(error.contains(message), "{entries}: {error}");
        }
    }
}
