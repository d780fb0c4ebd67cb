//! Feeds damaged and random bytes to every reader. Readers return values or errors; they never panic or hang.

#[path = "../../tests/numbers.rs"]
mod numbers;

use firstflight_wire::http3::{ResponseStream, UniStream};
use firstflight_wire::tls::{ClientHello, ServerHello, hello_kind, read_message};
use firstflight_wire::transport::TransportParameters;
use firstflight_wire::{
    ConnectionId, CryptoStream, Frame, Frames, InitialSecret, KeyMaterial, Keys, Packets, Reader,
    Version, parse_packet, retry_is_intact,
};
use numbers::Numbers;

/// Reads a hex file in testdata.
fn file(name: &str) -> Vec<u8> {
    let path = format!("{}/testdata/{name}.hex", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("the sample of the RFC stands in testdata");
    let digits: Vec<u8> = text
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|d| d as u8)
        .collect();
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}

/// Calls every function that reads bytes from the network.
fn read_all(bytes: &[u8]) {
    let keys = Keys::new(&KeyMaterial {
        key: [1; 16],
        iv: [2; 12],
        hp: [3; 16],
    });
    for packet in Packets::new(bytes, 8).flatten() {
        assert!(packet.start < packet.end && packet.end <= bytes.len());
        let _ = packet.versions(bytes).map(Iterator::count);
        let _ = (
            packet.token(bytes),
            retry_is_intact(bytes, &packet, &ConnectionId::EMPTY),
        );
        let _ = keys.open(&mut bytes.to_vec(), &packet, Some(5));
    }
    read_payload(bytes);
}

fn read_payload(bytes: &[u8]) {
    let mut stream = CryptoStream::new(2048);
    for frame in Frames::new(bytes).flatten() {
        match frame {
            Frame::Ack(ack) => assert_eq!(ack.ranges().count() as u64, ack.range_count + 1),
            Frame::Crypto { offset, data } => drop(stream.insert(offset, data)),
            _ => {}
        }
    }
    for hello in [bytes, stream.contiguous()] {
        let _ = hello_kind(hello);
        let _ = ServerHello::parse(hello);
        let body = read_message(&mut Reader::new(hello)).map_or(hello, |(_, body)| body);
        if let Ok(hello) = ClientHello::parse(body) {
            let _ = (
                hello.alpn().count(),
                hello.key_shares().count(),
                hello.supported_groups().count(),
            );
            let _ = hello
                .transport_parameters
                .map(|parameters| parameters.count());
        }
        let _ = TransportParameters::new(body).find(0x0f);
    }
}

#[test]
fn damaged_packets_and_payloads() {
    let mut numbers = Numbers(7);
    for name in [
        "rfc9001_a_client",
        "rfc9001_a_server",
        "rfc9369_a_client",
        "rfc9369_a_server",
    ] {
        for whole in [
            file(&format!("{name}_packet")),
            file(&format!("{name}_plain")),
        ] {
            // The plain text starts with a header; frames follow after 20 or 22 bytes.
            for _ in 0..3000 {
                let mut bytes = whole.clone();
                for _ in 0..=numbers.next(4) {
                    let at = numbers.next(bytes.len().min(300));
                    bytes[at] = numbers.next(256) as u8;
                }
                bytes.truncate(1 + numbers.next(bytes.len()));
                read_all(&bytes);
                read_payload(&bytes[bytes.len().min(20)..]);
                read_payload(&bytes[bytes.len().min(22)..]);
            }
        }
    }
}

/// Mostly small numbers, which are frame types and lengths.
#[test]
fn random_frames() {
    let mut numbers = Numbers(1);
    for _ in 0..20_000 {
        let bytes = [(); 40].map(|()| {
            let highest = if numbers.next(4) == 0 { 0xff } else { 0x1f };
            numbers.next(highest + 1) as u8
        });
        read_payload(&bytes);
    }
}

#[test]
fn every_cut_of_a_packet_is_an_error_and_no_damage_authenticates() {
    let whole = file("rfc9001_a_server_packet");
    let odcid = ConnectionId::from([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
    let keys = Keys::new(&InitialSecret::new(Version::V1, &odcid).unwrap().server());
    for n in 0..whole.len() {
        assert!(parse_packet(&whole[..n], 0, 0).is_err(), "cut at {n}");
        let mut damaged = whole.clone();
        damaged[n] ^= 1;
        if let Ok(packet) = parse_packet(&damaged.clone(), 0, 0) {
            assert!(
                keys.open(&mut damaged, &packet, None).is_err(),
                "damaged at {n}"
            );
        }
    }
}

/// Two streams. A request stream with an informational response, a response with a Huffman-coded string, and
/// content; and a control stream.
const STREAMS: [&[u8]; 2] = [
    &[
        0x01, 0x04, 0, 0, 0xd8, 0xc1, 0x21, 0x01, 7, 0x01, 0x0b, 0, 0, 0xd9, 0x5f, 0x4d, 0x85,
        0x9b, 0xd9, 0xab, 0x9b, 0xd9, 0x00, 0x02, 5, 5,
    ],
    &[
        0x00, 0x04, 0x05, 0x06, 0x44, 0, 0x21, 5, 0x21, 1, 0, 0x07, 0x01, 0x08, 0x07, 0x01, 0x04,
    ],
];

#[test]
fn damaged_streams_are_the_same_in_pieces() {
    let mut numbers = Numbers(3);
    for _ in 0..40_000 {
        let mut bytes = STREAMS[numbers.next(STREAMS.len())].to_vec();
        for _ in 0..=numbers.next(6) {
            let at = numbers.next(bytes.len());
            bytes[at] = numbers.next(256) as u8;
        }
        let sizes = [1 + numbers.next(5), bytes.len()];
        let responses = sizes.map(|size| {
            let mut reader = ResponseStream::new(150);
            let pushed = bytes.chunks(size).try_for_each(|piece| reader.push(piece));
            let end = pushed.and_then(|()| reader.finish());
            (end, reader.response().cloned(), reader.content_bytes())
        });
        assert_eq!(responses[0], responses[1]);
        let streams = sizes.map(|size| {
            let mut reader = UniStream::new(64);
            let pushed = bytes.chunks(size).try_for_each(|piece| reader.push(piece));
            let settings = reader.settings().map(<[_]>::to_vec);
            (pushed, reader.kind(), settings, reader.goaway())
        });
        assert_eq!(streams[0], streams[1]);
    }
}
