//! Decrypts datagrams with the keys of their connection.

use firstflight_wire::tls::{ClientHello, number, read_message};
use firstflight_wire::{
    Frame, Frames, InitialSecret, Keys, PacketType, Reader, parse_packet, write_retry,
};

use super::*;

const DCID: [u8; 8] = [0xd; 8];
const CLIENT: [u8; 8] = [0xc; 8];
const CONTACT: &str = "research@example.org";

fn packets() -> Packets {
    Packets::new(CONTACT, [7; 32]).unwrap()
}

/// A decrypted Initial: connection IDs, token, packet number, and the frames other than PADDING.
struct Initial {
    ids: [Vec<u8>; 2],
    token: Vec<u8>,
    number: u64,
    crypto: Vec<u8>,
    close: Option<(u64, Vec<u8>)>,
}

fn open(datagram: &[u8], secret: ConnectionId) -> Initial {
    let mut bytes = datagram.to_vec();
    let packet = parse_packet(&bytes, 0, 8).unwrap();
    assert_eq!(
        (packet.kind, packet.version),
        (PacketType::Initial, VERSION)
    );
    assert_eq!(packet.end, bytes.len(), "one packet fills the datagram");
    let token = packet.token(&bytes).to_vec();
    let keys = Keys::new(&InitialSecret::new(VERSION, &secret).unwrap().client());
    let opened = keys.open(&mut bytes, &packet, None).unwrap();
    let (mut crypto, mut close) = (Vec::new(), None);
    for frame in Frames::new(opened.payload) {
        match frame.unwrap() {
            Frame::Crypto { offset: 0, data } => crypto = data.to_vec(),
            Frame::ConnectionClose { code, reason, .. } => close = Some((code, reason.to_vec())),
            Frame::Padding { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    Initial {
        ids: [packet.dcid, packet.scid].map(|id| id.as_slice().to_vec()),
        token,
        number: opened.packet_number,
        crypto,
        close,
    }
}

/// Returns the Initial of `exchange`, decrypted, and the size.
fn initial(packets: &Packets, exchange: &Exchange, sni: &str, size: u16) -> (Initial, usize) {
    let mut out = [0; 1500];
    let n = packets.initial(&mut out, exchange, sni, size).unwrap();
    (open(&out[..n], exchange.dcid), n)
}

/// A connection to a server that sent a Retry.
fn retried() -> Exchange {
    let mut exchange = Exchange::new(DCID, CLIENT);
    let mut out = [0; 200];
    let scid = ConnectionId::new(&[7; 6]).unwrap();
    let (odcid, client) = (DCID.into(), CLIENT.into());
    let n = write_retry(&mut out, VERSION, &odcid, &client, &scid, b"token", 0).unwrap();
    exchange.receive(1, &mut out[..n]);
    assert!(exchange.retried);
    exchange
}

#[test]
fn the_initial_has_a_client_hello_with_the_name_and_fills_its_size() {
    let exchange = Exchange::new(DCID, CLIENT);
    for (sni, size) in [("www.example.net", 1252), ("", 1200), ("a.test", 1472)] {
        let (initial, written) = initial(&packets(), &exchange, sni, size);
        assert_eq!(written, usize::from(size));
        assert_eq!(initial.ids, [DCID.to_vec(), CLIENT.to_vec()]);
        assert_eq!(
            (initial.number, initial.token.len(), initial.close),
            (0, 0, None)
        );
        let (kind, body) = read_message(&mut Reader::new(&initial.crypto)).unwrap();
        assert_eq!(kind, number::CLIENT_HELLO);
        let hello = ClientHello::parse(body).unwrap();
        let name = Some(sni.as_bytes()).filter(|name| !name.is_empty());
        assert_eq!(hello.sni, name);
    }
}

#[test]
fn after_a_retry_the_same_client_hello_goes_with_the_token() {
    let packets = packets();
    let (before, _) = initial(&packets, &Exchange::new(DCID, CLIENT), "a.test", 1252);
    let (after, size) = initial(&packets, &retried(), "a.test", 1252);
    assert_eq!(after.crypto, before.crypto);
    assert_eq!(
        (&after.token[..], after.number, size),
        (&b"token"[..], 1, 1252)
    );
    assert_eq!(after.ids, [vec![7; 6], CLIENT.to_vec()]);
}

#[test]
fn random_and_key_share_differ_by_connection_and_by_run() {
    let hello = |random, client| {
        let packets = Packets::new("", [random; 32]).unwrap();
        initial(&packets, &Exchange::new(DCID, client), "", 1252)
            .0
            .crypto
    };
    let parts = |crypto: &[u8]| {
        let (_, body) = read_message(&mut Reader::new(crypto)).unwrap();
        let hello = ClientHello::parse(body).unwrap();
        let share = hello.key_shares().next().unwrap();
        assert_eq!(share.0, number::X25519);
        (hello.random, share.1.to_vec())
    };
    let first = parts(&hello(1, CLIENT));
    assert_eq!(parts(&hello(1, CLIENT)), first);
    assert!(first.0 != [0; 32] && first.1 != [0; 32] && first.0[..] != first.1[..]);
    for (random, client) in [(1, [1; 8]), (1, [0; 8]), (2, CLIENT)] {
        let other = parts(&hello(random, client));
        assert!(
            other.0 != first.0 && other.1 != first.1,
            "{random} {client:?}"
        );
    }
}

#[test]
fn destinations_are_drawn_from_a_stream_of_their_own() {
    let mut packets = packets();
    let drawn: Vec<[u8; 8]> = (0..100).map(|_| packets.destination()).collect();
    let mut different = drawn.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different.len(), 100);
    let random = packets.fresh([0; 8]).random;
    assert!(
        random
            .chunks(8)
            .all(|part| drawn.iter().all(|dcid| dcid != part))
    );
}

#[test]
fn the_close_goes_to_the_servers_connection_id_with_the_next_number() {
    let mut answered = Exchange::new(DCID, CLIENT);
    answered.server_cid = ConnectionId::new(&[5; 5]).ok();
    for (name, exchange, to, token, number) in [
        ("answered", &answered, vec![5; 5], &b""[..], 1),
        (
            "not answered",
            &Exchange::new(DCID, CLIENT),
            DCID.to_vec(),
            b"",
            1,
        ),
        ("after a Retry", &retried(), vec![7; 6], b"token", 2),
    ] {
        let mut out = [0; 1500];
        let n = packets().close(&mut out, exchange).unwrap();
        assert_eq!(n, 1200, "{name}");
        let close = open(&out[..n], exchange.dcid);
        assert_eq!(close.ids, [to, CLIENT.to_vec()], "{name}");
        assert_eq!((&close.token[..], close.number), (token, number), "{name}");
        assert_eq!(
            close.close,
            Some((0, CONTACT.as_bytes().to_vec())),
            "{name}"
        );
        assert!(close.crypto.is_empty(), "{name}");
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    let exchange = Exchange::new(DCID, CLIENT);
    let packets = packets();
    assert!(
        packets
            .initial(&mut [0; 1500], &exchange, "a.test", 100)
            .is_err()
    );
    assert!(
        packets
            .initial(&mut [0; 1000], &exchange, "a.test", 1252)
            .is_err()
    );
    assert!(packets.close(&mut [0; 1199], &exchange).is_err());
}

#[test]
fn the_template_has_one_hash_whatever_the_run() {
    let hash = packets().template_hash().unwrap();
    assert_eq!(
        Packets::new("other", [9; 32])
            .unwrap()
            .template_hash()
            .unwrap(),
        hash
    );
    assert!(hash.len() == 64 && hash.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')));
}
