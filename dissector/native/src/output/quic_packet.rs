//! Rows of `quic_packet`: one per QUIC packet of a connection, for looking at what a row was made of.

use std::net::SocketAddr;

use super::Type::{Bool, I64, String as Text, U8, U16, U32};
use super::{Column, Value, always, maybe};
use crate::quic::connection::{Arrival, Connection};
use crate::quic::packet_log::LoggedPacket;

/// Columns in the order of [`row`].
pub const COLUMNS: &[Column] = &[
    always("source_file", Text),
    always("frame_number", I64),
    always("time_ns", I64),
    always("since_start_us", I64),
    always("from_client", Bool),
    always("client_ip", Text),
    always("client_port", U16),
    always("server_ip", Text),
    always("server_port", U16),
    always("odcid", Text),
    always("client_scid", Text),
    always("type", Text),
    maybe("version", Text),
    maybe("dcid", Text),
    maybe("scid", Text),
    maybe("packet_number", I64),
    maybe("frames", Text),
    always("opened", Bool),
    always("size", U32),
    always("datagram_size", U32),
    maybe("first_byte", U8),
    maybe("packet_number_length", U8),
    maybe("length", I64),
    maybe("token", Text),
    maybe("integrity_tag", Text),
    maybe("version_list", Text),
    maybe("frame_details", Text),
    maybe("src_ip", Text),
    maybe("src_port", U16),
    maybe("dst_ip", Text),
    maybe("dst_port", U16),
];

/// The row of `packet`, which arrived in a datagram of `connection` that went along `path` (source, destination).
pub fn row<'a>(
    source_file: &'a str,
    c: &'a Connection,
    at: &Arrival,
    from_client: bool,
    path: Option<(SocketAddr, SocketAddr)>,
    packet: LoggedPacket,
) -> Vec<Value<'a>> {
    let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    vec![
        source_file.into(),
        at.frame_number.into(),
        at.ns.into(),
        (at.ns - c.timeline.start_ns).div_euclid(1000).into(),
        from_client.into(),
        c.client.ip().into(),
        c.client.port().into(),
        c.server.ip().into(),
        c.server.port().into(),
        c.odcid.into(),
        c.client_scid.into(),
        packet.kind.into(),
        packet.version.into(),
        packet.dcid.into(),
        packet.scid.into(),
        packet.packet_number.into(),
        packet.frames.into(),
        packet.opened.into(),
        size(packet.size).into(),
        size(at.length).into(),
        packet.header.first_byte.into(),
        packet.header.packet_number_length.into(),
        packet.header.length.into(),
        packet.header.token.into(),
        packet.header.integrity_tag.into(),
        packet.header.version_list.into(),
        packet.frame_details.into(),
        path.map(|(src, _)| src.ip()).into(),
        path.map(|(src, _)| src.port()).into(),
        path.map(|(_, dst)| dst.ip()).into(),
        path.map(|(_, dst)| dst.port()).into(),
    ]
}
