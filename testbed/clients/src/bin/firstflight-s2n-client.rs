//! The testbed's client for s2n-quic.

use bytes::Bytes;
use firstflight_testbed_clients::Request;
use firstflight_testbed_clients::http::{NO_ERROR, Sent};
use firstflight_testbed_clients::program::Progress;
use firstflight_testbed_clients::runtime::{self, Stack};
use s2n_quic::client::{Client, Connect};
use s2n_quic::provider::io::tokio::Builder;
use s2n_quic::provider::limits::Limits;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;

struct S2n;

impl Stack for S2n {
    async fn exchange(
        &self,
        request: &Request,
        tls: rustls::ClientConfig,
        sent: Sent,
        progress: &mut Progress,
    ) -> Result<(), String> {
        let client = client(request, tls)?;
        let connect = Connect::new(request.address()).with_server_name(request.host.as_str());
        let connecting = client.connect(connect);
        progress.kept = Some(Box::new(client));
        let mut connection = connecting.await.map_err(text)?;
        progress.connected();
        let mut control = connection.open_send_stream().await.map_err(text)?;
        control
            .send(Bytes::from(sent.control))
            .await
            .map_err(text)?;
        let stream = connection.open_bidirectional_stream().await.map_err(text)?;
        let (mut answering, mut asking) = stream.split();
        asking.send(Bytes::from(sent.request)).await.map_err(text)?;
        asking.finish().map_err(text)?;
        while let Some(bytes) = answering.receive().await.map_err(text)? {
            progress.received(&bytes)?;
        }
        progress.finished()?;
        connection.close(NO_ERROR.into());
        Ok(())
    }

    async fn closed(&self, progress: &mut Progress) {
        let kept = progress.kept.take();
        if let Some(mut client) = kept.and_then(|kept| kept.downcast::<Client>().ok()) {
            let _ = client.wait_idle().await;
        }
    }
}

/// s2n-quic's default settings, with the timeouts of the request and without offloads, so that each datagram is a
/// separate packet in the capture.
fn client(request: &Request, tls: rustls::ClientConfig) -> Result<Client, String> {
    let any: IpAddr = match request.ip {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let io = Builder::default()
        .with_receive_address(SocketAddr::new(any, 0))
        .and_then(Builder::with_gso_disabled)
        .and_then(Builder::with_gro_disabled)
        .and_then(Builder::build)
        .map_err(text)?;
    let patience = request.limit()?;
    let limits = Limits::new()
        .with_max_idle_timeout(patience)
        .and_then(|limits| limits.with_max_handshake_duration(patience))
        .map_err(text)?;
    Client::builder()
        .with_tls(s2n_quic::provider::tls::rustls::Client::from(tls))
        .map_err(text)?
        .with_io(io)
        .map_err(text)?
        .with_limits(limits)
        .map_err(text)?
        .start()
        .map_err(text)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn main() -> ExitCode {
    let version = concat!("s2n-quic/", env!("BUILT_WITH_S2N_QUIC"));
    runtime::run("firstflight-s2n-client", version, &S2n).into()
}
