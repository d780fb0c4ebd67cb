//! A client as a program: its arguments, the networks that it may contact, and one answer for each request.

use crate::contract::{Answer, End, Request};
use crate::http::{self, Sent};
use crate::tls;
use ipnet::IpNet;
use rustls::ClientConfig;
use std::future::Future;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// After the answer, the longest wait for the end of the connection.
const CLOSING: Duration = Duration::from_secs(1);

/// What a client's stack does: connect, exchange, close. Errors are one sentence.
pub trait Stack {
    /// Exchanges the request on a new connection. `progress` learns what has happened so far.
    fn exchange(
        &self,
        request: &Request,
        tls: ClientConfig,
        sent: Sent,
        progress: &mut Progress,
    ) -> impl Future<Output = Result<(), String>>;

    /// Waits until the connection that `exchange` made is closed, and its last datagram sent.
    fn closed(&self, progress: &mut Progress) -> impl Future<Output = ()>;
}

/// What has happened to a request so far.
pub struct Progress {
    begun: Instant,
    tls_us: Option<u64>,
    /// When the exchange was over, before the connection was closed, which takes three probe timeouts.
    ended_us: Option<u64>,
    response: firstflight_wire::http3::ResponseStream,
    /// What the stack keeps until the connection is closed.
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

    /// The handshake is complete.
    pub fn connected(&mut self) {
        self.tls_us = Some(self.elapsed_us());
    }

    /// Bytes of the response's stream.
    pub fn received(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.response.push(bytes).map_err(|error| error.to_string())
    }

    /// The response's stream is over.
    pub fn finished(&mut self) -> Result<(), String> {
        self.response.finish().map_err(|error| error.to_string())
    }
}

/// Runs the program NAME: requests on standard input, answers on standard output. Returns the exit status.
pub fn run(name: &str, stack: &impl Stack) -> u8 {
    match answer_all(name, stack) {
        Ok(()) => 0,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "{name}: {error}");
            2
        }
    }
}

fn answer_all(name: &str, stack: &impl Stack) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    let mut say = |line: &str| {
        writeln!(out, "{line}")
            .and_then(|()| out.flush())
            .map_err(|error| format!("standard output: {error}"))
    };
    let given: Vec<String> = std::env::args().skip(1).collect();
    match given.first().map(String::as_str) {
        Some("--help" | "-h") => return say(&help(name)),
        Some("--version" | "-V") => return say(&version(name, ' ')),
        _ => {}
    }
    let networks = networks(&given)?;
    say(&format!(r#"{{"ready":"{}"}}"#, version(name, '/')))?;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|error| format!("standard input: {error}"))?;
        let request: Request = serde_json::from_str(&line)
            .map_err(|error| format!("{line:?} is no request: {error}"))?;
        let answer = if networks.iter().any(|one| one.contains(&request.ip)) {
            answered(stack, &request)
        } else {
            Answer {
                end: End::Blocked,
                detail: Some(format!("{} is in no network of allow-net", request.ip)),
                ..Answer::default()
            }
        };
        say(&serde_json::to_string(&answer).map_err(|error| error.to_string())?)?;
    }
    Ok(())
}

fn help(name: &str) -> String {
    format!(
        "Sends HTTP/3 requests, each on a connection of its own: a request a line in, an answer a line out.

Usage: {name} allow-net=CIDR [allow-net=CIDR...]

Example: {name} allow-net=127.0.0.0/8 < requests.jsonl"
    )
}

fn version(name: &str, between: char) -> String {
    format!("{name}{between}{}", env!("CARGO_PKG_VERSION"))
}

fn networks(arguments: &[String]) -> Result<Vec<IpNet>, String> {
    let network = |argument: &String| match argument.strip_prefix("allow-net=") {
        Some(value) => value
            .parse()
            .map_err(|error| format!("{argument}: {error}")),
        None => Err(format!(
            "{argument}: expected allow-net=CIDR; --help shows an example"
        )),
    };
    arguments.iter().map(network).collect()
}

/// Makes a runtime of one thread for one request: nothing of a connection outlives it.
fn answered(stack: &impl Stack, request: &Request) -> Answer {
    let mut progress = Progress::new();
    let started_at = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_nanos() as u64);
    let (end, detail) = match exchanged(stack, request, &mut progress) {
        Ok(()) => (End::Complete, None),
        Err((end, detail)) => (end, Some(detail)),
    };
    Answer {
        end,
        detail,
        started_at: Some(started_at),
        tls_us: progress.tls_us,
        duration_us: Some(progress.ended_us.unwrap_or_else(|| progress.elapsed_us())),
        status: progress.response.response().map(|found| found.status),
        body_bytes: progress.response.content_bytes(),
    }
}

fn exchanged(
    stack: &impl Stack,
    request: &Request,
    progress: &mut Progress,
) -> Result<(), (End, String)> {
    let failed = |error: String| (End::Failed, error);
    let patience = request
        .patience()
        .ok_or_else(|| failed(format!("timeout_s: {} is no time", request.timeout_s)))?;
    let tls = tls::config(request).map_err(failed)?;
    let sent = http::sent(request).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        let exchange = stack.exchange(request, tls, sent, progress);
        let ended = tokio::time::timeout(patience, exchange).await;
        progress.ended_us = Some(progress.elapsed_us());
        let connected = progress.tls_us.is_some();
        let result = match ended {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) if connected => Err((End::Reset, error)),
            Ok(Err(error)) => Err((End::ConnectFailed, error)),
            Err(_) if connected => Err((End::Timeout, "timed out".to_owned())),
            Err(_) => Err((End::ConnectFailed, "timed out".to_owned())),
        };
        let _ = tokio::time::timeout(CLOSING, stack.closed(progress)).await;
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn networks_are_arguments() {
        let of = |text: &str| networks(&[text.to_owned()]);
        assert_eq!(of("allow-net=127.0.0.0/8").expect("a network").len(), 1);
        for wrong in ["", "allow-net=", "allow-net=10.0.0.0/99", "blocklist=x"] {
            let Err(error) = of(wrong) else {
                panic!("{wrong:?} is taken for a network");
            };
            assert!(error.starts_with(&format!("{wrong}: ")), "{error}");
        }
    }
}
