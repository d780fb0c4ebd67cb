//! Which of the client's packets move a connection.

use std::net::SocketAddr;

use super::super::testing::{CLIENT, F, Feed, key_log, one_rtt};
use super::*;

const PATH_CHALLENGE: F = F::Raw(&[0x1a, 1, 2, 3, 4, 5, 6, 7, 8]);
const PATH_RESPONSE: F = F::Raw(&[0x1b, 1, 2, 3, 4, 5, 6, 7, 8]);
const PADDING: F = F::Raw(&[0, 0]);

#[test]
fn packets_that_do_more_than_probe_move_the_connection() {
    for (frames, moves) in [
        (&[F::Ping][..], true),
        (&[F::Ack(0, 0)], true),
        (&[PATH_CHALLENGE], false),
        (&[PATH_RESPONSE], false),
        (&[F::NewCid([9; 8])], false),
        (&[PADDING], false),
        (&[PATH_CHALLENGE, PATH_RESPONSE, PADDING], false),
        (&[PATH_CHALLENGE, F::Ping], true),
        (&[F::Ping, PADDING], true),
    ] {
        let mut feed = Feed::answered(&key_log());
        feed.packets(20, true, &[one_rtt(0, &[F::Ping])]);
        feed.client.set_port(1);
        let (connection, _) = feed.packets(30, true, &[one_rtt(1, frames)]).unwrap();
        assert_eq!(connection.path_count(), 2);
        assert_eq!(
            connection.migrations(),
            Some(u32::from(moves)),
            "{frames:?}"
        );
    }
}

#[test]
fn the_largest_packet_number_says_where_the_client_is() {
    let mut feed = Feed::answered(&key_log());
    // Port, packet number, total migrations.
    for (port, number, migrations) in [
        (50_000, 5, 0),
        (1, 4, 0),
        (1, 6, 1),
        (50_000, 5, 1),
        (1, 7, 1),
        (50_000, 8, 2),
        (2, 9, 3),
        (2, 10, 3),
    ] {
        feed.client.set_port(port);
        let found = feed.packets(20, true, &[one_rtt(number, &[F::Ping])]);
        let (connection, _) = found.unwrap();
        assert_eq!(connection.migrations(), Some(migrations), "{port} {number}");
    }
    // Packets of the server move nothing.
    let (connection, _) = feed.packets(30, false, &[one_rtt(0, &[F::Ping])]).unwrap();
    assert_eq!(
        (connection.migrations(), connection.path_count()),
        (Some(3), 3)
    );
}

#[test]
fn without_keys_it_is_unknown_whether_the_client_moved() {
    let mut feed = Feed::answered("");
    feed.packets(20, true, &[one_rtt(0, &[F::Ping])]);
    let connection = feed.one();
    assert_eq!(
        (connection.migrations(), connection.path_count()),
        (None, 1)
    );
}

#[test]
fn the_sender_is_known_by_both_ends_of_a_path() {
    let mut connection = Feed::begun("").one();
    let (client, server) = (connection.client, connection.server);
    let other: SocketAddr = ([192, 0, 2, 9], 9).into();
    assert_eq!(connection.sender(&client, &server), Some(true));
    assert_eq!(connection.sender(&server, &client), Some(false));
    for (src, dst) in [
        (client, other),
        (other, server),
        (server, other),
        (client, client),
    ] {
        assert_eq!(connection.sender(&src, &dst), None, "{src} {dst}");
    }
    assert!(connection.add_path((other, server)));
    assert_eq!(connection.sender(&other, &server), Some(true));
    assert_eq!(connection.sender(&server, &other), Some(false));
    assert_eq!(connection.sender(&other, &client), None);
    assert_eq!(connection.other_paths(), [(other, server)]);
}

#[test]
fn up_to_64_other_paths_are_kept() {
    let mut connection = Feed::begun("").one();
    let server = connection.server;
    for port in 1..=65 {
        let path = (([192, 0, 2, 9], port).into(), server);
        assert_eq!(connection.add_path(path), port <= 64, "{port}");
    }
    assert_eq!(
        (connection.path_count(), connection.other_paths().len()),
        (65, 64)
    );
}

#[test]
fn connection_ids_belong_to_the_side_that_issued_them() {
    let mut connection = Feed::begun("").one();
    connection.new_server_cids = None;
    for cid in [[8; 8], [8; 8], [9; 8]] {
        connection.new_connection_id(true, cid.into());
    }
    assert!(connection.new_server_cids.is_none());
    assert!(connection.client_cids.owns(&[8; 8]) && connection.client_cids.owns(&CLIENT));
    assert!(!connection.server_cids.owns(&[8; 8]));
    for cid in [[8; 8], [8; 8], [7; 8]] {
        connection.new_connection_id(false, cid.into());
    }
    let new = [[8; 8], [7; 8]].map(ConnectionId::from);
    let listed = connection.new_server_cids.as_deref().map(|cids| &cids[..]);
    assert_eq!(listed, Some(&new[..]));
    assert!(connection.server_cids.owns(&[7; 8]) && !connection.client_cids.owns(&[7; 8]));
}
