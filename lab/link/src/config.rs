//! The JSON configuration: hosts and addresses, delays, and drops.

use serde::{Deserialize, Deserializer};
use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
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
}

/// A host behind one interface of this namespace; `mac` is its eth0, `gateway` this end.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    OddFlows,
    FirstAnswer,
}

#[derive(Debug)]
pub enum ConfigError {
    Unreadable(std::io::Error),
    NotJson(serde_json::Error),
    NoSuchHost(String),
    AddressTwice(IpAddr),
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::NotJson(error) => write!(f, "is not a link configuration: {error}"),
            Self::NoSuchHost(name) => write!(f, "rtt_us names {name}, which is no host"),
            Self::AddressTwice(ip) => write!(f, "{ip} belongs to two hosts"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(ConfigError::Unreadable)?;
        serde_json::from_str(&text).map_err(ConfigError::NotJson)
    }

    /// Which host (index into `hosts`) owns which address.
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

    /// One-way delays in nanoseconds, by (from, to): half the round-trip time each way.
    pub fn delays(&self) -> Result<Vec<Vec<u64>>, ConfigError> {
        let n = self.hosts.len();
        let mut delays = vec![vec![self.default_rtt_us * 500; n]; n];
        let find = |name: &str| {
            let place = self.hosts.iter().position(|host| host.name == name);
            place.ok_or_else(|| ConfigError::NoSuchHost(name.to_owned()))
        };
        for (one, other, rtt_us) in &self.rtt_us {
            let (a, b) = (find(one)?, find(other)?);
            delays[a][b] = rtt_us * 500;
            delays[b][a] = rtt_us * 500;
        }
        Ok(delays)
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
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is no Ethernet address")))?;
    }
    match parts.next() {
        None => Ok(mac),
        Some(_) => Err(serde::de::Error::custom(format!(
            "{text:?} is no Ethernet address"
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
        assert!(matches!(config.delays(), Err(ConfigError::NoSuchHost(_))));
        assert!(
            serde_json::from_str::<Config>(&TEXT.replace("02:00:00:00:00:0a", "02:00")).is_err()
        );
    }
}
