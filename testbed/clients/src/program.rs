//! A client as a program: its arguments, the networks that it may contact, and one answer per request.

use crate::http;
use firstflight_contract::answer::now_ns;
use firstflight_contract::program::{self, Stopped};
use firstflight_contract::{ClientAnswer, End, Request};
use ipnet::IpNet;
use std::io::Write;
use std::time::{Duration, Instant};

/// Maximum time to wait for the connection to close after the answer.
pub const CLOSING: Duration = Duration::from_secs(1);

/// A failed request: the class of its end, and one sentence.
pub type Failure = (End, String);

/// The progress of a request.
pub struct Progress {
    begun: Instant,
    tls_us: Option<u64>,
    /// Time at the end of the exchange, before the connection closes, which takes three probe timeouts.
    ended_us: Option<u64>,
    response: firstflight_wire::http3::ResponseStream,
    /// State that the stack needs until the connection is closed.
    pub kept: Option<Box<dyn std::any::Any>>,
}

impl Progress {
    fn new() -> Self {
        Self {
            begun: Instant::now(),
            tls_us: None,
            ended_us: None,
            response: http::response(),
            kept: None,
        }
    }

    fn elapsed_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Records that the handshake is complete.
    pub fn connected(&mut self) {
        self.tls_us = Some(self.elapsed_us());
    }

    /// Records the end of the exchange and maps it to the contract; `None`: the exchange exceeded the time limit.
    pub fn finish(&mut self, result: Option<Result<(), String>>) -> Result<(), Failure> {
        self.ended_us = Some(self.elapsed_us());
        match result {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) if self.tls_us.is_some() => Err((End::Reset, error)),
            Some(Err(error)) => Err((End::ConnectFailed, error)),
            None if self.tls_us.is_some() => Err((End::Timeout, "timed out".to_owned())),
            None => Err((End::ConnectFailed, "timed out".to_owned())),
        }
    }

    /// Adds bytes of the response stream.
    pub fn received(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.response.push(bytes).map_err(|error| error.to_string())
    }

    /// Records the end of the response stream.
    pub fn finished(&mut self) -> Result<(), String> {
        self.response.finish().map_err(|error| error.to_string())
    }
}

/// Runs the program `name`: requests on standard input, answers on standard output. Returns the exit status. `stack` is
/// the stack and version that it is built with, as NAME/VERSION. `exchange` sends a request to a permitted address, on
/// a new connection, and waits until the connection is closed.
pub fn run(
    name: &str,
    stack: &str,
    exchange: impl Fn(&Request, &mut Progress) -> Result<(), Failure>,
) -> u8 {
    match answer_all(name, stack, exchange) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            2
        }
    }
}

fn answer_all(
    name: &str,
    stack: &str,
    exchange: impl Fn(&Request, &mut Progress) -> Result<(), Failure>,
) -> Result<(), String> {
    let text = |stopped: Stopped| stopped.to_string();
    let given: Vec<String> = std::env::args().skip(1).collect();
    let version = env!("CARGO_PKG_VERSION");
    if program::explains(&given, name, version, &help(name)).map_err(text)? {
        return Ok(());
    }
    let networks = networks(&given)?;
    let answer = |request: &Request| {
        if networks.iter().any(|network| network.contains(&request.ip)) {
            answered(&exchange, request)
        } else {
            ClientAnswer::blocked(format!("{} is in no network of allow-net", request.ip))
        }
    };
    program::serve(stack, answer).map_err(text)
}

fn help(name: &str) -> String {
    format!(
        "Sends HTTP/3 requests, each on a connection of its own: a request a line in, an answer a line out.

Usage: {name} allow-net=CIDR [allow-net=CIDR...]

Example: {name} allow-net=127.0.0.0/8 < requests.jsonl"
    )
}

fn networks(arguments: &[String]) -> Result<Vec<IpNet>, String> {
    let network = |argument: &String| match argument.strip_prefix("allow-net=") {
        Some(value) => match value.parse() {
            Ok(network) if is_allowable(&network) => Ok(network),
            Ok(_) => Err(format!(
                "{argument}: it must lie inside loopback, RFC 1918, fc00::/7, 198.18.0.0/15 or 2001:db8::/32"
            )),
            Err(error) => Err(format!("{argument}: {error}")),
        },
        None => Err(format!(
            "{argument}: expected allow-net=CIDR; --help shows an example"
        )),
    };
    arguments.iter().map(network).collect()
}

/// Returns whether a network contains no machines of third parties, by the list of the scanner's policy.
fn is_allowable(network: &IpNet) -> bool {
    const RANGES: &str = include_str!("../../../firstflight/egress/special_networks.csv");
    RANGES
        .lines()
        .filter_map(|line| line.strip_suffix(",allowable,"))
        .filter_map(|range| range.parse::<IpNet>().ok())
        .any(|range| range.contains(network))
}

fn answered(
    exchange: impl Fn(&Request, &mut Progress) -> Result<(), Failure>,
    request: &Request,
) -> ClientAnswer {
    let mut progress = Progress::new();
    let started_at = now_ns();
    let (end, detail) = match exchange(request, &mut progress) {
        Ok(()) => (End::Complete, None),
        Err((end, detail)) => (end, Some(detail)),
    };
    ClientAnswer {
        end,
        detail,
        started_at: Some(started_at),
        tls_us: progress.tls_us,
        duration_us: Some(progress.ended_us.unwrap_or_else(|| progress.elapsed_us())),
        status: progress.response.response().map(|found| found.status),
        body_bytes: progress.response.content_bytes(),
        ..ClientAnswer::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_arguments() {
        let of = |text: &str| networks(&[text.to_owned()]);
        assert_eq!(of("allow-net=127.0.0.0/8").expect("a network").len(), 1);
        for inside in ["::1/128", "10.91.0.0/16", "fc00::/7", "198.18.0.1/32"] {
            assert!(of(&format!("allow-net={inside}")).is_ok(), "{inside}");
        }
        for wrong in [
            "",
            "allow-net=",
            "allow-net=10.0.0.0/99",
            "allow-net=10.0.0.0/7",
            "allow-net=0.0.0.0/0",
            "allow-net=8.8.8.0/24",
            "allow-net=::/0",
            "blocklist=x",
        ] {
            let Err(error) = of(wrong) else {
                panic!("{wrong:?} is taken for a network");
            };
            assert!(error.starts_with(&format!("{wrong}: ")), "{error}");
        }
    }
}
