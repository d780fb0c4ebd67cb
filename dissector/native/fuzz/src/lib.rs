//! Every parser of the dissector, as functions that accept any bytes and always return.

mod make;
mod sealed;

use std::io::Cursor;

use clap::Parser;
use firstflight_dissect::args::Args;
use firstflight_dissect::capture::{CaptureName, read_capture};
use firstflight_dissect::flow::expiry::Bounds;
use firstflight_dissect::input;
use firstflight_dissect::net::ip::{self, Content, IpLength};
use firstflight_dissect::net::link;
use firstflight_dissect::output::{Outputs, parameters};
use firstflight_dissect::padding::{Cutter, MAGIC, MARK, Padding, Restored, Restorer, Sealed};
use firstflight_dissect::quic::connection::{Arrival, Limits, Table};
use firstflight_dissect::quic::keylog::Keyring;
use firstflight_dissect::quic::packet_log::{FrameDetails, LoggedHeader, summary};
use firstflight_dissect::quic::timeline::Windows;
use firstflight_records::Style;
use firstflight_wire::http3::{Response, ResponseStream, UniStream};
use firstflight_wire::tcp::Header;
use firstflight_wire::tls::{
    ClientHello, EncryptedExtensions, ServerHello, ascii, certificate_chain_bytes, ech_configs,
    hello_kind, read_message,
};
use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{
    ConnectionId, CryptoStream, Frame, Frames, InitialSecret, KeyCache, Keys, MAX_CID_LEN, Packet,
    Packets, Reader, Version, parse_cut_header, parse_packet, retry_is_intact, skim,
};

use make::{Bytes, Pcap};
use sealed::{Kind, Sealer};

/// A function that accepts any bytes.
pub type Target = fn(&[u8]);

/// All targets, with their names in cargo-fuzz.
pub const TARGETS: &[(&str, Target)] = &[
    ("capture", capture),
    ("pcapng", pcapng),
    ("compressed", compressed),
    ("link_and_ip", link_and_ip),
    ("fragments", fragments),
    ("packet", packet),
    ("frames", frames),
    ("tls", tls),
    ("http3", http3),
    ("key_log", key_log),
    ("tcp", tcp),
    ("tcp_conversation", tcp_conversation),
    ("sealed_frames", sealed_frames),
    ("sealed_protected", sealed_protected),
    ("padding", padding),
];

/// Dissects a capture file of either format into rows of every kind, with a small limit on connections.
pub fn capture(data: &[u8]) {
    dissect(data.to_vec(), Keyring::default());
}

fn dissect(capture: Vec<u8>, keyring: Keyring) {
    let kinds = "quic_connection,quic_packet,quic_ack,tcp_flow,tcp_packet,pacing";
    let words = ["x", "-", "--max-connections", "4", "--kind", kinds];
    let args = Args::try_parse_from(words).expect("the command line is right");
    let mut rows = Outputs::aside(&args.destination().expect("the options agree"));
    let name = CaptureName {
        shown: "x",
        source_file: "x",
    };
    let _ = read_capture(
        &args,
        name,
        keyring,
        Cursor::new(capture),
        &mut rows,
        &|| false,
        None,
    );
}

/// Blocks of pcapng with valid lengths.
pub fn pcapng(data: &[u8]) {
    capture(&make::pcapng(data));
}

/// Data that may be compressed, read to the end or up to a megabyte.
pub fn compressed(data: &[u8]) {
    use std::io::Read;
    if let Ok(plain) = input::plain(Box::new(Cursor::new(data.to_vec()))) {
        let mut out = Vec::new();
        let _ = plain.take(1 << 20).read_to_end(&mut out);
        capture(&out);
    }
}

/// A frame with a link type that the first byte selects.
pub fn link_and_ip(data: &[u8]) {
    let Some((&kind, frame)) = data.split_first() else {
        return;
    };
    let links = [0, 1, 9, 12, 14, 50, 101, 108, 113, 228, 229, 276];
    let link = links[usize::from(kind) % links.len()];
    let mut pcap = Pcap::new(link);
    pcap.frame(0, frame);
    capture(&pcap.bytes());
    // Calls the parsers directly, too.
    if let Ok(packet) = link::ip_packet(link as i32, frame) {
        let _ = (ip::fragment(packet), ip::content(packet, 0));
    }
}

