//! Clients for stacks that run on tokio and use rustls.

use crate::http::{self, Sent};
use crate::program::{self, CLOSING, Failure, Progress};
use crate::tls;
use firstflight_contract::{End, Request};
use rustls::ClientConfig;
use std::future::Future;

/// The operations in a client's stack: connect, exchange, close. Errors are one sentence.
pub trait Stack {
    /// Exchanges the request on a new connection and updates `progress`.
    fn exchange(
        &self,
        request: &Request,
        tls: ClientConfig,
        sent: Sent,
        progress: &mut Progress,
    ) -> impl Future<Output = Result<(), String>>;

    /// Waits until the connection of `exchange` is closed and the last datagram sent.
    fn closed(&self, progress: &mut Progress) -> impl Future<Output = ()>;
}

/// Runs the program `name`, built with `version`, like `program::run`.
pub fn run(name: &str, version: &str, stack: &impl Stack) -> u8 {
    program::run(name, version, |request, progress| {
        exchanged(stack, request, progress)
    })
}

/// Creates a single-threaded runtime for one request, so that nothing of its connection remains afterwards.
fn exchanged(
    stack: &impl Stack,
    request: &Request,
    progress: &mut Progress,
) -> Result<(), Failure> {
    let failed = |error: String| (End::Failed, error);
    let patience = request.limit().map_err(failed)?;
    let tls = tls::config(request).map_err(failed)?;
    let sent = http::sent(request).map_err(failed)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| failed(error.to_string()))?;
    runtime.block_on(async {
        let exchange = stack.exchange(request, tls, sent, progress);
        let ended = tokio::time::timeout(patience, exchange).await;
        let result = progress.finish(ended.ok());
        let _ = tokio::time::timeout(CLOSING, stack.closed(progress)).await;
        result
    })
}
