//! How packets and datagrams change a timeline that starts at 100 ns.

use firstflight_wire::tls::{write_hello_retry_request, write_server_hello};
use firstflight_wire::{Error, Frames, Writer, write_ack};

use super::*;

const WINDOWS: Windows = Windows {
    answer_ns: 1000,
    settle_ns: 100,
};

fn timeline() -> Timeline {
    let mut t = Timeline::new(100, WINDOWS);
    t.client_hello(100, 0, 0, 300, Some(300));
    t
}

fn at(ns: i64, datagram: u32) -> At {
    At { ns, datagram }
}

fn written(write: impl Fn(&mut Writer<'_>) -> Result<(), Error>) -> &'static [u8] {
    let mut buf = [0; 256];
    let mut w = Writer::new(&mut buf);
    write(&mut w).unwrap();
    w.written().to_vec().leak()
}

fn server_hello() -> &'static [u8] {
    written(|w| write_server_hello(w, &[1; 32], &[], 0x1301, 0x1d, &[2; 32]))
}

fn crypto(offset: u64, data: &[u8]) -> Frame<'_> {
    Frame::Crypto { offset, data }
}

fn ack(largest: u64, delay: u64) -> Frame<'static> {
    let bytes = written(|w| write_ack(w, largest, delay, &[(largest, largest)]));
    Frames::new(bytes).next().unwrap().unwrap()
}

fn close() -> Frame<'static> {
    Frame::ConnectionClose {
        code: 7,
        frame_type: 0,
        reason: b"no",
    }
}

const STREAM: Frame<'static> = Frame::Stream {
    id: 0,
    offset: 0,
    fin: false,
    data: b"x",
};