/// IP fragments.
pub fn fragments(data: &[u8]) {
    capture(&make::fragments(data));
}

/// Segments in a TCP connection, with options.
pub fn tcp_conversation(data: &[u8]) {
    capture(&make::tcp_conversation(data));
}

/// A datagram: parses the packets' headers and decrypts them. Also a connection's second datagram.
pub fn packet(data: &[u8]) {
    let id = ConnectionId::from([1; 8]);
    let keys = InitialSecret::new(Version::V1, &id).map(|secret| Keys::new(&secret.client()));
    if let Some(skimmed) = skim(data, 0) {
        let ends = parse_packet(data, 0, MAX_CID_LEN).map(|packet| packet.end);
        assert_eq!(ends, Ok(skimmed.end));
    }
    for packet in Packets::new(data, 8).flatten() {
        assert!(packet.start < packet.end && packet.end <= data.len());
        let _ = packet.versions(data).map(Iterator::count);
        let _ = retry_is_intact(data, &packet, &id);
        let _ = LoggedHeader::of(&packet, data);
        if let Some(keys) = &keys {
            let _ = keys.open(&mut data.to_vec(), &packet, Some(5));
        }
    }
    if let (Some(cut), Ok(whole)) = (parse_cut_header(data, 0), parse_packet(data, 0, 0)) {
        let names = |packet: &Packet| (packet.kind, packet.version, packet.dcid, packet.scid);
        assert_eq!(names(&cut), names(&whole));
    }
    let hello = Sealer::new().map(|mut sealer| sealer.hello());
    let hello = hello.as_deref().unwrap_or_default();
    for (datagrams, missing) in [
        ([hello, data], 0),
        ([hello, data], 1200),
        ([data, data], 1200),
    ] {
        conversation(&datagrams, missing);
    }
}

/// Datagrams in a connection. The capture lacks the last `missing` bytes of each.
fn conversation(datagrams: &[&[u8]], missing: usize) {
    let mut table = Table::new(limits(), Keyring::default());
    for (n, bytes) in datagrams.iter().enumerate() {
        let whole = make::udp(n == 0, &bytes[..bytes.len().min(65_000)]);
        if let Content::Udp(datagram) = ip::content(&whole, 0) {
            let arrival = Arrival {
                ns: n as i64,
                frame_number: n as u64 + 1,
                length: datagram.length + missing,
                ip_length: IpLength::default(),
                ttl: 57,
            };
            let _ = table.datagram(&arrival, &datagram, None).is_some();
        }
    }
}

fn limits() -> Limits {
    let windows = Windows {
        answer_ns: 3_000_000_000,
        settle_ns: 100_000_000,
    };
    Limits {
        windows,
        bounds: Bounds {
            idle_ns: 60_000_000_000,
            closing_ns: 10_000_000_000,
            max_live: 4,
        },
        max_decided: 3,
        ports: Vec::new(),
        acks: true,
    }
}

/// A packet's payload.
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
    let [plain, inside] = [Style::Plain, Style::Json].map(|style| FrameDetails::of(data, style));
    assert_eq!(all.is_ok(), plain.is_some());
    let inside = inside.map(|details| format!("\"{}\"", details.text));
    let inside = inside.map(|text| serde_json::from_str::<String>(&text).expect("a JSON string"));
    assert_eq!(plain.map(|details| details.text), inside);
    let _ = all.map(|frames| summary(&frames));
}

