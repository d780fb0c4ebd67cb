//! The testbed's client on msquic, which has TLS of its own (OpenSSL) and threads that call back.
//!
//! | module | |
//! | --- | --- |
//! | [`certificate`] | whether a certificate is for a name, which msquic does not ask |
//! | [`exchange`] | a connection and its streams: what their callbacks report, by a channel |
//! | [`secrets`] | what SSLKEYLOGFILE gets |

mod certificate;
mod exchange;
mod secrets;

use exchange::Exchange;
use firstflight_testbed_clients::contract::{End, Request};
use firstflight_testbed_clients::http;
use firstflight_testbed_clients::program::{self, Failure, Progress};
use msquic::{Registration, RegistrationConfig};
use std::cell::OnceCell;
use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: this program has no other thread yet.
    unsafe { trust_no_others() };
    let registration = OnceCell::new();
    program::run("firstflight-msquic-client", |request, progress| {
        exchanged(&registration, request, progress)
    })
    .into()
}

/// msquic adds the machine's own roots to those of a request: here it finds none.
///
/// # Safety
///
/// No other thread may run.
unsafe fn trust_no_others() {
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        // SAFETY: the caller's.
        unsafe { std::env::set_var(name, "/dev/null") };
    }
}

/// `registration`: msquic's threads, which begin with the first request.
fn exchanged(
    registration: &OnceCell<Registration>,
    request: &Request,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let failed = |error: String| (End::Failed, error);
    let patience = request.limit().map_err(failed)?;
    request.verifies().map_err(failed)?;
    if !std::path::Path::new(&request.roots).is_file() {
        return Err(failed(format!("{}: there is no such file", request.roots)));
    }
    let sent = http::sent(request).map_err(failed)?;
    if registration.get().is_none() {
        let made = Registration::new(&RegistrationConfig::default());
        // Nobody else sets it.
        let _ = registration.set(made.map_err(|error| failed(error.to_string()))?);
    }
    let registration = registration
        .get()
        .ok_or_else(|| failed("msquic did not start".to_owned()))?;
    let mut exchange = Exchange::begin(registration, request, patience).map_err(failed)?;
    let ended = exchange.go_on(sent, progress);
    let result = progress.finish(ended);
    exchange.close().map_err(failed)?;
    result
}
