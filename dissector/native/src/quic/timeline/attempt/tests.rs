//! A ClientHello at 100 ns and the answers.

use super::*;
use firstflight_wire::{Frames, Writer, write_ack};

const WINDOWS: Windows = Windows {
    answer_ns: 1000,
    settle_ns: 50,
};

fn at(ns: i64, datagram: u32) -> At {
    At { ns, datagram }
}

/// A ClientHello of 300 bytes in packet 0.
fn attempt() -> Attempt {
    let mut attempt = Attempt::new(0, 100);
    attempt.hello.sent(0, 100, 0, 300, Some(300));
    attempt
}

fn acknowledge(attempt: &mut Attempt, at: At, range: (u64, u64), others: &[Frame<'_>]) {
    let mut buf = [0; 32];
    let mut w = Writer::new(&mut buf);
    write_ack(&mut w, range.0, 7, &[range]).unwrap();
    let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else {
        panic!("no ACK")
    };
    let frames = [&[Frame::Ack(ack)][..], others].concat();
    let initial = ServerInitial {
        at,
        packet_number: 4,
        frames: &frames,
        datagram_bytes: 70_000,
    };
    attempt.acknowledged(&ack, &initial);
}

#[test]
fn answers_count_within_both_windows() {
    // Times for a piece of the ClientHello and of the ServerHello, whether the attempt is finished, and the last time
    // that counts.
    for (sent_ns, hello_ns, ended, last_ns) in [
        (None, None, false, Some(1100)),
        (Some(100), None, false, Some(1100)),
        (Some(300), None, false, Some(1300)),
        (Some(100), Some(400), false, Some(450)),
        (Some(100), Some(1090), false, Some(1100)),
        (None, None, true, None),
    ] {
        let mut attempt = Attempt::new(0, 100);
        if let Some(ns) = sent_ns {
            attempt.hello.sent(0, ns, 0, 300, None);
        }
        attempt.server_hello = hello_ns.map(|ns| ObservedHello {
            at: at(ns, 1),
            packet_number: 0,
        });
        attempt.ended = ended;
        for ns in [100, 399, 449, 450, 451, 1099, 1100, 1101, 1300, 1301] {
            let expected = last_ns.is_some_and(|last| ns <= last);
            assert_eq!(attempt.is_open(ns, &WINDOWS), expected, "{last_ns:?} {ns}");
        }
    }
}

#[test]
fn bytes_count_until_the_second_datagram_of_the_client() {
    let mut attempt = Attempt::new(0, 100);
    attempt.server_datagram(10);
    attempt.client_datagram(1200);
    attempt.server_datagram(100);
    attempt.server_datagram(20);
    attempt.client_datagram(500);
    attempt.server_datagram(3000);
    assert_eq!(attempt.hello_datagram_bytes, Some(1200));
    assert_eq!(attempt.bytes_sent, 1200);
    assert_eq!(
        (attempt.bytes_received, attempt.datagrams_received),
        (130, 3)
    );
    assert_eq!(attempt.client_datagrams, 2);
    let mut attempt = Attempt::new(0, 100);
    attempt.client_datagram(70_000);
    assert_eq!(attempt.hello_datagram_bytes, None);
    assert_eq!(attempt.bytes_sent, 70_000);
}

#[test]
fn it_is_over_when_nothing_more_is_counted_and_nothing_more_answers() {
    for (ended, datagrams, is_over) in [
        (true, 2, true),
        (true, 3, true),
        (true, 1, false),
        (false, 2, false),
    ] {
        let mut attempt = Attempt::new(0, 100);
        attempt.ended = ended;
        (0..datagrams).for_each(|_| attempt.client_datagram(1200));
        assert_eq!(attempt.is_over(), is_over, "{ended} {datagrams}");
    }
}

#[test]
fn a_gap_is_a_missing_number_before_the_server_hello() {
    // Numbers of the Initials that opened, the last with the ServerHello.
    for (numbers, gap) in [
        (&[0][..], false),
        (&[1], true),
        (&[3], true),
        (&[4], false),
        (&[1_000_000], false),
        (&[0, 1], false),
        (&[1, 0], false),
        (&[0, 2], true),
        (&[0, 2, 1], false),
        (&[5, 6], false),
        (&[1, 2], false),
        (&[5, 8], true),
    ] {
        let mut attempt = attempt();
        numbers
            .iter()
            .for_each(|number| attempt.note_number(*number));
        attempt.server_hello(at(200, 1), *numbers.last().unwrap());
        assert_eq!(attempt.gap_before_hello, Some(gap), "{numbers:?}");
        assert_eq!(attempt.opened as usize, numbers.len());
    }
}

#[test]
fn after_a_hello_retry_request_the_numbers_go_on() {
    for (before, after, gap) in [
        (&[0, 1][..], &[2][..], false),
        (&[0, 1], &[3], true),
        (&[5], &[4], false),
        (&[5], &[3], true),
    ] {
        let mut first = attempt();
        before.iter().for_each(|number| first.note_number(*number));
        first.client_datagram(1200);
        first.close = Some(Box::new(ObservedClose {
            code: 1,
            reason: String::new(),
        }));
        let mut second = first.after(300, 500);
        assert_eq!((second.hello.from, second.begin_ns), (300, 500));
        assert_eq!((second.opened, second.client_datagrams), (0, 0));
        assert!(second.close.is_none());
        after.iter().for_each(|number| second.note_number(*number));
        second.server_hello(at(600, 2), after[0]);
        assert_eq!(second.gap_before_hello, Some(gap), "{before:?} {after:?}");
    }
}

#[test]
fn the_first_ack_of_the_whole_hello_is_observed() {
    let mut attempt = attempt();
    attempt.hello.sent(1, 150, 0, 300, None);
    acknowledge(&mut attempt, at(190, 1), (9, 8), &[]);
    assert!(attempt.ack.is_none() && attempt.partial_ack_ns.is_none());
    let crypto = Frame::Crypto {
        offset: 0,
        data: b"x",
    };
    let padding = Frame::Padding { length: 1 };
    let others = [padding.clone(), crypto, padding];
    acknowledge(&mut attempt, at(200, 2), (1, 1), &others);
    acknowledge(&mut attempt, at(210, 3), (1, 0), &[]);
    let ack = attempt.ack.unwrap();
    assert_eq!((ack.at, ack.hello_ns), (at(200, 2), 150));
    assert_eq!((ack.packet_number, ack.largest, ack.first_range), (4, 1, 0));
    assert_eq!((ack.delay_raw, ack.datagram_bytes), (7, u16::MAX));
    assert_eq!((&*ack.frames, ack.eliciting), ("ack,padding,crypto", true));
}

#[test]
fn an_ack_alone_elicits_nothing() {
    let mut attempt = attempt();
    acknowledge(&mut attempt, at(200, 1), (0, 0), &[]);
    let ack = attempt.ack.unwrap();
    assert_eq!((&*ack.frames, ack.eliciting), ("ack", false));
}

#[test]
fn the_first_ack_of_a_part_is_noted() {
    let mut attempt = Attempt::new(0, 100);
    attempt.hello.sent(0, 100, 0, 200, Some(300));
    attempt.hello.sent(1, 110, 200, 100, Some(300));
    for ns in [200, 210] {
        acknowledge(&mut attempt, at(ns, 1), (0, 0), &[]);
        assert!(attempt.ack.is_none());
    }
    acknowledge(&mut attempt, at(220, 2), (1, 1), &[]);
    assert_eq!(attempt.partial_ack_ns, Some(200));
    assert_eq!(attempt.ack.unwrap().hello_ns, 110);
}

#[test]
fn handshake_packets_count_from_the_datagram_of_the_server_hello_on() {
    // Handshake packets as (time, datagram) before and after the ServerHello at 200 in datagram 2.
    for (before, after, handshake_ns) in [
        (&[][..], &[][..], None),
        (&[(199, 2)], &[], Some(199)),
        (&[(190, 1)], &[], None),
        (&[(190, 1), (199, 2)], &[], Some(199)),
        (&[(199, 2)], &[(210, 3)], Some(199)),
        (&[], &[(210, 3), (220, 4)], Some(210)),
    ] {
        let mut attempt = attempt();
        attempt.note_number(0);
        before
            .iter()
            .for_each(|(ns, n)| attempt.handshake(at(*ns, *n)));
        attempt.server_hello(at(200, 2), 0);
        after
            .iter()
            .for_each(|(ns, n)| attempt.handshake(at(*ns, *n)));
        assert_eq!(attempt.handshake_ns, handshake_ns, "{before:?} {after:?}");
        attempt.no_server_hello();
        assert!(attempt.server_hello.is_none() && attempt.gap_before_hello.is_none());
        assert_eq!(attempt.handshake_ns, None);
    }
}

#[test]
fn the_first_close_counts() {
    let mut attempt = attempt();
    attempt.closed(7, b"\xffno");
    attempt.closed(8, b"");
    let close = attempt.close.unwrap();
    assert_eq!((close.code, &*close.reason), (7, "\u{fffd}no"));
}

#[test]
fn what_a_cut_datagram_of_the_server_hides() {
    // The ServerHello's datagram and whether an ACK arrived before it; datagram 2 is cut.
    for (hello, has_ack, is_cut) in [
        (None, false, true),
        (None, true, true),
        (Some(2), false, true),
        (Some(2), true, false),
        (Some(1), false, false),
        (Some(1), true, false),
    ] {
        let mut attempt = attempt();
        attempt.note_number(0);
        if has_ack {
            acknowledge(&mut attempt, at(150, 1), (0, 0), &[]);
        }
        if let Some(datagram) = hello {
            attempt.server_hello(at(200, datagram), 0);
        }
        for _ in 0..2 {
            attempt.answer_cut(at(200, 2));
            assert!(attempt.ended);
            assert_eq!(attempt.answer_is_cut, is_cut, "{hello:?} {has_ack}");
        }
    }
}

#[test]
fn a_cut_datagram_of_the_client_matters_before_the_server_hello() {
    let mut before = attempt();
    for _ in 0..2 {
        before.hello_cut();
        assert!(before.hello_is_cut);
    }
    before.note_number(0);
    before.server_hello(at(200, 1), 0);
    before.hello_cut();
    assert!(before.hello_is_cut);
    let mut after = attempt();
    after.note_number(0);
    after.server_hello(at(200, 1), 0);
    after.hello_cut();
    assert!(!after.hello_is_cut);
}

#[test]
fn the_answer_is_complete_with_all_three_parts() {
    for parts in 0..8 {
        let [ack, hello, handshake] = [1, 2, 4].map(|part| parts & part != 0);
        let mut attempt = attempt();
        attempt.note_number(0);
        if ack {
            acknowledge(&mut attempt, at(150, 1), (0, 0), &[]);
        }
        if hello {
            attempt.server_hello(at(200, 2), 0);
        }
        attempt.handshake_ns = handshake.then_some(210);
        for _ in 0..2 {
            attempt.end_if_complete();
            assert_eq!(attempt.ended, parts == 7, "{ack} {hello} {handshake}");
        }
    }
    let mut attempt = attempt();
    attempt.ended = true;
    attempt.end_if_complete();
    assert!(attempt.ended);
}