/// Handshake messages and transport parameters.
pub fn tls(data: &[u8]) {
    let _ = hello_kind(data);
    let body = read_message(&mut Reader::new(data)).map_or(data, |(_, body)| body);
    let _ = (ServerHello::parse(body), certificate_chain_bytes(body));
    if let Ok(extensions) = EncryptedExtensions::parse(body) {
        let _ = extensions.transport_parameters.map(Iterator::count);
    }
    if let Ok(hello) = ClientHello::parse(body) {
        let _ = (hello.alpn().count(), hello.key_shares().count());
        let _ = hello.supported_groups().count();
        let _ = hello.transport_parameters.map(Iterator::count);
    }
    let parameters = TransportParameters::new(body);
    let _ = (parameters.find(0x0f), parameters.min_ack_delay());
    let _ = (parameters.preferred_address_cid(), parameters.multipath());
    let _ = (parameters.version_information(), parameters.fingerprint(8));
    ech(body);
    let _ = parameters::as_json(body);
    for (most, most_bytes) in [(8, 500), (64, 4096), (0, 0)] {
        let text = parameters.as_json(most, most_bytes);
        let list: Result<Vec<serde_json::Value>, _> = serde_json::from_str(&text);
        assert!(list.is_ok_and(|list| list.len() <= most + 1));
        assert!(text.len() <= most_bytes.max(1) + r#",{"more":12345}]"#.len());
    }
}

/// ECH configurations: as a whole list, as a list's content, and as a configuration's content in a list.
fn ech(data: &[u8]) {
    let data = &data[..data.len().min(0xff00)];
    let sized = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes(), bytes].concat();
    let entry = [&[0xfe, 0x0d], &sized(data)[..]].concat();
    for list in [data.to_vec(), sized(data), sized(&entry)] {
        for config in ech_configs(&list).unwrap_or_default() {
            assert!(ascii(config.public_name).is_ascii() && config.public_name.len() < 256);
        }
    }
}

/// HTTP/3 streams. The first byte selects the size of the pieces, which must not change the result. The streams are
/// also read after valid first bytes.
pub fn http3(data: &[u8]) {
    const LIMIT: usize = 4096;
    let Some((&size, rest)) = data.split_first() else {
        return;
    };
    // A whole HEADERS frame.
    let section = &rest[..rest.len().min(0x3fff)];
    let length = (section.len() as u16 | 0x4000).to_be_bytes();
    let headers = [&[1], &length[..], section].concat();
    let sizes = [usize::from(size).max(1), usize::MAX];
    for stream in [rest, &headers] {
        let ends = sizes.map(|size| {
            let mut reader = ResponseStream::new(LIMIT);
            let pushed = stream.chunks(size).try_for_each(|piece| reader.push(piece));
            let end = pushed.and_then(|()| reader.finish());
            let fields = |response: &Response| response.fields.clone();
            let fields = reader.response().map(fields).unwrap_or_default();
            assert!(fields.size() <= LIMIT && fields.iter().count() == fields.len());
            (end, fields, reader.content_bytes())
        });
        assert_eq!(ends[0], ends[1]);
    }
    for stream in [
        rest.to_vec(),
        [&[0, 4, 0][..], rest].concat(),
        [&[0], rest].concat(),
    ] {
        let ends = sizes.map(|size| {
            let mut reader = UniStream::new(LIMIT);
            let pushed = stream.chunks(size).try_for_each(|piece| reader.push(piece));
            let end = pushed.and_then(|()| reader.finish());
            (
                end,
                reader.kind(),
                reader.goaway(),
                reader.settings().map(<[_]>::len),
            )
        });
        assert_eq!(ends[0], ends[1]);
    }
}

/// A key log, added twice.
pub fn key_log(data: &[u8]) {
    let mut ring = Keyring::default();
    ring.add(data);
    ring.add(data);
    let random = data.first_chunk().copied().unwrap_or([7; 32]);
    let _ = (ring.is_empty(), ring.look_up(&random));
    let _ = ring.look_up(&[5; 32]);
}

/// A TCP header with options.
pub fn tcp(data: &[u8]) {
    if let Ok(header) = Header::parse(data) {
        let options = header.options();
        let _ = format!("{header:?} {options:?}");
        for option in options.flatten() {
            let _ = format!("{option:?}");
        }
    }
}

