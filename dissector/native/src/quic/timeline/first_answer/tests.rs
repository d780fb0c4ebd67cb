//! Parts of an answer and the resulting outcome.

use super::super::{At, Windows};
use super::*;

fn at(datagram: u32) -> At {
    At { ns: 200, datagram }
}

fn ack(t: &mut Timeline, datagram: u32) {
    t.attempt.ack = Some(ObservedAck {
        at: at(datagram),
        hello_ns: 150,
        packet_number: 0,
        largest: 0,
        first_range: 0,
        delay_raw: 0,
        datagram_bytes: 0,
        frames: "ack".into(),
        eliciting: false,
    });
}

fn hello(t: &mut Timeline, datagram: u32) {
    t.attempt.server_hello = Some(ObservedHello {
        at: at(datagram),
        packet_number: 0,
    });
}

fn close(t: &mut Timeline) {
    t.attempt.close = Some(Box::new(ObservedClose {
        code: 1,
        reason: String::new(),
    }));
}

fn both(t: &mut Timeline, ack_datagram: u32, hello_datagram: u32) {
    ack(t, ack_datagram);
    hello(t, hello_datagram);
}

/// Changes to the timeline, the outcome, the reason.
type Case = (fn(&mut Timeline), Outcome, Option<&'static str>);

const CASES: &[Case] = &[
    (|_| {}, Outcome::Timeout, None),
    (|t| both(t, 1, 2), Outcome::Iack, None),
    (|t| both(t, 2, 2), Outcome::Coalesced, None),
    (|t| both(t, 3, 2), Outcome::ShFirst, None),
    (|t| hello(t, 2), Outcome::ShFirst, None),
    (|t| ack(t, 1), Outcome::AckOnly, None),
    (close, Outcome::Closed, None),
    (|t| t.retry_ns = Some(5), Outcome::Retry, None),
    (
        |t| t.version_list = Some("0x1".into()),
        Outcome::VersionNegotiation,
        None,
    ),
    (|t| t.refused = true, Outcome::Refused, None),
    (
        |t| t.attempt.malformed = Some("bad".into()),
        Outcome::Malformed,
        Some("bad"),
    ),
    (
        |t| t.attempt.undecrypted = Some("sealed"),
        Outcome::Malformed,
        Some("sealed"),
    ),
    (
        |t| t.attempt.opened = 1,
        Outcome::Malformed,
        Some(NO_ANSWER),
    ),
    (
        |t| {
            t.attempt.opened = 1;
            t.attempt.partial_ack_ns = Some(5);
        },
        Outcome::Timeout,
        None,
    ),
    // The first that fits counts.
    (
        |t| {
            both(t, 1, 2);
            close(t);
        },
        Outcome::Iack,
        None,
    ),
    (
        |t| {
            ack(t, 1);
            close(t);
        },
        Outcome::Closed,
        None,
    ),
    (
        |t| {
            ack(t, 1);
            t.retry_ns = Some(5);
        },
        Outcome::AckOnly,
        None,
    ),
    (
        |t| {
            t.retry_ns = Some(5);
            t.version_list = Some("0x1".into());
        },
        Outcome::Retry,
        None,
    ),
    (
        |t| {
            t.retry_ns = Some(5);
            t.attempt.opened = 1;
        },
        Outcome::Malformed,
        Some(NO_ANSWER),
    ),
    (
        |t| {
            t.retry_ns = Some(5);
            t.attempt.malformed = Some("bad".into());
        },
        Outcome::Malformed,
        Some("bad"),
    ),
    (
        |t| {
            t.version_list = Some("0x1".into());
            t.refused = true;
        },
        Outcome::VersionNegotiation,
        None,
    ),
    (
        |t| {
            t.refused = true;
            t.attempt.undecrypted = Some("sealed");
        },
        Outcome::Refused,
        None,
    ),
    // An answer is reported with a broken packet, but not with an undecryptable one.
    (
        |t| {
            both(t, 1, 2);
            t.attempt.malformed = Some("bad".into());
            t.attempt.undecrypted = Some("sealed");
        },
        Outcome::Iack,
        Some("bad"),
    ),
    (
        |t| {
            both(t, 1, 2);
            t.attempt.opened = 2;
            t.attempt.undecrypted = Some("sealed");
        },
        Outcome::Iack,
        None,
    ),
    (
        |t| {
            t.attempt.opened = 1;
            t.attempt.undecrypted = Some("sealed");
        },
        Outcome::Malformed,
        Some("sealed"),
    ),
    // The capture cut the answer or the ClientHello.
    (
        |t| t.attempt.answer_is_cut = true,
        Outcome::Malformed,
        Some(CUT),
    ),
    (
        |t| {
            both(t, 1, 2);
            t.attempt.answer_is_cut = true;
            t.attempt.undecrypted = Some("sealed");
        },
        Outcome::Malformed,
        Some(CUT),
    ),
    (|t| t.attempt.hello_is_cut = true, Outcome::Timeout, None),
    (
        |t| {
            ack(t, 1);
            t.attempt.hello_is_cut = true;
        },
        Outcome::Malformed,
        Some(CUT),
    ),
    (
        |t| {
            hello(t, 1);
            t.attempt.hello_is_cut = true;
        },
        Outcome::Malformed,
        Some(CUT),
    ),
    (
        |t| {
            close(t);
            t.attempt.hello_is_cut = true;
        },
        Outcome::Closed,
        None,
    ),
];

fn timeline() -> Timeline {
    let windows = Windows {
        answer_ns: 1000,
        settle_ns: 100,
    };
    Timeline::new(100, windows)
}

#[test]
fn the_first_outcome_that_fits_is_the_answer() {
    for (i, (make, outcome, detail)) in CASES.iter().enumerate() {
        let mut t = timeline();
        make(&mut t);
        let answer = classify(&t);
        assert_eq!((answer.outcome, answer.detail), (*outcome, *detail), "{i}");
    }
}

#[test]
fn times_refer_to_the_hello_that_was_acknowledged() {
    let mut t = timeline();
    assert_eq!(classify(&t).hello_ns, None);
    t.attempt.hello.sent(0, 120, 0, 300, Some(300));
    assert_eq!(classify(&t).hello_ns, Some(120));
    ack(&mut t, 1);
    assert_eq!(classify(&t).hello_ns, Some(150));
}

#[test]
fn an_answer_shows_its_parts() {
    let mut t = timeline();
    both(&mut t, 1, 2);
    close(&mut t);
    t.attempt.partial_ack_ns = Some(1);
    t.attempt.hello.sent(0, -9, 0, 10, None);
    t.attempt.handshake_ns = Some(2);
    t.attempt.gap_before_hello = Some(true);
    let answer = classify(&t);
    assert_eq!(answer.ack.map(|ack| ack.at), Some(at(1)));
    assert_eq!(answer.hello.map(|hello| hello.at), Some(at(2)));
    assert_eq!(
        (answer.partial_ack, answer.handshake_ns),
        (Some((1, -9)), Some(2))
    );
    assert_eq!(answer.gap_before_hello, Some(true));
    assert_eq!(answer.close.map(|close| close.code), Some(1));
}

#[test]
fn outcomes_have_the_names_of_the_definitions() {
    use Outcome::*;
    let all = [
        Iack,
        Coalesced,
        ShFirst,
        Closed,
        AckOnly,
        Retry,
        VersionNegotiation,
        Refused,
        Malformed,
        Timeout,
    ];
    assert_eq!(
        all.map(Outcome::name),
        [
            "iack",
            "coalesced",
            "sh_first",
            "closed",
            "ack_only",
            "retry",
            "version_negotiation",
            "refused",
            "malformed",
            "timeout"
        ]
    );
}
