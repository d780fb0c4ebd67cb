//! The behaviour of an endpoint as configured, checked at the start.

use firstflight_listener::{Config, Endpoint};
use std::time::Duration;

/// The only protocol that this server accepts, because quiche has a single list of protocols for all names.
pub const PROTOCOL: &str = "h3";

/// The modes of README.md.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    InstantAck,
    Wait,
    Retry,
    RetryInstantAck,
    HelloRetry,
    ServerHelloThenCertificate,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    pub mode: Mode,
    pub delay: Duration,
    /// Index of the certificate in the configuration, which lists certificates in the order of their names.
    pub certificate: usize,
    /// Index of the endpoint in the configuration, which has the answer to requests.
    pub endpoint: usize,
}

impl Behaviour {
    /// Returns an endpoint's behaviour, or an error message.
    pub fn of(endpoint: &Endpoint, config: &Config) -> Result<Self, String> {
        if endpoint.alpn != PROTOCOL {
            return Err(format!(
                "`alpn` is `{}`, but this server accepts only {PROTOCOL}",
                endpoint.alpn
            ));
        }
        let mode = match endpoint.mode.as_str() {
            "iack" => Mode::InstantAck,
            "wait" => Mode::Wait,
            "retry" => Mode::Retry,
            "retry_iack" => Mode::RetryInstantAck,
            "hello_retry" => Mode::HelloRetry,
            "sh_then_certificate" => Mode::ServerHelloThenCertificate,
            other => {
                return Err(format!(
                    "mode `{other}` is not in lab/stacks/quiche/README.md"
                ));
            }
        };
        let needs_delay = matches!(
            mode,
            Mode::InstantAck | Mode::RetryInstantAck | Mode::ServerHelloThenCertificate
        );
        if needs_delay && endpoint.delay_us.is_none() {
            return Err(format!("mode `{}` needs `delay_us`", endpoint.mode));
        }
        let certificate = config
            .certificates
            .keys()
            .position(|name| *name == endpoint.certificate)
            .ok_or_else(|| format!("there is no certificate `{}`", endpoint.certificate))?;
        let same = |other: &Endpoint| other.ip == endpoint.ip && other.domain == endpoint.domain;
        let number = config.endpoints.iter().position(same);
        Ok(Self {
            mode,
            delay: endpoint.delay(),
            certificate,
            endpoint: number.ok_or("the configuration does not hold it")?,
        })
    }

    /// Returns whether the server must validate the client's address first.
    pub fn wants_retry(self) -> bool {
        matches!(self.mode, Mode::Retry | Mode::RetryInstantAck)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(mode: &str, delay: &str) -> Result<Behaviour, String> {
        speaking(mode, delay, "h3")
    }

    fn speaking(mode: &str, delay: &str, alpn: &str) -> Result<Behaviour, String> {
        let config = Config::parse(&format!(
            r#"{{"port": 1, "listen": ["::1"],
                "certificates": {{"small": {{"chain": "c", "key": "k"}}, "large": {{"chain": "c", "key": "k"}}}},
                "endpoints": [{{"domain": "a.test", "ip": "::1", "mode": "{mode}", "delay_us": {delay},
                               "certificate": "small", "alpn": "{alpn}"}}]}}"#
        ))
        .unwrap();
        Behaviour::of(&config.endpoints[0], &config)
    }

    #[test]
    fn delays_are_demanded_where_they_mean_something() {
        let iack = endpoint("iack", "3200").unwrap();
        assert_eq!(iack.delay, Duration::from_micros(3200));
        assert_eq!(
            iack.certificate, 1,
            "in the order of the names: large, small"
        );
        assert!(endpoint("iack", "null").unwrap_err().contains("needs"));
        assert!(endpoint("wait", "null").is_ok());
        assert!(endpoint("insta", "1").unwrap_err().contains("insta"));
        assert!(speaking("wait", "1", "h2").unwrap_err().contains("only h3"));
    }
}
