//! The testbed's client for quinn.

use firstflight_testbed_clients::Request;
use firstflight_testbed_clients::http::{NO_ERROR, Sent};
use firstflight_testbed_clients::program::Progress;
use firstflight_testbed_clients::runtime::{self, Stack};
use quinn::crypto::rustls::QuicClientConfig;
use quinn::{
    ClientConfig, Endpoint, EndpointConfig, IdleTimeout, TransportConfig, VarInt, default_runtime,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;

struct Quinn;

impl Stack for Quinn {
    async fn exchange(
        &self,
        request: &Request,
        tls: rustls::ClientConfig,
        sent: Sent,
        progress: &mut Progress,
    ) -> Result<(), String> {
        let any: IpAddr = match request.ip {
            IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let endpoint = endpoint(SocketAddr::new(any, 0))?;
        progress.kept = Some(Box::new(endpoint.clone()));
        let connecting = endpoint
            .connect_with(config(request, tls)?, request.address(), &request.host)
            .map_err(text)?;
        let connection = connecting.await.map_err(text)?;
        progress.connected();
        let mut control = connection.open_uni().await.map_err(text)?;
        control.write_all(&sent.control).await.map_err(text)?;
        let (mut asking, mut answering) = connection.open_bi().await.map_err(text)?;
        asking.write_all(&sent.request).await.map_err(text)?;
        asking.finish().map_err(text)?;
        while let Some(chunk) = answering.read_chunk(usize::MAX, true).await.map_err(text)? {
            progress.received(&chunk.bytes)?;
        }
        progress.finished()?;
        connection.close(VarInt::from_u32(NO_ERROR), b"");
        Ok(())
    }

    async fn closed(&self, progress: &mut Progress) {
        let kept = progress.kept.take();
        if let Some(endpoint) = kept.and_then(|kept| kept.downcast::<Endpoint>().ok()) {
            endpoint.close(VarInt::from_u32(NO_ERROR), b"");
            endpoint.wait_idle().await;
        }
    }
}

/// Like `Endpoint::client`, but without RFC 9287: if a client accepts packets without the fixed bit, its server sends
/// them, and tshark does not read them.
fn endpoint(local: SocketAddr) -> Result<Endpoint, String> {
    let socket = UdpSocket::bind(local).map_err(text)?;
    let runtime = default_runtime().ok_or("no asynchronous runtime")?;
    let mut config = EndpointConfig::default();
    config.grease_quic_bit(false);
    Endpoint::new(config, None, socket, runtime).map_err(text)
}

/// quinn's default settings, with the idle timeout of the request and without segmentation offload, so that each
/// datagram is a separate packet in the capture.
fn config(request: &Request, tls: rustls::ClientConfig) -> Result<ClientConfig, String> {
    let tls = QuicClientConfig::try_from(tls).map_err(text)?;
    let mut made = ClientConfig::new(Arc::new(tls));
    let mut transport = TransportConfig::default();
    let patience = request.limit()?;
    transport.max_idle_timeout(Some(IdleTimeout::try_from(patience).map_err(text)?));
    transport.enable_segmentation_offload(false);
    made.transport_config(Arc::new(transport));
    Ok(made)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn main() -> ExitCode {
    let version = concat!("quinn/", env!("BUILT_WITH_QUINN"));
    runtime::run("firstflight-quinn-client", version, &Quinn).into()
}
