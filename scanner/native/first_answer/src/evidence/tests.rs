use super::*;

#[test]
fn kinds_keep_their_order_and_fold_repeats() {
    let mut kinds = FrameKinds::default();
    let padding = Frame::Padding { length: 1 };
    for frame in [
        Frame::Ping,
        padding.clone(),
        Frame::Ping,
        Frame::Crypto {
            offset: 0,
            data: &[],
        },
        padding,
    ] {
        kinds.push(&frame);
    }
    kinds.push(&Frame::HandshakeDone);
    assert_eq!(kinds.names(), "ping,padding,crypto");
    assert_eq!(FrameKinds::default().names(), "");
}

fn gap(numbers: &[u64]) -> bool {
    let mut seen = PacketNumbers::default();
    numbers.iter().for_each(|n| assert!(seen.insert(*n)));
    seen.gap()
}

#[test]
fn gaps() {
    assert!(
        !gap(&[0])
            && !gap(&[0, 1])
            && !gap(&[1, 0])
            && !gap(&[2_147_483_647])
            && !gap(&[7, 8])
            && !gap(&[1, 2])
    );
    assert!(gap(&[1]) && gap(&[0, 2]) && gap(&[5, 7]) && gap(&[0, 400]));
}

#[test]
fn copies_are_recognised() {
    let mut seen = PacketNumbers::default();
    assert!(seen.insert(1000) && seen.insert(999) && !seen.insert(1000) && !seen.insert(999));
    assert_eq!(seen.largest(), Some(1000));
    assert!(seen.insert(u64::MAX >> 2));
}
/// A frame of each kind that an Initial can contain, and of two other kinds.
fn frame(name: &str) -> Frame<'static> {
    match name {
        "padding" => Frame::Padding { length: 1 },
        "ping" => Frame::Ping,
        "ack" => {
            let payload = &[2, 0, 0, 0, 0];
            firstflight_wire::Frames::new(payload)
                .next()
                .unwrap()
                .unwrap()
        }
        "crypto" => Frame::Crypto {
            offset: 0,
            data: &[],
        },
        "connection_close" => Frame::ConnectionClose {
            code: 0,
            frame_type: 0,
            reason: &[],
        },
        "application_close" => Frame::ApplicationClose {
            code: 0,
            reason: &[],
        },
        "max_data" => Frame::MaxData(1),
        _ => Frame::HandshakeDone,
    }
}

#[test]
fn all_kinds_of_an_initial_fit_in_any_order() {
    for (frames, expected) in [
        (
            &KINDS[..],
            "padding,ping,ack,crypto,connection_close,application_close",
        ),
        (
            &[
                "application_close",
                "connection_close",
                "crypto",
                "ack",
                "ping",
                "padding",
                "application_close",
                "padding",
            ],
            "application_close,connection_close,crypto,ack,ping,padding",
        ),
        (&["max_data", "ack", "handshake_done", "ack"], "ack"),
        (&["handshake_done"], ""),
    ] {
        let mut kinds = FrameKinds::default();
        frames.iter().for_each(|name| kinds.push(&frame(name)));
        assert_eq!(kinds.names(), expected, "{frames:?}");
    }
}

#[test]
fn a_lone_number_from_1_to_3_is_a_gap() {
    for (number, expected) in [(0, false), (1, true), (2, true), (3, true), (4, false)] {
        assert_eq!(gap(&[number]), expected, "{number}");
    }
    for (numbers, expected) in [(&[2, 3][..], false), (&[3, 1, 2], false), (&[3, 1], true)] {
        assert_eq!(gap(numbers), expected, "{numbers:?}");
    }
}

#[test]
fn copies_are_recognised_among_128_numbers_around_the_first() {
    for (first, number, recognised) in [
        (0, 0, true),
        (0, 127, true),
        (0, 128, false),
        (10, 0, true),
        (1000, 935, false),
        (1000, 936, true),
        (1000, 1063, true),
        (1000, 1064, false),
    ] {
        let mut seen = PacketNumbers::default();
        assert!(seen.insert(first));
        let new = number != first;
        assert_eq!(seen.insert(number), new, "{first} {number}");
        assert_eq!(seen.insert(number), !recognised, "{first} {number}");
    }
}

#[test]
fn the_largest_number_is_known_from_the_first_packet_on() {
    let mut seen = PacketNumbers::default();
    assert_eq!(seen.largest(), None);
    for (number, largest) in [(7, 7), (3, 7), (9, 9)] {
        seen.insert(number);
        assert_eq!(seen.largest(), Some(largest));
    }
}
