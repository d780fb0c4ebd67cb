//! The JSON file for a lab server (docs/reference/lab-hosts.md), and the selection of the endpoint for a client.

use serde::Deserialize;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub port: u16,
    pub listen: Vec<IpAddr>,
    pub certificates: BTreeMap<String, CertificateFiles>,
    pub endpoints: Vec<Endpoint>,
    /// Settings of the server's stack. A server rejects settings that it does not support.
    #[serde(default)]
    pub transport: Transport,
}

/// Settings for a stack; `None`: the stack's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transport {
    /// `cubic`, `reno` or `bbr`.
    pub congestion_control: Option<String>,
    /// Ack-Eliciting Threshold of ACK_FREQUENCY frames (draft-ietf-quic-ack-frequency): a client sends an ACK after
    /// more ack-eliciting packets than this.
    pub ack_eliciting_threshold: Option<u32>,
    /// Ack-Eliciting Threshold of a second request, which needs `ack_later_after`.
    pub ack_eliciting_threshold_later: Option<u32>,
    /// Number of ack-eliciting 1-RTT packets that a server sends before the second request.
    pub ack_later_after: Option<u64>,
    /// Reordering Threshold of ACK_FREQUENCY frames. 0: reordering causes no ACK; 1: it causes an immediate ACK.
    pub ack_reordering_threshold: Option<u32>,
    /// Requested Max Ack Delay of ACK_FREQUENCY frames.
    pub ack_delay_us: Option<u64>,
    /// Whether several datagrams may go to the kernel as a single buffer (segmentation offload).
    #[serde(default)]
    pub gso: bool,
    /// With `gso`: the number of datagrams that fill a buffer.
    pub gso_segments: Option<usize>,
    /// With `gso` and `launch_clock`: whether each datagram in a buffer has a launch time, if the kernel supports
    /// it.
    #[serde(default)]
    pub gso_paced: bool,
    /// Clock of the datagrams' launch times: `monotonic` or `tai`.
    pub launch_clock: Option<String>,
    /// Log of each datagram's launch time and of each change to a congestion window.
    pub log: Option<PathBuf>,
}

impl Transport {
    /// Rejects all settings with a sentence.
    pub fn refuse(&self) -> Result<(), String> {
        if *self == Self::default() {
            return Ok(());
        }
        Err("`transport` asks for settings that this server does not have".to_owned())
    }
}

/// PEM files: the chain (leaf first, without the root) and the leaf's private key.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CertificateFiles {
    pub chain: PathBuf,
    pub key: PathBuf,
}

/// The answer for one name at one address. The server's README lists the values of `mode`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Endpoint {
    pub domain: String,
    pub ip: IpAddr,
    pub mode: String,
    pub delay_us: Option<u64>,
    pub certificate: String,
    /// The application protocol that the server accepts.
    #[serde(default = "h3")]
    pub alpn: String,
    /// The answer to requests; `None`: requests are never answered.
    #[serde(default)]
    pub http: Option<AnswerConfig>,
}

/// The answer to a request, for any method and path.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerConfig {
    pub status: u16,
    /// Names and values of the header section, in order.
    pub headers: Vec<(String, String)>,
    /// Delay from the request to the answer; null = 0.
    pub delay_us: Option<u64>,
    /// Length of the content, which is zeros; 0: only the header section.
    #[serde(default)]
    pub body_bytes: u64,
}

fn h3() -> String {
    "h3".to_owned()
}

impl Endpoint {
    /// Returns the declared delay, or zero without one.
    pub fn delay(&self) -> Duration {
        Duration::from_micros(self.delay_us.unwrap_or(0))
    }

    /// Returns a description of this endpoint for messages.
    pub fn label(&self) -> String {
        format!("endpoint {} at {}", self.domain, self.ip)
    }
}

#[derive(Debug)]
pub enum ConfigError {
    Unreadable(std::io::Error),
    NotJson(serde_json::Error),
    NothingToListenOn,
    NobodyAt(IpAddr),
    NotListened {
        endpoint: String,
    },
    NoCertificate {
        endpoint: String,
        certificate: String,
    },
    Twice {
        endpoint: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => write!(f, "cannot be read: {error}"),
            Self::NotJson(error) => write!(f, "is not a server's configuration: {error}"),
            Self::NothingToListenOn => write!(f, "`listen` names no address"),
            Self::NobodyAt(ip) => write!(f, "`listen` names {ip}, but no endpoint has that ip"),
            Self::NotListened { endpoint } => {
                write!(f, "{endpoint}: its ip is not in `listen`")
            }
            Self::NoCertificate {
                endpoint,
                certificate,
            } => {
                write!(f, "{endpoint}: there is no certificate `{certificate}`")
            }
            Self::Twice { endpoint } => write!(f, "{endpoint} is declared twice"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks a configuration file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(file).map_err(ConfigError::Unreadable)?;
        Self::parse(&text)
    }

    /// Parses and checks a configuration file: every reference must have a declaration.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let config: Self = serde_json::from_str(text).map_err(ConfigError::NotJson)?;
        if config.listen.is_empty() {
            return Err(ConfigError::NothingToListenOn);
        }
        for endpoint in &config.endpoints {
            if !config.listen.contains(&endpoint.ip) {
                return Err(ConfigError::NotListened {
                    endpoint: endpoint.label(),
                });
            }
            if !config.certificates.contains_key(&endpoint.certificate) {
                return Err(ConfigError::NoCertificate {
                    endpoint: endpoint.label(),
                    certificate: endpoint.certificate.clone(),
                });
            }
        }
        for &ip in &config.listen {
            if !config.endpoints.iter().any(|endpoint| endpoint.ip == ip) {
                return Err(ConfigError::NobodyAt(ip));
            }
        }
        Ok(config)
    }
}

