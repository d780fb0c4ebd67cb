//! Every parser of the dissector, as functions of arbitrary bytes: they return, whatever the bytes are.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use firstflight_dissect::connection::{Arrival, Limits, Table};
use firstflight_dissect::input::{self, Element};
use firstflight_dissect::ip::{self, Content};
use firstflight_dissect::keylog::Keyring;
use firstflight_dissect::link;
use firstflight_dissect::output::{frame_details, parameters, quic_connection, quic_packet};
use firstflight_dissect::timeline::Windows;
use firstflight_wire::tcp::Header;
use firstflight_wire::tls::{
    ClientHello, ClientHelloTemplate, ServerHello, TemplateOptions, hello_kind, read_message,
};
use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{
    ConnectionId, CryptoStream, Frame, Frames, InitialSecret, Keys, LongHeader, Packets, Reader,
    Version, build_packet, retry_is_intact, write_crypto,
};

/// Takes any bytes.
pub type Target = fn(&[u8]);

/// All of them, by the names of cargo-fuzz targets.
pub const TARGETS: &[(&str, Target)] = &[
    ("capture", capture),
    ("link_and_ip", link_and_ip),
    ("packet", packet),
    ("frames", frames),
    ("tls", tls),
    ("key_log", key_log),
    ("tcp", tcp),
    ("sealed_frames", sealed_frames),
];

fn table() -> Table {
    let windows = Windows {
        answer_ns: 3_000_000_000,
        settle_ns: 100_000_000,
    };
    let limits = Limits {
        windows,
        idle_ns: 60_000_000_000,
        closing_ns: 10_000_000_000,
        max_connections: 4,
        ports: Vec::new(),
    };
    Table::new(limits, Keyring::default())
}

/// Takes an IP packet as the dissector does, with everything written down.
fn ip_packet(table: &mut Table, number: u64, ns: i64, packet: &[u8]) {
    let mut arrival = Arrival {
        ns,
        frame_number: number,
        length: 0,
        ttl: 0,
    };
    while let Some(connection) = table.expired(ns) {
        let _ = quic_connection::row("x", &connection);
    }
    match ip::content(packet) {
        Content::Udp(datagram) => {
            arrival.length = datagram.length;
            let mut log = Vec::new();
            let found = table.datagram(&arrival, &datagram, Some(&mut log));
            if let Some((connection, from_client)) = found {
                for seen in log {
                    let path = Some((datagram.src, datagram.dst));
                    let _ = quic_packet::row("x", connection, &arrival, from_client, path, seen);
                }
            }
        }
        Content::Tcp(_) => tcp(packet.get(20..).unwrap_or_default()),
        Content::Icmp(error) => drop(table.icmp(&arrival, &error).is_some()),
        _ => {}
    }
}

/// A capture file of either format, down to the rows of its connections.
pub fn capture(data: &[u8]) {
    let mut table = table();
    let _ = input::read("x", data, |element| {
        match element {
            Element::Frame(frame) => {
                if let Some(packet) = link::ip_packet(frame.link, frame.data) {
                    ip_packet(&mut table, frame.number, frame.time_ns, packet);
                }
            }
            Element::KeyLog(text) => table.key_log(text),
            Element::Untimed => {}
        }
        Ok::<(), ()>(())
    });
    while let Some(connection) = table.drain() {
        let _ = quic_connection::row("x", &connection);
    }
}

/// A frame of any link type: the first byte chooses.
pub fn link_and_ip(data: &[u8]) {
    let Some((&kind, frame)) = data.split_first() else {
        return;
    };
    let links = [0, 1, 9, 12, 50, 101, 108, 113, 228, 229, 276];
    let link = links[usize::from(kind) % links.len()];
    if let Some(packet) = link::ip_packet(link, frame) {
        ip_packet(&mut table(), 1, 0, packet);
    }
}

/// A datagram: headers of its packets, and opening them.
pub fn packet(data: &[u8]) {
    let id = ConnectionId::from([1; 8]);
    let keys = InitialSecret::new(Version::V1, &id).map(|secret| Keys::new(&secret.client()));
    for packet in Packets::new(data, 8).flatten() {
        assert!(packet.start < packet.end && packet.end <= data.len());
        let _ = packet.versions(data).map(Iterator::count);
        let _ = retry_is_intact(data, &packet, &id);
        let _ = quic_packet::HeaderSeen::of(&packet, data);
        if let Some(keys) = &keys {
            let _ = keys.open(&mut data.to_vec(), &packet, Some(5));
        }
    }
}

