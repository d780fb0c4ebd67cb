//! Datagrams of both sides, their times, lengths and TTLs.

use super::*;

fn exchange(ttls: (u8, u8), server_waits: i64, client_waits: i64) -> Exchange {
    let mut e = Exchange::default();
    e.client_datagram(0, 1200, ttls.0, None);
    e.server_datagram(server_waits, 3000, ttls.1);
    e.client_datagram(server_waits + client_waits, 100, ttls.0, Some(server_waits));
    e
}

#[test]
fn the_side_shows_by_ttl_or_time() {
    for (ttls, server, client, side) in [
        ((64, 57), 10, 10, Some(CaptureSide::Client)),
        ((121, 64), 10, 10, Some(CaptureSide::Server)),
        ((63, 63), 40, 2, Some(CaptureSide::Client)),
        ((64, 64), 2, 40, Some(CaptureSide::Server)),
        ((60, 58), 20, 30, None),
    ] {
        assert_eq!(exchange(ttls, server, client).capture_side(), side);
    }
    assert_eq!(Exchange::default().capture_side(), None);
}

#[test]
fn what_the_capture_cut_may_have_validated() {
    let mut e = Exchange::default();
    e.client_datagram(0, 1200, 64, None);
    e.client_cut();
    assert!(e.is_sure(), "nobody has Handshake keys yet");
    e.server_datagram(10, 1200, 57);
    e.client_cut();
    assert!(!e.is_sure());
    let mut e = exchange((64, 57), 10, 10);
    e.validated();
    e.client_cut();
    assert!(e.is_sure());
}

#[test]
fn amplification_ends_with_validation() {
    let mut e = exchange((64, 57), 10, 10);
    assert_eq!(e.amplification(), Some(2.5));
    e.validated();
    e.server_datagram(30, 100_000, 57);
    assert_eq!(e.amplification(), Some(2.5));
    assert_eq!((e.client_bytes, e.server_bytes), (1300, 3000));
    assert_eq!(Exchange::default().amplification(), None);
}

#[test]
fn ttls_that_hosts_begin_with_show_who_is_near() {
    for (client, server, side) in [
        (64, 63, Some(CaptureSide::Client)),
        (128, 100, Some(CaptureSide::Client)),
        (255, 254, Some(CaptureSide::Client)),
        (63, 128, Some(CaptureSide::Server)),
        (65, 64, Some(CaptureSide::Server)),
        (127, 129, None),
        (128, 255, None),
    ] {
        assert_eq!(exchange((client, server), 10, 10).capture_side(), side);
    }
    // Without a packet of the server, its side shows nothing.
    let mut e = Exchange::default();
    e.client_datagram(0, 1200, 64, None);
    assert_eq!(e.capture_side(), None);
    let mut e = Exchange::default();
    e.server_datagram(0, 1200, 64);
    assert_eq!(e.capture_side(), Some(CaptureSide::Server));
}

#[test]
fn who_waits_four_times_as_long_has_the_path_behind_it() {
    for (server, client, side) in [
        (40, 10, Some(CaptureSide::Client)),
        (39, 10, None),
        (10, 39, None),
        (10, 40, Some(CaptureSide::Server)),
        (0, 0, Some(CaptureSide::Client)),
        (1, i64::MAX / 2, Some(CaptureSide::Server)),
    ] {
        assert_eq!(exchange((60, 60), server, client).capture_side(), side);
    }
}

#[test]
fn the_first_waits_and_ttls_count() {
    let mut e = Exchange::default();
    e.server_datagram(1, 10, 50);
    assert_eq!(e.server_waited_ns.get(), None);
    e.client_datagram(3, 10, 40, None);
    e.client_datagram(5, 10, 41, None);
    assert_eq!(e.client_waited_ns.get(), None);
    e.server_datagram(8, 10, 51);
    e.server_datagram(20, 10, 52);
    e.client_datagram(30, 10, 42, Some(8));
    e.client_datagram(50, 10, 43, Some(8));
    assert_eq!(
        (e.server_waited_ns.get(), e.client_waited_ns.get()),
        (Some(3), Some(22))
    );
    assert_eq!((e.client_ttl, e.server_ttl), (Some(40), Some(50)));
}

#[test]
fn the_highest_share_counts() {
    let mut e = Exchange::default();
    // Bytes that the server sends first have no share.
    e.server_datagram(0, 100, 64);
    assert_eq!(e.amplification(), Some(0.0));
    e.client_datagram(1, 100, 64, None);
    e.server_datagram(2, 200, 64);
    assert_eq!(e.amplification(), Some(3.0));
    e.client_datagram(3, 300, 64, None);
    e.server_datagram(4, 100, 64);
    assert_eq!(e.amplification(), Some(3.0));
    assert_eq!((e.client_bytes, e.server_bytes), (400, 400));
    let mut e = Exchange::default();
    e.client_datagram(0, 1200, 64, None);
    e.server_datagram(1, 0, 64);
    assert_eq!(e.amplification(), None);
}

#[test]
fn after_validation_no_byte_counts() {
    let mut e = Exchange::default();
    e.validated();
    e.client_datagram(0, 1200, 64, None);
    e.server_datagram(1, 1200, 64);
    assert_eq!((e.client_bytes, e.server_bytes), (0, 0));
}

#[test]
fn a_cut_datagram_makes_the_validation_unsure_for_good() {
    let mut e = exchange((64, 57), 10, 10);
    e.client_cut();
    e.client_cut();
    assert!(!e.is_sure());
    e.validated();
    e.client_cut();
    assert!(!e.is_sure());
}

#[test]
fn it_is_over_when_all_was_seen_once() {
    // The missing part: validation, the client's datagrams, the server's, the client's wait.
    for left_out in 0..5 {
        let mut e = Exchange::default();
        if left_out != 1 {
            e.client_datagram(0, 1200, 64, None);
        }
        if left_out != 2 {
            e.server_datagram(10, 1200, 57);
        }
        if left_out != 1 {
            let hello_ns = (left_out != 3).then_some(10);
            e.client_datagram(20, 100, 64, hello_ns);
        }
        if left_out != 0 {
            e.validated();
        }
        assert_eq!(e.is_over(), left_out == 4, "without {left_out}");
    }
    // The wait of the server.
    let mut e = Exchange::default();
    e.server_datagram(10, 1200, 57);
    e.client_datagram(20, 100, 64, Some(10));
    e.validated();
    assert!(!e.is_over());
    e.server_datagram(30, 100, 57);
    assert!(e.is_over());
}

#[test]
fn sides_have_names() {
    let names = [CaptureSide::Client, CaptureSide::Server].map(CaptureSide::name);
    assert_eq!(names, ["client", "server"]);
}