/// Finds the behaviour for (destination address of the packet, SNI).
#[derive(Debug)]
pub struct Routes<B> {
    addresses: HashMap<IpAddr, Names<B>>,
}

#[derive(Debug)]
struct Names<B> {
    first: B,
    by_name: HashMap<String, B>,
}

impl<B: Copy> Routes<B> {
    /// `behave` converts each endpoint into the program's behaviour, or returns an error message.
    pub fn new(
        config: &Config,
        mut behave: impl FnMut(&Endpoint) -> Result<B, String>,
    ) -> Result<Self, String> {
        let mut addresses: HashMap<IpAddr, Names<B>> = HashMap::new();
        for endpoint in &config.endpoints {
            let behaviour =
                behave(endpoint).map_err(|problem| format!("{}: {problem}", endpoint.label()))?;
            let names = addresses.entry(endpoint.ip).or_insert_with(|| Names {
                first: behaviour,
                by_name: HashMap::new(),
            });
            let name = endpoint.domain.to_ascii_lowercase();
            if names.by_name.insert(name, behaviour).is_some() {
                return Err(ConfigError::Twice {
                    endpoint: endpoint.label(),
                }
                .to_string());
            }
        }
        Ok(Self { addresses })
    }

    /// Returns the endpoint for an SNI. An unknown or missing SNI gets the first endpoint of the address.
    pub fn find(&self, ip: IpAddr, sni: Option<&str>) -> Option<B> {
        let names = self.addresses.get(&ip)?;
        let named = sni.and_then(|sni| names.by_name.get(&sni.to_ascii_lowercase()));
        Some(*named.unwrap_or(&names.first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"port": 443, "listen": ["127.0.0.1"],
        "certificates": {"small": {"chain": "c.pem", "key": "k.pem"}},
        "endpoints": [
          {"domain": "a.test", "ip": "127.0.0.1", "mode": "iack", "delay_us": 3200, "certificate": "small"},
          {"domain": "B.test", "ip": "127.0.0.1", "mode": "wait", "delay_us": null, "certificate": "small",
           "alpn": "h2", "http": {"status": 301, "headers": [["location", "/b"]], "delay_us": 7}}]}"#;

    #[test]
    fn the_name_decides_and_an_unknown_one_is_the_first() {
        let config = Config::parse(GOOD).unwrap();
        let routes = Routes::new(&config, |endpoint| Ok(endpoint.delay_us)).unwrap();
        let ip = config.listen[0];
        assert_eq!(routes.find(ip, Some("b.TEST")), Some(None));
        assert_eq!(routes.find(ip, Some("c.test")), Some(Some(3200)));
        assert_eq!(routes.find(ip, None), Some(Some(3200)));
        assert_eq!(routes.find("127.0.0.2".parse().unwrap(), None), None);
    }

    #[test]
    fn answers_are_read_and_may_be_missing() {
        let config = Config::parse(GOOD).unwrap();
        let [silent, answering] = &config.endpoints[..] else {
            panic!("two endpoints");
        };
        assert_eq!(silent.alpn, "h3");
        assert!(silent.http.is_none());
        let answer = answering.http.as_ref().unwrap();
        assert_eq!(
            (answer.status, answer.delay_us, answer.body_bytes),
            (301, Some(7), 0)
        );
        assert_eq!(answer.headers, [("location".into(), "/b".into())]);
        assert_eq!(answering.alpn, "h2");
    }

    #[test]
    fn settings_of_the_stack_may_be_missing() {
        let plain = Config::parse(GOOD).unwrap().transport;
        assert_eq!(plain, Transport::default());
        assert!(plain.refuse().is_ok());
        let text = GOOD.replacen(
            "{",
            r#"{"transport": {"congestion_control": "reno", "ack_eliciting_threshold": 9},"#,
            1,
        );
        let asked = Config::parse(&text).unwrap().transport;
        assert_eq!(asked.congestion_control.as_deref(), Some("reno"));
        assert_eq!(
            (asked.ack_eliciting_threshold, asked.ack_delay_us),
            (Some(9), None)
        );
        assert!(asked.refuse().unwrap_err().contains("`transport`"));
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (from, to, words) in [
            ("\"small\"}", "\"huge\"}", "no certificate `huge`"),
            ("[\"127.0.0.1\"]", "[]", "no address"),
            ("[\"127.0.0.1\"]", "[\"127.0.0.1\", \"::1\"]", "names ::1"),
            ("[\"127.0.0.1\"]", "[\"127.0.0.9\"]", "not in `listen`"),
            ("\"port\"", "\"prot\"", "unknown field"),
            ("\"status\"", "\"state\"", "unknown field"),
        ] {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD);
            let problem = Config::parse(&text).unwrap_err().to_string();
            assert!(problem.contains(words), "{problem}");
        }
        let twice = GOOD.replace("B.test", "A.test");
        let config = Config::parse(&twice).unwrap();
        let problem = Routes::new(&config, |_| Ok(())).unwrap_err();
        assert!(problem.contains("twice"), "{problem}");
    }
}
