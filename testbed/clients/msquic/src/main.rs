//! The testbed's client for msquic, which includes its TLS (OpenSSL) and calls back on its own threads.
//!
//! | module | |
//! | --- | --- |
//! | [`certificate`] | checks the name in a certificate, which msquic does not |
//! | [`exchange`] | a connection and its streams; their callbacks send events to a channel |
//! | [`secrets`] | writes the key log |

mod certificate;
mod exchange;
mod secrets;

use exchange::Exchange;
use firstflight_testbed_clients::program::{self, Failure, Progress};
use firstflight_testbed_clients::{End, Request};
use firstflight_testbed_clients::{http, own_tls};
use msquic::{Registration, RegistrationConfig};
use std::cell::OnceCell;
use std::process::ExitCode;

fn main() -> ExitCode {
    // SAFETY: this program has no other thread yet.
    unsafe { own_tls::trust_no_others() };
    let registration = OnceCell::new();
    let version = concat!("msquic/", env!("BUILT_WITH_MSQUIC"));
    program::run("firstflight-msquic-client", version, |request, progress| {
        exchanged(&registration, request, progress)
    })
    .into()
}

/// `registration`: msquic's threads, which start with the first request.
fn exchanged(
    registration: &OnceCell<Registration>,
    request: &Request,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let failed = |error: String| (End::Failed, error);
    let patience = request.limit().map_err(failed)?;
    own_tls::roots(request).map_err(failed)?;
    let sent = http::sent(request).map_err(failed)?;
    if registration.get().is_none() {
        let made = Registration::new(&RegistrationConfig::default());
        // This is the only place that sets it.
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
