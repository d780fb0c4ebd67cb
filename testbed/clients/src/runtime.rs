//! Clients whose stack runs on tokio and takes TLS from rustls.

use crate::contract::{End, Request};
use crate::http::{self, Sent};
use crate::program::{self, CLOSING, Failure, Progress};
use crate::tls;
use rustls::ClientConfig;
use std::future::Future;

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

/// Runs the program NAME, which is built with `version`, as `program::run` does.
pub fn run(name: &str, version: &str, stack: &impl Stack) -> u8 {
    program::run(name, version, |request, progress| {
        exchanged(stack, request, progress)
    })
}

/// Makes a runtime of one thread for one request: nothing of a connection outlives it.
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
