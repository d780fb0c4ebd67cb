//! The endpoint in a server's configuration, checked at the start.

use firstflight_listener::{AnswerConfig, CertificateFiles, Config, Endpoint, Transport};
use std::time::Duration;

/// The only protocol of these servers.
pub const PROTOCOL: &str = "h3";

/// The answer to a ClientHello while the server has no certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// An immediate ACK.
    InstantAck,
    /// No answer.
    Wait,
}

/// The declared behaviour of the endpoint.
#[derive(Debug, Clone)]
pub struct Behaviour {
    pub mode: Mode,
    /// Delay from the complete ClientHello until the certificate is available.
    pub delay: Duration,
    pub certificate: CertificateFiles,
    /// The answer to requests; `None`: requests get no answer.
    pub http: Option<AnswerConfig>,
    pub transport: Transport,
}

impl Behaviour {
    /// Returns the behaviour of the only endpoint; errors are one sentence.
    pub fn of(config: &Config) -> Result<Self, String> {
        let [endpoint] = &config.endpoints[..] else {
            let count = config.endpoints.len();
            return Err(format!("{count} endpoints: this server takes one"));
        };
        let mode = mode(endpoint).map_err(|error| format!("{}: {error}", endpoint.label()))?;
        let certificate = config.certificates.get(&endpoint.certificate);
        Ok(Self {
            mode,
            delay: endpoint.delay(),
            certificate: certificate.ok_or("the certificate is missing")?.clone(),
            http: endpoint.http.clone(),
            transport: config.transport.clone(),
        })
    }
}

fn mode(endpoint: &Endpoint) -> Result<Mode, String> {
    if endpoint.alpn != PROTOCOL {
        let alpn = &endpoint.alpn;
        return Err(format!(
            "`alpn` is `{alpn}`, but this server supports only {PROTOCOL}"
        ));
    }
    match endpoint.mode.as_str() {
        "iack" => Ok(Mode::InstantAck),
        "wait" => Ok(Mode::Wait),
        other => Err(format!("mode `{other}` is neither iack nor wait")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENDPOINT: &str = r#"{"domain": "a.test", "ip": "::1", "mode": "iack", "delay_us": 3200, "certificate": "c"}"#;

    fn behaviour(endpoints: &str) -> Result<Behaviour, String> {
        let text = format!(
            r#"{{"port": 1, "listen": ["::1"], "certificates": {{"c": {{"chain": "c", "key": "k"}}}}, "endpoints": [{endpoints}]}}"#
        );
        Behaviour::of(&Config::parse(&text).map_err(|error| error.to_string())?)
    }

    #[test]
    fn one_endpoint_says_all() {
        let found = behaviour(ENDPOINT).expect("a behaviour");
        assert_eq!(
            (found.mode, found.delay),
            (Mode::InstantAck, Duration::from_micros(3200))
        );
        let waiting = behaviour(&ENDPOINT.replace("iack", "wait")).expect("a behaviour");
        assert_eq!(waiting.mode, Mode::Wait);
    }

    #[test]
    fn what_it_cannot_do_is_one_sentence() {
        let two = format!("{ENDPOINT}, {}", ENDPOINT.replace("a.test", "b.test"));
        for (given, words) in [
            (two.as_str(), "2 endpoints: this server takes one"),
            (
                ENDPOINT.replace("iack", "retry").as_str(),
                "mode `retry` is neither iack nor wait",
            ),
            (
                ENDPOINT
                    .replace("\"c\"}", "\"c\", \"alpn\": \"h2\"}")
                    .as_str(),
                "supports only h3",
            ),
        ] {
            let Err(error) = behaviour(given) else {
                panic!("{given} is taken");
            };
            assert!(error.contains(words), "{error}");
        }
    }
}
