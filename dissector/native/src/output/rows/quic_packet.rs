//! Rows of `quic_packet`: one for each QUIC packet in a connection, to trace the values of `quic_connection`.

use std::net::SocketAddr;

use firstflight_records::columns;

use crate::output::cells::{Cid, Ip, QuicVersion};
use crate::quic::connection::{Arrival, Connection};
use crate::quic::packet_log::{FrameDetails, LoggedPacket};

columns! {
    /// A packet.
    pub struct QuicPacketRow<'a> {
        source_file: &'a str,
        frame_number: u64,
        time_ns: i64,
        since_start_us: i64,
        from_client: bool,
        client_ip: Ip,
        client_port: u16,
        server_ip: Ip,
        server_port: u16,
        odcid: Cid,
        client_scid: Cid,
        r#type: &'static str,
        version: Option<QuicVersion>,
        dcid: Option<Cid>,
        scid: Option<Cid>,
        packet_number: Option<u64>,
        frames: Option<String>,
        opened: bool,
        size: u32,
        datagram_size: u32,
        first_byte: Option<u8>,
        packet_number_length: Option<u8>,
        length: Option<u64>,
        token: Option<String>,
        integrity_tag: Option<String>,
        version_list: Option<String>,
        frame_details: Option<FrameDetails>,
        src_ip: Option<Ip>,
        src_port: Option<u16>,
        dst_ip: Option<Ip>,
        dst_port: Option<u16>,
    }
}

impl<'a> QuicPacketRow<'a> {
    /// Creates the row of `packet`. Its datagram belongs to `connection` and has this `path` (source, destination).
    pub fn new(
        source_file: &'a str,
        connection: &Connection,
        at: &Arrival,
        from_client: bool,
        path: Option<(SocketAddr, SocketAddr)>,
        packet: LoggedPacket,
    ) -> QuicPacketRow<'a> {
        let size = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let c = connection;
        let (src, dst) = path.unzip();
        QuicPacketRow {
            source_file,
            frame_number: at.frame_number,
            time_ns: at.ns,
            since_start_us: (at.ns - c.timeline.start_ns).div_euclid(1000),
            from_client,
            client_ip: Ip(c.client.ip()),
            client_port: c.client.port(),
            server_ip: Ip(c.server.ip()),
            server_port: c.server.port(),
            odcid: Cid(c.odcid),
            client_scid: Cid(c.client_scid),
            r#type: packet.kind,
            version: packet.version.map(QuicVersion),
            dcid: packet.dcid.map(Cid),
            scid: packet.scid.map(Cid),
            packet_number: packet.packet_number,
            frames: packet.frames,
            opened: packet.opened,
            size: size(packet.size),
            datagram_size: size(at.length),
            first_byte: packet.header.first_byte,
            packet_number_length: packet.header.packet_number_length,
            length: packet.header.length,
            token: packet.header.token,
            integrity_tag: packet.header.integrity_tag,
            version_list: packet.header.version_list,
            frame_details: packet.frame_details,
            src_ip: src.map(|src| Ip(src.ip())),
            src_port: src.map(|src| src.port()),
            dst_ip: dst.map(|dst| Ip(dst.ip())),
            dst_port: dst.map(|dst| dst.port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::testing::lines;
    use crate::quic::connection::testing::{Feed, HELLO};

    #[test]
    fn a_row_shows_the_packet_its_connection_and_its_path() {
        let mut feed = Feed::new("");
        feed.packets(2, true, &[HELLO]);
        feed.log_packets();
        feed.packets(3, true, &[HELLO]);
        let log = feed.log.take().unwrap().packets;
        let [packet] = &log[..] else {
            panic!("one packet")
        };
        let mut at = feed.arrival(3, true, 1200);
        at.ns += 999;
        let path = (feed.client, feed.server);
        let connection = feed.one();
        let expected = "source_file=x.pcap\n\
            frame_number=2\n\
            time_ns=3000999\n\
            since_start_us=1000\n\
            from_client=true\n\
            client_ip=192.0.2.1\n\
            client_port=50000\n\
            server_ip=198.51.100.1\n\
            server_port=443\n\
            odcid=0101010101010101\n\
            client_scid=0202020202020202\n\
            type=initial\n\
            version=0x00000001\n\
            dcid=0101010101010101\n\
            scid=0202020202020202\n\
            packet_number=0\n\
            frames=seen before\n\
            opened=true\n\
            size=1200\n\
            datagram_size=1200\n\
            first_byte=192\n\
            packet_number_length=1\n\
            length=1174\n\
            token=\n";
        let of_path = "src_ip=192.0.2.1\n\
            src_port=50000\n\
            dst_ip=198.51.100.1\n\
            dst_port=443\n";
        for (path, of_path) in [(None, ""), (Some(path), of_path)] {
            let packet = packet.clone();
            let row = QuicPacketRow::new("x.pcap", &connection, &at, true, path, packet);
            let all = lines(&row);
            let (details, rest): (Vec<&str>, Vec<&str>) = all
                .lines()
                .partition(|line| line.starts_with("frame_details="));
            assert_eq!(details.len(), 1);
            assert_eq!(rest.join("\n") + "\n", format!("{expected}{of_path}"));
        }
    }
}