fn initial(t: &mut Timeline, at: At, packet_number: u64, frames: &[Frame<'_>]) {
    t.server_initial(&ServerInitial {
        at,
        packet_number,
        frames,
        datagram_bytes: 1200,
    });
}

#[test]
fn initials_of_the_client_between_ack_and_server_hello_are_probes() {
    let mut t = timeline();
    t.client_initial(100, &[crypto(0, &[0; 300])]);
    t.client_initial(150, &[Frame::Ping]);
    initial(&mut t, at(200, 0), 0, &[ack(0, 0)]);
    t.client_initial(300, &[Frame::Ping]);
    initial(&mut t, at(400, 1), 1, &[crypto(0, server_hello())]);
    t.client_initial(500, &[Frame::Ping]);
    assert_eq!(t.flights.probes, 1);
}

#[test]
fn copies_of_the_hello_are_counted_by_their_first_byte() {
    let mut t = Timeline::new(100, WINDOWS);
    for (offset, bytes, copies) in [(0, 0, 0), (0, 1, 1), (1, 299, 1), (0, 300, 2), (300, 10, 2)] {
        t.client_hello(100, 0, offset, bytes, None);
        assert_eq!(t.client_hello_copies, copies, "{offset}+{bytes}");
    }
    t.second_hello(200, 300);
    assert_eq!((t.attempt.hello.from, t.client_hello_copies), (300, 2));
    t.client_hello(200, 1, 0, 300, None);
    assert_eq!(t.client_hello_copies, 2);
    t.client_hello(200, 1, 300, 300, None);
    assert_eq!(t.client_hello_copies, 3);
}

#[test]
fn after_a_retry_the_server_begins_again() {
    let mut t = timeline();
    initial(&mut t, at(150, 1), 0, &[crypto(0, server_hello())]);
    t.follow_retry(200);
    assert_eq!(t.attempt.opened, 0);
    assert!(t.attempt.server_hello.is_none());
    initial(&mut t, at(1200, 2), 0, &[crypto(0, server_hello())]);
    assert_eq!(t.attempt.server_hello.unwrap().at, at(1200, 2));
    let mut t = timeline();
    t.follow_retry(200);
    initial(&mut t, at(1201, 2), 0, &[crypto(0, server_hello())]);
    assert!(t.attempt.server_hello.is_none());
}

#[test]
fn versions_are_offered_by_their_whole_names() {
    let mut t = timeline();
    assert!(!t.offers(Version::V2));
    t.version_list = Some("0x6b3343cf,0xff00001d".into());
    assert!(t.offers(Version::V2) && t.offers(Version::DRAFT_29));
    assert!(!t.offers(Version::V1));
    t.follow_offer();
    assert!(t.attempt.ended);
}

#[test]
fn protected_packets_show_their_first_frames() {
    let mut t = timeline();
    t.server_protected(Space::Application, 200, &[ack(0, 9), Frame::Ping]);
    assert_eq!(t.protected().handshake_ack_delay_raw, None);
    t.server_protected(Space::Handshake, 210, &[ack(0, 7)]);
    t.server_protected(Space::Handshake, 220, &[ack(0, 8)]);
    assert_eq!(t.protected().handshake_ack_delay_raw, Some(7));
    assert_eq!(
        (
            t.protected().handshake_done_ns,
            t.protected().first_stream_ns
        ),
        (None, None)
    );
    t.server_protected(Space::Application, 230, &[Frame::HandshakeDone]);
    assert_eq!(
        (
            t.protected().handshake_done_ns,
            t.protected().first_stream_ns
        ),
        (Some(230), None)
    );
    t.server_protected(Space::Application, 240, &[STREAM]);
    t.server_protected(Space::Application, 250, &[STREAM, Frame::HandshakeDone]);
    assert_eq!(
        (
            t.protected().handshake_done_ns,
            t.protected().first_stream_ns
        ),
        (Some(230), Some(240))
    );
}

#[test]
fn frames_that_are_not_understood_are_counted_and_hide_others() {
    let mut t = timeline();
    t.not_understood();
    t.not_understood();
    assert_eq!(t.protected().not_understood, 2);
    for (space, from_client, hidden) in [
        (Space::Handshake, false, (false, true, false)),
        (Space::Application, false, (false, false, true)),
        (Space::Handshake, true, (true, false, false)),
        (Space::Application, true, (true, false, false)),
    ] {
        let mut t = timeline();
        t.frames_hidden(space, from_client);
        let seen = t.protected();
        let found = (
            seen.client_is_hidden,
            seen.handshake_is_hidden,
            seen.application_is_hidden,
        );
        assert_eq!(found, hidden, "{space:?} {from_client}");
    }
}

#[test]
fn a_datagram_that_was_captured_twice_counts_once() {
    let mut t = timeline();
    for (is_repeat, received) in [(false, 1), (true, 1), (false, 2)] {
        t.datagram(is_repeat);
        t.server_datagram(200, 100, 60);
        assert_eq!(t.attempt.datagrams_received, received);
    }
}

#[test]
fn behind_a_cut_datagram_nothing_is_the_first() {
    let mut t = timeline();
    assert!(!t.server_is_cut());
    t.server_cut(at(150, 1), false);
    assert!(t.server_is_cut());
    t.server_protected(
        Space::Handshake,
        200,
        &[ack(0, 7), STREAM, Frame::HandshakeDone],
    );
    initial(
        &mut t,
        at(200, 2),
        0,
        &[ack(0, 7), crypto(0, server_hello())],
    );
    t.server_handshake(at(200, 2));
    assert_eq!(
        (
            t.protected().handshake_ack_delay_raw,
            t.initial_ack_delay_raw
        ),
        (None, None)
    );
    assert_eq!(
        (
            t.protected().handshake_done_ns,
            t.protected().first_stream_ns
        ),
        (None, None)
    );
    assert_eq!((t.first_ack_ns, t.first_handshake_ns), (None, None));
    assert!(t.server_hello_ns.is_none() && t.attempt.server_hello.is_none());
    // The answer continues: the cut datagram started with a short header.
    assert!(t.attempt.ack.is_some() && !t.attempt.answer_is_cut && !t.attempt.ended);
}

#[test]
fn initials_show_their_first_ack_and_within_the_window_the_answer() {
    let frames = [ack(0, 5), crypto(0, server_hello()), close()];
    for (ns, counts) in [(1100, true), (1101, false)] {
        let mut t = timeline();
        initial(&mut t, at(ns, 1), 3, &frames);
        initial(&mut t, at(ns + 10, 2), 4, &[ack(0, 6)]);
        assert_eq!(
            (t.first_ack_ns, t.initial_ack_delay_raw),
            (Some(ns), Some(5))
        );
        assert_eq!(t.server_hello_ns, Some(ns));
        let a = &t.attempt;
        assert_eq!(a.opened, u32::from(counts), "{ns}");
        assert_eq!(
            a.ack.as_ref().map(|ack| ack.packet_number),
            counts.then_some(3)
        );
        assert_eq!(
            a.server_hello.map(|hello| hello.packet_number),
            counts.then_some(3)
        );
        assert_eq!(
            a.close.as_ref().map(|close| close.code),
            counts.then_some(7)
        );
    }
}

#[test]
fn a_close_of_the_application_is_one_too() {
    let mut t = timeline();
    let frame = Frame::ApplicationClose {
        code: 9,
        reason: b"bye",
    };
    initial(&mut t, at(200, 1), 0, &[frame]);
    let close = t.attempt.close.unwrap();
    assert_eq!((close.code, &*close.reason), (9, "bye"));
}

#[test]
fn a_hello_retry_request_and_another_message_take_a_server_hello_back() {
    let retry = written(|w| write_hello_retry_request(w, &[], 0x1301, 0x17));
    for (first, rest, hello_retry, malformed) in [
        (&retry[..20], &retry[20..], true, None),
        (
            &[2][..],
            &[0, 0, 9],
            false,
            Some("first message of the server is no ServerHello"),
        ),
    ] {
        let mut t = timeline();
        initial(&mut t, at(200, 1), 0, &[crypto(0, first)]);
        assert_eq!(t.server_hello_ns, Some(200));
        assert!(t.attempt.server_hello.is_some() && !t.hello_retry);
        initial(&mut t, at(210, 2), 1, &[crypto(first.len() as u64, rest)]);
        assert_eq!((t.server_hello_ns, t.hello_retry), (None, hello_retry));
        assert!(t.attempt.server_hello.is_none());
        assert_eq!(t.attempt.malformed.as_deref(), malformed);
    }
}

#[test]
fn handshake_packets_without_a_server_hello_are_a_fault_within_the_window() {
    for (ns, counts) in [(1100, true), (1101, false)] {
        let mut t = timeline();
        t.server_handshake(at(ns, 1));
        t.server_handshake(at(ns + 1, 2));
        assert_eq!(t.first_handshake_ns, Some(ns));
        let expected = counts.then_some("Handshake packet before any ServerHello");
        assert_eq!(t.attempt.undecrypted, expected);
        assert_eq!(t.attempt.handshake_ns, None);
        if counts {
            initial(&mut t, at(ns, 1), 0, &[crypto(0, server_hello())]);
            assert_eq!(t.attempt.handshake_ns, Some(ns));
        }
    }
}

#[test]
fn it_is_over_when_every_part_of_it_is() {
    // The missing part: the answer's end, validation, a Handshake packet, the TTL; 4: no part.
    for (missing, is_cut) in [0, 1, 2, 3, 4]
        .into_iter()
        .flat_map(|m| [(m, false), (m, true)])
    {
        let mut t = timeline();
        t.client_datagram(100, 1200, 64);
        t.server_datagram(150, 1200, 57);
        t.server_hello_ns = Some(150);
        t.client_datagram(200, 1200, 64);
        t.attempt.ended = missing != 0;
        if missing != 1 {
            t.client_handshake(1);
        }
        if missing != 2 {
            t.server_handshake(at(150, 1));
        }
        if missing == 3 {
            t.ttl = None;
        }
        t.is_cut = is_cut;
        let expected = missing == 4 || missing == 2 && is_cut;
        assert_eq!(t.is_over(), expected, "without {missing} {is_cut}");
    }
}

#[test]
fn the_ttl_is_that_of_the_first_datagram_of_the_server() {
    let mut t = timeline();
    t.client_datagram(100, 1200, 64);
    assert_eq!(t.ttl, None);
    t.server_datagram(150, 1200, 57);
    t.server_datagram(160, 100, 58);
    assert_eq!(t.ttl, Some(57));
    assert_eq!(
        (t.attempt.bytes_received, t.exchange.server_bytes),
        (1300, 1300)
    );
    assert_eq!(
        (t.attempt.bytes_sent, t.exchange.client_bytes),
        (1200, 1200)
    );
}

#[test]
fn cut_datagrams_of_the_server_count_within_the_window() {
    for (ns, begins_long, answer_is_cut) in [
        (1100, true, true),
        (1101, true, false),
        (1100, false, false),
    ] {
        let mut t = timeline();
        t.server_cut(at(ns, 1), begins_long);
        assert_eq!(t.attempt.answer_is_cut, answer_is_cut, "{ns} {begins_long}");
    }
}

#[test]
fn cut_datagrams_of_the_client_count_within_the_window() {
    for (ns, hello_is_cut) in [(1100, true), (1101, false)] {
        let mut t = timeline();
        t.server_datagram(150, 1200, 57);
        t.client_cut(at(ns, 1));
        assert_eq!(t.attempt.hello_is_cut, hello_is_cut, "{ns}");
        assert!(!t.exchange.is_sure());
    }
}

#[test]
fn the_first_fault_within_the_window_is_named() {
    let mut t = timeline();
    t.malformed(1101, "late");
    t.undecrypted(1101, "late");
    assert!(t.attempt.malformed.is_none() && t.attempt.undecrypted.is_none());
    for what in ["first", "second"] {
        t.malformed(1100, what);
        t.undecrypted(1100, what);
    }
    assert_eq!(t.attempt.malformed.as_deref(), Some("first"));
    assert_eq!(t.attempt.undecrypted, Some("first"));
}

#[test]
fn the_first_retry_before_anything_opened_is_valid() {
    for (ns, opened, before, valid) in [
        (1100, 0, None, true),
        (1101, 0, None, false),
        (1100, 1, None, false),
        (1100, 0, Some(150), false),
    ] {
        let mut t = timeline();
        t.attempt.opened = opened;
        t.retry_ns = before;
        assert_eq!(t.retry(ns), valid, "{ns} {opened} {before:?}");
        assert_eq!(t.retry_ns, if valid { Some(ns) } else { before });
    }
}

#[test]
fn version_negotiation_counts_before_anything_else_and_without_the_version_in_use() {
    const BOTH: &[Version] = &[Version::V2, Version::DRAFT_29];
    for (ns, opened, retry_ns, versions, list) in [
        (1100, 0, None, BOTH, Some("0x6b3343cf,0xff00001d")),
        (1101, 0, None, BOTH, None),
        (1100, 1, None, BOTH, None),
        (1100, 0, Some(150), BOTH, None),
        (1100, 0, None, &[], None),
        (1100, 0, None, &[Version::V2, Version::V1], None),
    ] {
        let mut t = timeline();
        t.attempt.opened = opened;
        t.retry_ns = retry_ns;
        t.version_negotiation(ns, Version::V1, versions);
        t.version_negotiation(ns, Version::V1, &[Version(9)]);
        let found = t.version_list.as_deref();
        if versions == BOTH {
            assert_eq!(found, list, "{ns} {opened} {retry_ns:?}");
        } else {
            assert_eq!(found, Some("0x00000009"), "{versions:?}");
        }
    }
}

#[test]
fn icmp_errors_count_within_the_window_and_the_final_one_ends_the_answer() {
    // Time, whether it is final, then type and code that are kept.
    for (errors, icmp, refused) in [
        (&[(1100, 1, false)][..], Some((3, 1)), false),
        (&[(1101, 1, false)], None, false),
        (&[(200, 1, false), (300, 2, false)], Some((3, 1)), false),
        (&[(200, 1, false), (300, 3, true)], Some((3, 3)), true),
        (&[(200, 3, true), (300, 1, false)], Some((3, 3)), true),
        (&[(1101, 3, true)], None, false),
    ] {
        let mut t = timeline();
        for (ns, code, is_final) in errors {
            t.icmp_error(*ns, 3, *code, *is_final);
        }
        assert_eq!((t.icmp, t.refused), (icmp, refused), "{errors:?}");
        assert_eq!(t.attempt.ended, refused, "{errors:?}");
    }
}

#[test]
fn a_datagram_ends_a_complete_answer() {
    let mut t = timeline();
    initial(
        &mut t,
        at(150, 1),
        0,
        &[ack(0, 1), crypto(0, server_hello())],
    );
    t.server_datagram_end();
    assert!(!t.attempt.ended);
    t.server_handshake(at(150, 1));
    assert!(!t.attempt.ended);
    t.server_datagram_end();
    assert!(t.attempt.ended);
}
