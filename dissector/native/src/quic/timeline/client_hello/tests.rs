//! Pieces of a ClientHello, and which of them ACKs cover.

use super::*;
use firstflight_wire::{Frame, Frames, Writer, write_ack};

fn acknowledge(hello: &mut HelloSent, largest: u64, smallest: u64) -> Coverage {
    let mut buf = [0; 32];
    let mut w = Writer::new(&mut buf);
    write_ack(&mut w, largest, 0, &[(largest, smallest)]).unwrap();
    let Some(Ok(Frame::Ack(ack))) = Frames::new(w.written()).next() else {
        panic!("no ACK")
    };
    hello.acknowledge(&ack)
}

#[test]
fn a_hello_over_two_datagrams_needs_both() {
    let mut hello = HelloSent::new(0);
    hello.sent(0, 10, 0, 1000, Some(1500));
    hello.sent(1, 20, 1000, 500, Some(1500));
    assert_eq!(acknowledge(&mut hello, 0, 0), Coverage::Partial);
    assert_eq!(acknowledge(&mut hello, 5, 5), Coverage::None);
    assert_eq!(
        acknowledge(&mut hello, 1, 1),
        Coverage::Full { sent_ns: 20 }
    );
}

#[test]
fn the_copy_that_is_acknowledged_counts() {
    let mut hello = HelloSent::new(0);
    hello.sent(0, 10, 0, 300, Some(300));
    hello.sent(1, 900, 0, 300, Some(300));
    assert_eq!(hello.first_ns(), Some(10));
    assert_eq!(
        acknowledge(&mut hello, 1, 1),
        Coverage::Full { sent_ns: 900 }
    );
    assert_eq!(
        acknowledge(&mut hello, 1, 0),
        Coverage::Full { sent_ns: 10 }
    );
}

#[test]
fn pieces_in_any_order_within_one_packet() {
    let mut hello = HelloSent::new(0);
    hello.sent(3, 10, 200, 100, None);
    hello.sent(3, 10, 0, 200, Some(300));
    assert_eq!(
        acknowledge(&mut hello, 3, 3),
        Coverage::Full { sent_ns: 10 }
    );
}

/// Packet number, time, offset, bytes, and the offset of the message's end if known.
type Piece = (u64, i64, u64, usize, Option<u64>);

fn sent(from: u64, pieces: &[Piece]) -> HelloSent {
    let mut hello = HelloSent::new(from);
    for (number, ns, offset, bytes, end) in pieces {
        hello.sent(*number, *ns, *offset, *bytes, *end);
    }
    hello
}

/// Offset of the ClientHello, pieces, the packets acknowledged, coverage.
type Case<'a> = (u64, &'a [Piece], (u64, u64), Coverage);

#[test]
fn an_ack_covers_the_hello_if_its_packets_held_every_byte() {
    use Coverage::{Full, None as Nothing, Partial};
    let cases: &[Case<'_>] = &[
        (0, &[], (0, 0), Nothing),
        (0, &[(0, 5, 0, 300, Some(300))], (0, 0), Full { sent_ns: 5 }),
        (0, &[(0, 5, 0, 299, Some(300))], (0, 0), Partial),
        (0, &[(0, 5, 1, 299, Some(300))], (0, 0), Partial),
        // Without the message's header, the bytes sent count as the whole message.
        (0, &[(0, 5, 0, 200, None)], (0, 0), Full { sent_ns: 5 }),
        (
            0,
            &[(0, 5, 0, 200, None), (1, 6, 200, 100, None)],
            (0, 0),
            Partial,
        ),
        (
            0,
            &[(0, 5, 0, 200, None), (1, 6, 200, 100, None)],
            (1, 0),
            Full { sent_ns: 6 },
        ),
        // A byte is missing between them.
        (
            0,
            &[(0, 5, 0, 199, None), (1, 6, 200, 100, Some(300))],
            (1, 0),
            Partial,
        ),
        // They overlap, in any order.
        (
            0,
            &[(0, 5, 150, 150, Some(300)), (1, 6, 0, 200, None)],
            (1, 0),
            Full { sent_ns: 6 },
        ),
        // Three pieces, sent in reverse order.
        (
            0,
            &[
                (0, 5, 200, 100, Some(300)),
                (1, 6, 100, 100, None),
                (2, 7, 0, 100, None),
            ],
            (2, 0),
            Full { sent_ns: 7 },
        ),
        // After a HelloRetryRequest, bytes below the offset do not belong to the ClientHello.
        (100, &[(1, 5, 0, 100, None)], (1, 1), Nothing),
        (100, &[(1, 5, 0, 101, None)], (1, 1), Full { sent_ns: 5 }),
        (100, &[(1, 5, 100, 50, None)], (1, 1), Full { sent_ns: 5 }),
        (100, &[(1, 5, 101, 50, None)], (1, 1), Partial),
        // A frame without bytes.
        (0, &[(0, 5, 0, 0, Some(300))], (0, 0), Nothing),
        (0, &[(0, 5, 9, 0, Some(300))], (0, 0), Nothing),
    ];
    for (from, pieces, (largest, smallest), coverage) in cases {
        let mut hello = sent(*from, pieces);
        let found = acknowledge(&mut hello, *largest, *smallest);
        assert_eq!(found, *coverage, "{from} {pieces:?}");
    }
}

#[test]
fn times_of_the_first_whole_copy_and_of_the_last_piece() {
    let cases: &[(&[Piece], Option<i64>, Option<i64>)] = &[
        (&[], None, None),
        (&[(0, 5, 0, 300, Some(300))], Some(5), Some(5)),
        (
            &[(0, 5, 0, 200, Some(300)), (1, 8, 200, 100, None)],
            Some(8),
            Some(8),
        ),
        (
            &[(0, 5, 0, 300, Some(300)), (1, 8, 0, 300, None)],
            Some(5),
            Some(8),
        ),
        // Not whole: the first piece.
        (
            &[(0, 5, 0, 100, Some(300)), (1, 8, 100, 100, None)],
            Some(5),
            Some(8),
        ),
    ];
    for (pieces, first_ns, last_ns) in cases {
        let hello = sent(0, pieces);
        assert_eq!((hello.first_ns(), hello.last_ns()), (*first_ns, *last_ns));
    }
}

#[test]
fn the_first_end_that_is_known_counts() {
    let mut hello = sent(0, &[(0, 5, 0, 300, Some(300)), (1, 8, 300, 10, Some(310))]);
    assert_eq!(hello.end, Some(300));
    assert_eq!(acknowledge(&mut hello, 0, 0), Coverage::Full { sent_ns: 5 });
}

#[test]
fn no_more_than_64_packets_are_followed() {
    let mut hello = HelloSent::new(0);
    for number in 0..70 {
        hello.sent(number, number as i64, number * 10, 10, Some(700));
    }
    assert_eq!((hello.pieces.len(), hello.last_ns()), (64, Some(63)));
    assert_eq!(acknowledge(&mut hello, 69, 64), Coverage::None);
    assert_eq!(acknowledge(&mut hello, 63, 63), Coverage::Partial);
}