/// The payload of a packet.
pub fn frames(data: &[u8]) {
    let mut stream = CryptoStream::new(2048);
    for frame in Frames::new(data).flatten() {
        match frame {
            Frame::Ack(ack) => assert_eq!(ack.ranges().count() as u64, ack.range_count + 1),
            Frame::Crypto { offset, data } => drop(stream.insert(offset, data)),
            _ => {}
        }
    }
    let all: Result<Vec<Frame<'_>>, _> = Frames::new(data).collect();
    assert_eq!(all.is_ok(), frame_details::details(data).is_some());
    let _ = all.map(|frames| quic_packet::summary(&frames));
}

/// Handshake messages and transport parameters.
pub fn tls(data: &[u8]) {
    let _ = hello_kind(data);
    let body = read_message(&mut Reader::new(data)).map_or(data, |(_, body)| body);
    let _ = ServerHello::parse(body);
    if let Ok(hello) = ClientHello::parse(body) {
        let _ = (hello.alpn().count(), hello.key_shares().count());
        let _ = hello.supported_groups().count();
        let _ = hello.transport_parameters.map(Iterator::count);
    }
    let _ = TransportParameters::new(body).find(0x0f);
    let _ = parameters::as_json(body);
}

/// A key log inside a capture.
pub fn key_log(data: &[u8]) {
    let mut ring = Keyring::default();
    ring.add(data);
    ring.add(data);
    let random = data.first_chunk().copied().unwrap_or([7; 32]);
    let _ = (ring.is_empty(), ring.look_up(&random));
}

/// A TCP header with its options.
pub fn tcp(data: &[u8]) {
    if let Ok(header) = Header::parse(data) {
        let options = header.options();
        let _ = format!("{header:?} {options:?}");
    }
}

/// Frames in Initials that authenticate: first of the server, then of the client.
pub fn sealed_frames(data: &[u8]) {
    let data = &data[..data.len().min(1200)];
    let mut table = table();
    let (odcid, scid) = (ConnectionId::from([1; 8]), ConnectionId::from([2; 8]));
    let server_scid = ConnectionId::from([3; 8]);
    let Some(secret) = InitialSecret::new(Version::V1, &odcid) else {
        return;
    };
    let hello = hello(&scid);
    let send = |table: &mut Table, n: u64, from_client: bool, payload: &[u8]| {
        let (to, from) = if from_client {
            (odcid, scid)
        } else {
            (scid, server_scid)
        };
        let material = if from_client {
            secret.client()
        } else {
            secret.server()
        };
        let header = LongHeader::initial(Version::V1, to, from, n);
        let mut out = [0; 1500];
        let size = build_packet(&mut out, &header, &Keys::new(&material), None, |w| {
            w.bytes(payload)
        });
        let packet = udp(from_client, &out[..size.unwrap_or(0)]);
        ip_packet(table, n + 1, n as i64 * 1_000_000, &packet);
    };
    send(&mut table, 0, true, &hello);
    send(&mut table, 1, false, data);
    send(&mut table, 2, true, data);
    while let Some(connection) = table.drain() {
        let _ = quic_connection::row("x", &connection);
    }
}

fn hello(scid: &ConnectionId) -> Vec<u8> {
    let mut message = [0; 600];
    let mut w = firstflight_wire::Writer::new(&mut message);
    let template = ClientHelloTemplate::new(&TemplateOptions::default());
    let written =
        template.and_then(|t| t.write(&mut w, &[5; 32], &[6; 32], "www.example.net", scid));
    assert!(written.is_ok(), "the template fits 600 bytes");
    let mut frame = [0; 700];
    let mut out = firstflight_wire::Writer::new(&mut frame);
    assert!(write_crypto(&mut out, 0, w.written()).is_ok());
    out.written().to_vec()
}

/// An IPv4 packet with a UDP datagram.
fn udp(from_client: bool, payload: &[u8]) -> Vec<u8> {
    let client = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)), 40_000);
    let server = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1)), 443);
    let (src, dst) = if from_client {
        (client, server)
    } else {
        (server, client)
    };
    let length = payload.len() as u16 + 8;
    let mut packet = vec![0x45, 0];
    packet.extend((length + 20).to_be_bytes());
    packet.extend([0, 0, 0x40, 0, 57, 17, 0, 0]);
    for address in [src, dst] {
        if let IpAddr::V4(v4) = address.ip() {
            packet.extend(v4.octets());
        }
    }
    packet.extend([src.port().to_be_bytes(), dst.port().to_be_bytes()].concat());
    packet.extend([length.to_be_bytes(), [0, 0]].concat());
    packet.extend(payload);
    packet
}
