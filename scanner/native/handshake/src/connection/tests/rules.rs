//! Violations of QUIC and HTTP/3 by a server, one at a time.

use firstflight_wire::write_retry;

use super::*;

fn streams() -> Streams {
    Streams::new(Arc::from(&SETTINGS[..]), Box::from(&b"request"[..]))
}

#[test]
fn critical_streams_are_one_of_each_kind_and_stay_open() {
    /// Stream number, offset, FIN, bytes.
    type Frame<'a> = (u64, u64, bool, &'a [u8]);
    let closed = Some("critical stream closed");
    let second = Some("second stream of a kind");
    // Frames, the stream that is reset afterwards, the expected error.
    let cases: [(&[Frame<'_>], Option<u64>, Option<&str>); 14] = [
        (&[(3, 0, false, &SETTINGS)], None, None),
        (&[(3, 0, true, &SETTINGS)], None, closed),
        (&[(3, 0, false, &SETTINGS), (3, 3, true, &[])], None, closed),
        (&[(7, 0, true, &[2])], None, closed),
        (&[(3, 0, false, &SETTINGS)], Some(3), closed),
        // Other streams may be closed, even before their type is known.
        (&[(3, 0, true, &[0x21, 7])], None, None),
        (&[(3, 0, false, &[0x21])], Some(3), None),
        (&[(3, 0, false, &[0x40])], Some(3), None),
        (&[(3, 0, false, &SETTINGS)], Some(7), None),
        (
            &[
                (3, 0, false, &SETTINGS),
                (7, 0, false, &[2]),
                (11, 0, false, &[3]),
            ],
            None,
            None,
        ),
        (
            &[(3, 0, false, &[0x21]), (7, 0, false, &[0x21])],
            None,
            None,
        ),
        (
            &[(3, 0, false, &SETTINGS), (7, 0, false, &[0])],
            None,
            second,
        ),
        (&[(3, 0, false, &[3]), (7, 0, false, &[3])], None, second),
        // A FIN after missing bytes closes nothing yet.
        (&[(3, 3, true, &[1])], None, None),
    ];
    for (frames, reset, cause) in cases {
        let mut streams = streams();
        for (id, offset, fin, data) in frames {
            streams.receive(*id, *offset, *fin, data).unwrap();
        }
        if let Some(id) = reset {
            streams.reset(id);
        }
        let found = streams.error().map(|error| error.cause);
        assert_eq!(found, cause, "{frames:?} {reset:?}");
        let http = if cause.is_some() {
            Http::Malformed
        } else {
            Http::NoResponse
        };
        assert_eq!(streams.http(), http);
    }
}

#[test]
fn credit_is_of_offsets_and_not_of_what_is_held() {
    for (id, offset, fin, data, fits) in [
        (0, (64 << 10) - 1, false, &[7][..], true),
        (0, 64 << 10, true, &[], true),
        (0, 64 << 10, false, &[7], false),
        (0, (64 << 10) + 1, true, &[], false),
        (3, (16 << 10) - 1, false, &[7], true),
        (3, 16 << 10, false, &[7], false),
        (3, (1 << 62) - 1, false, &[], false),
    ] {
        let received = streams().receive(id, offset, fin, data);
        assert_eq!(received.is_ok(), fits, "{id} {offset} {fin}");
    }
}

#[test]
fn a_retry_is_followed_if_its_token_leaves_room_for_a_hello() {
    for (length, follows) in [(1, true), (512, true), (513, false), (1120, false)] {
        let (mut client, mut room) = (client(), [0; 2048]);
        client.transmit(0, &mut room).unwrap().unwrap();
        let server = [5; 8].into();
        let (original, token) = (client.original, vec![7; length]);
        let size = write_retry(
            &mut room,
            Version::V1,
            &original,
            &CLIENT.into(),
            &server,
            &token,
            0,
        )
        .unwrap();
        client.receive(1, Times { came: MS, now: MS }, &mut room[..size]);
        assert_eq!(client.observed.retry, follows, "{length}");
        assert_eq!(client.observed.detail.is_some(), !follows);
        let mut sent = 0;
        while client.transmit(MS, &mut room).unwrap().is_some() {
            sent += 1;
        }
        assert_eq!(sent, usize::from(follows), "{length}");
        assert_eq!(client.observed.outcome, None);
    }
}

#[test]
fn what_broke_a_rule_of_http3_is_told() {
    let mut world = World::new(b"h3");
    world.answer = Reaction::Broken;
    let mut client = client();
    world.run(&mut client);
    assert_eq!(
        client.observed.detail.as_deref(),
        Some("HTTP/3 error 0x200: reference to the dynamic table")
    );
}
