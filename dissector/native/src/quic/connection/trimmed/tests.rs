use crate::quic::connection::Connection;
use crate::quic::connection::testing::*;
use crate::quic::packet_log::LoggedPacket;

/// A datagram: time in ms, whether the client sends it, its packets.
type Sent<'a> = (i64, bool, &'a [P<'a>]);

const SEALED: P<'_> = handshake(0, &[F::Stream(0, 50)]);
const SHORT: P<'_> = one_rtt(0, &[F::Stream(0, 50)]);

fn text(connection: &Connection) -> String {
    let c = connection;
    format!(
        "{:?} {:?} {:?} {:?} {} {:?} {:?}",
        c.packets,
        c.datagrams,
        c.timeline,
        c.volume,
        c.undecrypted_packets,
        c.is_cut,
        c.server_scid
    )
}

/// The connection after `story`, the bytes of each datagram that a trimmed capture keeps, and the logged packets.
fn dissected(
    story: &[Sent<'_>],
    cut: &[usize],
    keys: &str,
) -> (String, Vec<usize>, Vec<LoggedPacket>) {
    let mut feed = Feed::new(keys);
    feed.log_packets();
    let mut kept = Vec::new();
    for (i, (ms, from_client, packets)) in story.iter().enumerate() {
        let bytes = datagram(*from_client, ODCID, &[], packets);
        let captured = cut.get(i).copied().unwrap_or(bytes.len());
        let (connection, _) = feed.cut(*ms, *from_client, &bytes, captured).unwrap();
        let bytes_left = &bytes[..captured];
        let keeps = connection.kept(*from_client, bytes_left, bytes.len());
        kept.push(keeps.unwrap_or(bytes.len()));
    }
    let log = feed.log.take().unwrap().packets;
    (text(&feed.one()), kept, log)
}

const STORIES: &[&[Sent<'_>]] = &[
    &[(0, true, &[HELLO]), (10, false, &[ANSWER, SEALED])],
    &[
        (0, true, &[HELLO]),
        (10, false, &[ANSWER]),
        (11, false, &[SEALED]),
        (12, false, &[SEALED, SHORT]),
        (13, false, &[SHORT]),
        (14, true, &[SEALED]),
        (15, true, &[SHORT]),
        (5000, false, &[SEALED]),
        (5001, false, &[SHORT]),
    ],
    // A Handshake packet before any ServerHello, and one to another connection ID.
    &[
        (0, true, &[HELLO]),
        (10, false, &[SEALED]),
        (20, false, &[ANSWER]),
    ],
    &[
        (0, true, &[HELLO, zero_rtt(0, &[F::Ping])]),
        (10, false, &[ANSWER]),
    ],
    &[
        (0, true, &[HELLO]),
        (10, false, &[ANSWER, SEALED]),
        (20, true, &[zero_rtt(0, &[F::Ping])]),
    ],
];

#[test]
fn a_trimmed_datagram_gives_what_the_whole_one_gives() {
    let mut trimmed = 0;
    for story in STORIES {
        let (whole, kept, log) = dissected(story, &[], "");
        let sizes: Vec<usize> = (story.iter())
            .map(|(_, from_client, packets)| datagram(*from_client, ODCID, &[], packets).len())
            .collect();
        trimmed += (kept.iter().zip(&sizes))
            .filter(|(kept, size)| kept < size)
            .count();
        let (again, kept_again, log_again) = dissected(story, &kept, "");
        assert_eq!(again, whole);
        assert_eq!(format!("{log_again:?}"), format!("{log:?}"));
        // Trimming again changes nothing.
        let left: Vec<usize> = (kept.iter().zip(&sizes).zip(&kept_again))
            .map(|((kept, size), again)| if kept < size { *again } else { *size })
            .collect();
        assert_eq!(left, kept);
    }
    assert_eq!(trimmed, 1 + 7 + 1 + 1 + 2);
}

#[test]
fn what_can_be_opened_stays_whole() {
    let story = STORIES[1];
    let sizes: Vec<usize> = (story.iter())
        .map(|(_, from_client, packets)| datagram(*from_client, ODCID, &[], packets).len())
        .collect();
    assert_eq!(dissected(story, &[], &key_log()).1, sizes);
    // Initials are never cut. Of other datagrams, all is kept up to the last packet's header.
    let kept = dissected(story, &[], "").1;
    assert_eq!(kept[..2], sizes[..2]);
    let long_header = 1 + 4 + 1 + 8 + 1 + 8 + 2;
    assert_eq!(kept[2], long_header);
    assert_eq!(kept[3], sizes[2] + 1 + 8);
    assert_eq!(kept[4], 1 + 8);
}

#[test]
fn what_a_trimmed_capture_lacks_is_missed_when_there_are_keys() {
    let story = STORIES[1];
    let kept = dissected(story, &[], "").1;
    let mut feed = Feed::new(&key_log());
    for ((ms, from_client, packets), captured) in story.iter().zip(&kept) {
        let bytes = datagram(*from_client, ODCID, &[], packets);
        feed.cut(*ms, *from_client, &bytes, *captured).unwrap();
    }
    let connection = feed.one();
    assert!(connection.is_cut && connection.has_keys() && !connection.is_open());
}

#[test]
fn a_record_that_ends_anywhere_else_was_cut_by_the_capture() {
    let bytes = datagram(false, ODCID, &[], &[ANSWER, SEALED]);
    let kept = dissected(STORIES[0], &[], "").1[1];
    for captured in 0..bytes.len() {
        let mut feed = Feed::begun("");
        feed.cut(10, false, &bytes, captured).unwrap();
        let connection = feed.one();
        assert_eq!(connection.is_cut, captured != kept, "{captured}");
    }
}

#[test]
fn datagrams_with_anything_behind_the_last_packet_stay_whole() {
    let answer = datagram(false, ODCID, &[], &[ANSWER, SEALED]);
    for tail in [&[0; 20][..], &[1; 20], &[0x20, 1, 2]] {
        let bytes = [&answer[..], tail].concat();
        let mut feed = Feed::begun("");
        let (connection, _) = feed.bytes(10, false, &bytes).unwrap();
        assert_eq!(connection.kept(false, &bytes, bytes.len()), None);
    }
    let mut feed = Feed::begun("");
    let (connection, _) = feed.bytes(10, false, &[]).unwrap();
    assert_eq!(connection.kept(false, &[], 0), None);
}
