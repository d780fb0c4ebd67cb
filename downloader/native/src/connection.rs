//! The QUIC connection for a download, before the first datagram.

use crate::response::Failed;
use firstflight_contract::{End, Request};
use quiche::ConnectionId;
use std::fs::OpenOptions;
use std::net::SocketAddr;
use std::path::Path;

/// Flow control windows: sufficient for the fastest paths here (docs/definitions.md, "Downloads").
const CONNECTION_WINDOW: u64 = 25_165_824;
const STREAM_WINDOW: u64 = 16_777_216;
const CONTROL_WINDOW: u64 = 1 << 20;
/// The maximum size of a datagram that is sent.
pub const DATAGRAM_BYTES: usize = 1350;

/// Creates the connection, with the limits that all downloads share. TLS secrets are appended to `keys`.
pub fn open(
    request: &Request,
    local: SocketAddr,
    server: SocketAddr,
    keys: Option<&Path>,
) -> Result<quiche::Connection, Failed> {
    let failed = |error: quiche::Error| (End::Failed, format!("quiche: {error}"));
    let mut config = quiche::Config::new(quiche::PROTOCOL_VERSION).map_err(failed)?;
    let protocol = request.http.protocol();
    config.set_application_protos(&[protocol]).map_err(failed)?;
    config.verify_peer(request.verify);
    config
        .load_verify_locations_from_file(&request.roots)
        .map_err(failed)?;
    config.set_max_idle_timeout((request.timeout_s * 1000.0) as u64);
    config.set_max_send_udp_payload_size(DATAGRAM_BYTES);
    config.set_initial_max_data(CONNECTION_WINDOW);
    config.set_initial_max_stream_data_bidi_local(STREAM_WINDOW);
    config.set_initial_max_stream_data_uni(CONTROL_WINDOW);
    config.set_initial_max_streams_uni(16);
    config.set_max_connection_window(CONNECTION_WINDOW);
    config.set_max_stream_window(STREAM_WINDOW);
    config.set_disable_active_migration(true);
    config.log_keys();
    let mut scid = [0_u8; 8];
    rustix::rand::getrandom(&mut scid, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| (End::Failed, error.to_string()))?;
    let scid = ConnectionId::from_ref(&scid);
    let name = Some(request.host.as_str());
    let mut quic = quiche::connect(name, &scid, local, server, &mut config).map_err(failed)?;
    if let Some(path) = keys {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        let file = opened.map_err(|error| (End::Failed, format!("key log: {error}")))?;
        quic.set_keylog(Box::new(file));
    }
    Ok(quic)
}
