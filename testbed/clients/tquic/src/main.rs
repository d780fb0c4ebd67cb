//! The testbed's client for tquic, which includes TLS (BoringSSL) and has no runtime: a loop over a socket and a timer.
//!
//! | module | |
//! | --- | --- |
//! | [`exchange`] | callbacks of the connection: send the request, store the response |
//! | [`network`] | the socket and how long to wait for it |

mod exchange;
mod network;

use exchange::{Exchange, Happened};
use firstflight_testbed_clients::http::{self, ALPN, NO_ERROR};
use firstflight_testbed_clients::own_log::OwnLog;
use firstflight_testbed_clients::own_tls;
use firstflight_testbed_clients::program::{self, CLOSING, Failure, Progress};
use firstflight_testbed_clients::{End, Request};
use network::{LONGEST, Network};
use std::cell::RefCell;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tquic::{Config, Endpoint, TlsConfig};

fn main() -> ExitCode {
    // SAFETY: this program has one thread.
    unsafe { own_tls::trust_no_others() };
    let version = concat!("tquic/", env!("BUILT_WITH_TQUIC"));
    program::run("firstflight-tquic-client", version, exchanged).into()
}

fn exchanged(request: &Request, progress: &mut Progress) -> Result<(), Failure> {
    let failed = |error: String| (End::Failed, error);
    let patience = request.limit().map_err(failed)?;
    let config = config(request, patience).map_err(failed)?;
    let sent = http::sent(request).map_err(failed)?;
    let log = OwnLog::new();
    let network = Rc::new(Network::new(request.ip).map_err(failed)?);
    let happened = Rc::new(RefCell::new(Happened::default()));
    let handler = Exchange::new(sent, log.clone(), happened.clone());
    let endpoint = Endpoint::new(Box::new(config), false, Box::new(handler), network.clone());
    let mut client = Client {
        endpoint,
        network,
        happened,
        room: vec![0; LONGEST],
        until: Instant::now() + patience,
    };
    let ended = client.exchange(request, progress);
    let result = progress.finish(ended);
    client.close();
    result.and(log.write().map_err(failed))
}

/// A connection with the endpoint and socket.
struct Client {
    endpoint: Endpoint,
    network: Rc<Network>,
    happened: Rc<RefCell<Happened>>,
    /// Buffer for received datagrams.
    room: Vec<u8>,
    until: Instant,
}

impl Client {
    /// Exchanges the request; `None` if it exceeds the time limit. Errors are one sentence.
    fn exchange(
        &mut self,
        request: &Request,
        progress: &mut Progress,
    ) -> Option<Result<(), String>> {
        let host = Some(request.host.as_str());
        let connected = self.endpoint.connect(
            self.network.local(),
            request.address(),
            host,
            None,
            None,
            None,
        );
        let number = match connected {
            Ok(number) => number,
            Err(error) => return Some(Err(error.to_string())),
        };
        let mut known = false;
        let ended = loop {
            if let Err(error) = self.endpoint.process_connections() {
                break Some(Err(error.to_string()));
            }
            let now = self.happened.take();
            if now.connected && !known {
                known = true;
                progress.connected();
            }
            if let Err(error) = progress.received(&now.received) {
                break Some(Err(error));
            }
            if now.finished {
                break Some(progress.finished());
            }
            if let Some(error) = now.failed.or_else(|| self.closing(number)) {
                break Some(Err(error));
            }
            match self.wait() {
                Ok(true) => (),
                Ok(false) => break None,
                Err(error) => break Some(Err(error)),
            }
        };
        if let Some(connection) = self.endpoint.conn_get_mut(number) {
            // It fails only if the connection is already closed.
            let _ = connection.close(true, NO_ERROR.into(), b"");
        }
        ended
    }

    /// Returns the reason, in one sentence, if a connection is closing or draining.
    fn closing(&mut self, number: u64) -> Option<String> {
        let connection = self.endpoint.conn_get_mut(number)?;
        let over = connection.is_closing() || connection.is_draining();
        over.then(|| exchange::why(connection))
    }

    /// Sends CONNECTION_CLOSE and waits for the end of the closing period (RFC 9000, section 10.2).
    fn close(&mut self) {
        self.until = Instant::now() + CLOSING;
        while self.endpoint.process_connections().is_ok() {
            if self.happened.take().closed || !matches!(self.wait(), Ok(true)) {
                break;
            }
        }
        self.endpoint.close(true);
    }

    /// Waits for datagrams or the connection's timer and passes them to tquic; `false` if no time is left.
    fn wait(&mut self) -> Result<bool, String> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        let wait = self.endpoint.timeout().map_or(left, |wait| wait.min(left));
        self.network.wait(wait)?;
        while let Some((length, info)) = self.network.receive(&mut self.room)? {
            // tquic drops invalid packets. An effect on the connection shows in its state.
            let _ = self.endpoint.recv(&mut self.room[..length], &info);
        }
        self.endpoint.on_timeout(Instant::now());
        Ok(true)
    }
}

/// tquic's default settings, with the timeouts of the request.
fn config(request: &Request, patience: Duration) -> Result<Config, String> {
    let roots = own_tls::roots(request)?;
    let unreadable = |error| format!("{roots}: {error}");
    let mut tls = TlsConfig::new_client_config(vec![ALPN.to_vec()], false).map_err(text)?;
    tls.set_verify(true);
    tls.set_ca_certs(roots).map_err(unreadable)?;
    let mut config = Config::new().map_err(text)?;
    let milliseconds = u64::try_from(patience.as_millis()).map_err(text)?;
    config.set_max_idle_timeout(milliseconds);
    config.set_max_handshake_timeout(milliseconds);
    config.set_tls_config(tls);
    Ok(config)
}

/// Formats an error.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