/// Frames in valid Initials: first from the server, then from the client.
pub fn sealed_frames(data: &[u8]) {
    let data = &data[..data.len().min(1200)];
    let Some(mut sealer) = Sealer::new() else {
        return;
    };
    let mut pcap = Pcap::new(101);
    pcap.frame(0, &make::udp(true, &sealer.hello()));
    for from_client in [false, true] {
        let packet = sealer.packet(from_client, Kind::Initial, 0, data);
        pcap.frame(1_000_000, &make::udp(from_client, &packet));
    }
    dissect(pcap.bytes(), Keyring::default());
}

/// Frames in packets of every type and both sides, with a key log. Each packet takes a byte for type, side and number,
/// and a byte for the length of the frames.
pub fn sealed_protected(data: &[u8]) {
    let Some(mut sealer) = Sealer::new() else {
        return;
    };
    let mut keyring = Keyring::default();
    keyring.add(Sealer::key_log().as_bytes());
    let mut pcap = Pcap::new(101);
    pcap.frame(0, &make::udp(true, &sealer.hello()));
    let mut bytes = Bytes(data);
    while !bytes.is_empty() {
        let what = bytes.u8();
        let size = usize::from(bytes.u8()) * if what & 0x80 == 0 { 1 } else { 4 };
        let from_client = what & 1 == 0;
        let kinds = [Kind::Initial, Kind::Handshake, Kind::OneRtt, Kind::OneRtt];
        let kind = kinds[usize::from(what >> 1 & 3)];
        let gap = [0, 0, 1, 200][usize::from(what >> 3 & 3)];
        let packet = sealer.packet(from_client, kind, gap, bytes.take(size));
        pcap.frame(700_000, &make::udp(from_client, &packet));
    }
    dissect(pcap.bytes(), keyring);
}

/// Records without padding: arbitrary bytes, arbitrary bytes with MAGIC, and an Initial with frames and padding. The
/// first byte selects the amount of padding. A cut record must be restored exactly. A damaged one must not be restored.
pub fn padding(data: &[u8]) {
    let (mut out, mut restorer) = (Vec::new(), Restorer::default());
    for record in [data.to_vec(), [data, &MAGIC].concat()] {
        if restorer.restore(&record, 1400, &mut out) == Restored::Whole {
            assert!(out.len() <= record.len() + 1400);
        }
        out.clear();
    }
    let (Some((&more, rest)), Some(mut sealer)) = (data.split_first(), Sealer::new()) else {
        return;
    };
    let frames = [
        &rest[..rest.len().min(400)],
        &vec![0; usize::from(more) * 4],
    ]
    .concat();
    let frame = make::udp(true, &sealer.packet(true, Kind::Initial, 0, &frames));
    let (Ok(packet), Some(secret)) = (
        parse_packet(&frame[28..], 0, 0),
        InitialSecret::new(Version::V1, &Sealer::origin()),
    ) else {
        return;
    };
    let keys = secret.client();
    let mut datagram = frame[28..].to_vec();
    let opened = Keys::new(&keys).open(&mut datagram, &packet, None);
    let opened = opened.expect("its own keys open a packet");
    let sealed = Sealed {
        at: 28,
        from_client: true,
        opened: &[Padding::of(&packet, &opened, Sealer::origin(), keys)],
        schedules: &mut KeyCache::default(),
    };
    let mut record = Vec::new();
    let is_cut = Cutter::default().cut(&frame, 0, sealed, &mut record);
    if !is_cut.expect("a reader restores it") {
        return;
    }
    let missing = frame.len() - record.len();
    assert_eq!(
        restorer.restore(&record, missing, &mut out),
        Restored::Whole
    );
    assert_eq!(out, frame);
    let at = 28 + usize::from(rest.first().copied().unwrap_or(0)) % (record.len() - 28);
    record[at] ^= more | 1;
    out.clear();
    assert_ne!(
        restorer.restore(&record, missing, &mut out),
        Restored::Whole
    );
    let mut pcap = Pcap::marked(101, MARK);
    pcap.record(0, &record, frame.len());
    pcap.record(0, data, data.len() + 1400);
    capture(&pcap.bytes());
}
