//! The server for s2n-quic. With `iack`, its TLS stays pending until the certificate is available, like asynchronous
//! TLS. With `wait`, s2n-quic receives a client's datagrams only then.

mod certificate;
mod delay;
mod waiting;

use crate::behaviour::{Behaviour, Mode};
use crate::{http, tls};
use bytes::Bytes;
use firstflight_listener::{Config, Transport};
use s2n_quic::provider::io::tokio::Builder;
use s2n_quic::provider::limits::Limits;
use s2n_quic::stream::BidirectionalStream;
use s2n_quic::{Connection, Server};
use std::io::Write;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

const VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    " (s2n-quic ",
    env!("BUILT_WITH_S2N_QUIC"),
    ")"
);
const PROGRAM: &str = "firstflight-s2n-server";
const IDLE: Duration = Duration::from_secs(5);

struct Plan {
    address: SocketAddr,
    behaviour: Behaviour,
    tls: rustls::ServerConfig,
    control: Bytes,
    response: Option<http::Response>,
}

impl Plan {
    fn new(config: &Config) -> Result<Self, String> {
        let behaviour = Behaviour::of(config)?;
        let others = Transport {
            gso: false,
            ..behaviour.transport.clone()
        };
        others.refuse()?;
        Ok(Self {
            address: SocketAddr::new(config.listen[0], config.port),
            tls: tls::config(&behaviour.certificate)?,
            control: http::control()?.into(),
            response: behaviour.http.as_ref().map(http::response).transpose()?,
            behaviour,
        })
    }
}

/// Runs the program; returns the exit status if it cannot serve.
pub fn main() -> ExitCode {
    let plan = match firstflight_listener::prepared(PROGRAM, VERSION, Plan::new) {
        Ok((_, plan)) => plan,
        Err(status) => return status,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let ended = runtime
        .map_err(|error| error.to_string())
        .and_then(|runtime| runtime.block_on(serve(plan)));
    if let Err(error) = ended {
        eprintln!("{PROGRAM}: {error}.");
    }
    ExitCode::FAILURE
}

async fn serve(plan: Plan) -> Result<(), String> {
    let mut server = server(&plan)?;
    println!("READY");
    // Standard output may have no reader; the server continues without one.
    let _ = std::io::stdout().flush();
    while let Some(connection) = server.accept().await {
        tokio::spawn(served(
            connection,
            plan.control.clone(),
            plan.response.clone(),
        ));
    }
    Err("s2n-quic has ended".to_owned())
}

/// s2n-quic's default settings, with an idle timeout and without offloads unless requested, so that each datagram is a
/// separate packet in the capture.
fn server(plan: &Plan) -> Result<Server, String> {
    let gso = plan.behaviour.transport.gso;
    let io = Builder::default()
        .with_receive_address(plan.address)
        .and_then(|io| if gso { Ok(io) } else { io.with_gso_disabled() })
        .and_then(Builder::with_gro_disabled)
        .and_then(Builder::build)
        .map_err(text)?;
    let limits = Limits::new().with_max_idle_timeout(IDLE).map_err(text)?;
    let delay = plan.behaviour.delay;
    let (late_certificate, late_datagrams) = match plan.behaviour.mode {
        Mode::InstantAck => (Some(delay), None),
        Mode::Wait => (None, Some(delay)),
    };
    Server::builder()
        .with_tls(certificate::Late::new(plan.tls.clone(), late_certificate))
        .map_err(text)?
        .with_io(waiting::Io::new(io, late_datagrams))
        .map_err(text)?
        .with_limits(limits)
        .map_err(text)?
        .start()
        .map_err(|error| format!("cannot listen on UDP {}: {error}", plan.address))
}

/// Handles HTTP/3 on a connection until it is closed.
async fn served(mut connection: Connection, control: Bytes, response: Option<http::Response>) {
    let Ok(mut own) = connection.open_send_stream().await else {
        return;
    };
    if own.send(control).await.is_err() {
        return;
    }
    let mut unanswered = Vec::new();
    while let Ok(Some(stream)) = connection.accept_bidirectional_stream().await {
        match &response {
            Some(response) => drop(tokio::spawn(answered(stream, response.clone()))),
            None => unanswered.push(stream),
        }
    }
}

async fn answered(stream: BidirectionalStream, response: http::Response) {
    let (mut asking, mut answering) = stream.split();
    while let Ok(Some(_)) = asking.receive().await {}
    if !response.delay.is_zero() {
        tokio::time::sleep(response.delay).await;
    }
    let mut pieces = response.bytes;
    let mut piece = pieces.front();
    while !piece.is_empty() {
        let size = piece.len();
        if answering.send(piece).await.is_err() {
            return;
        }
        pieces.advance(size);
        piece = pieces.front();
    }
    let _ = answering.finish();
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
