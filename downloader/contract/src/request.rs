//! Requests.

use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

/// One download. With [`Method::Head`], only a check whether the file exists. Other fields in a line are ignored: they
/// are for TCP clients. Clients of the testbed ignore `method`, `http` and both limits of bytes.
#[derive(Debug, Deserialize)]
pub struct Request {
    pub host: String,
    pub ip: IpAddr,
    pub port: u16,
    pub path: String,
    pub user_agent: String,
    pub timeout_s: f64,
    pub max_bytes: u64,
    /// Limits the size of all received datagrams, with their headers; `None`: no limit.
    #[serde(default)]
    pub max_wire_bytes: Option<u64>,
    pub roots: String,
    pub verify: bool,
    #[serde(default)]
    pub method: Method,
    #[serde(default)]
    pub http: Http,
}

impl Request {
    /// Returns the server's address.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }

    /// Returns the value of `:authority`: the host, and the port unless it is 443.
    pub fn authority(&self) -> String {
        match self.port {
            443 => self.host.clone(),
            port => format!("{}:{port}", self.host),
        }
    }

    /// Returns the time limit of the whole exchange, which can be added to the current time. The error is one sentence.
    pub fn limit(&self) -> Result<Duration, String> {
        Duration::try_from_secs_f64(self.timeout_s)
            .ok()
            .filter(|&limit| Instant::now().checked_add(limit).is_some())
            .ok_or_else(|| format!("timeout_s: {} is no time", self.timeout_s))
    }
}

/// Whether to request the file or only the header section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Method {
    #[default]
    Get,
    Head,
}

impl Method {
    /// Returns the value of `:method`.
    pub fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
        }
    }
}

/// The HTTP version of a request over QUIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Http {
    #[default]
    #[serde(rename = "3")]
    Three,
    /// HTTP/0.9, only in the testbed.
    #[serde(rename = "0.9")]
    Plain,
}

impl Http {
    /// Returns the version in answers.
    pub fn version(self) -> &'static str {
        match self {
            Http::Three => "3",
            Http::Plain => "0.9",
        }
    }

    /// Returns the ALPN protocol (RFC 7301; RFC 9114 3.1 for HTTP/3).
    pub fn protocol(self) -> &'static [u8] {
        match self {
            Http::Three => b"h3",
            Http::Plain => b"hq-interop",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"url":"https://a.test/","host":"a.test","ip":"127.0.0.1","port":443,"path":"/","user_agent":"x",
        "timeout_s":1.5,"max_bytes":1,"roots":"r.pem","verify":true,"window_clamp":null,"http":"3"}"#;

    fn of(line: &str) -> Result<Request, serde_json::Error> {
        serde_json::from_str(line)
    }

    #[test]
    fn a_request_is_a_line_of_the_contract() {
        let request = of(LINE).expect("a request");
        assert_eq!(request.address().to_string(), "127.0.0.1:443");
        assert_eq!(
            (request.method, request.max_wire_bytes),
            (Method::Get, None)
        );
        let with = |more: &str| LINE.replace(r#""http":"3""#, more);
        assert_eq!(request.http, Http::Three);
        let plain = of(&with(r#""http":"0.9""#)).expect("a request");
        assert_eq!((plain.http, plain.http.version()), (Http::Plain, "0.9"));
        let head = of(&with(r#""method":"HEAD""#)).expect("a request");
        assert_eq!((head.method, head.method.name()), (Method::Head, "HEAD"));
        for broken in [
            "",
            "{}",
            "[]",
            &LINE[..LINE.len() - 1],
            &LINE.replace("127.0.0.1", "a.test"),
            &with(r#""method":"POST""#),
            &with(r#""http":"2""#),
        ] {
            assert!(of(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn a_time_limit_is_a_time() {
        let limit = |seconds: &str| of(&LINE.replace("1.5", seconds)).expect("a number").limit();
        assert_eq!(limit("1.5"), Ok(Duration::from_millis(1500)));
        for wrong in ["-1", "1e300", "1.8e19"] {
            assert!(
                limit(wrong).is_err_and(|why| why.contains("is no time")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn the_authority_has_the_port_of_other_services() {
        for (port, expected) in [("443", "a.test"), ("4433", "a.test:4433")] {
            let request = of(&LINE.replace("443", port)).expect("a request");
            assert_eq!(request.authority(), expected);
        }
    }
}
