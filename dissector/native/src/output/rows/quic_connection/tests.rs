//! Rows of connections from packets with known times.

use super::*;
use crate::output::testing::lines;
use crate::quic::connection::testing::{
    ANSWER, CLIENT, CLIENT_ONE_RTT, F, Feed, HANDSHAKE_DONE, HELLO, RETRY, SERVER, SERVER_ONE_RTT,
    WHOLE, datagram, encrypted_extensions, handshake, initial, key_log, key_log_of, one_rtt, retry,
    version_negotiation, written,
};
use firstflight_wire::{CipherSuite, Version};

#[test]
fn microseconds_are_floored() {
    assert_eq!(
        (micros(0, 1999), micros(0, 2000), micros(500, 0)),
        (1, 2, -1)
    );
}

#[test]
fn a_datagram_that_was_captured_twice_counts_once_as_received() {
    let answer = datagram(false, [1; 8], &[], &[ANSWER]);
    for (second, received) in [(answer.clone(), 1), ([&answer[..], &[0]].concat(), 2)] {
        let mut feed = Feed::begun("");
        feed.bytes(10, false, &answer).unwrap();
        feed.bytes(20, false, &second).unwrap();
        let all = shown(&feed.one());
        let expected = format!("\ndatagrams_received={received}\n");
        assert!(all.contains(&expected), "{all}");
    }
}

fn row(connection: &Connection) -> ConnectionRow<'_> {
    ConnectionRow::new("x.pcap", connection)
}

/// The cells of the connection's row, without the ClientHello's parameters.
fn shown(connection: &Connection) -> String {
    let all = lines(&row(connection));
    let (of_client, rest): (Vec<&str>, Vec<&str>) = all
        .lines()
        .partition(|line| line.starts_with("transport_parameters_client="));
    let begin =
        r#"transport_parameters_client=[{"id":"0x1","name":"max_idle_timeout","value":5000},"#;
    assert!(of_client[0].starts_with(begin), "{}", of_client[0]);
    rest.join("\n") + "\n"
}

/// A Certificate message with one certificate of 300 bytes.
fn certificate() -> &'static [u8] {
    written(|w| {
        w.message(11, |w| {
            w.bytes(&[0, 0, 1, 49, 0, 1, 44])?;
            w.zeros(300)?;
            w.bytes(&[0, 0])
        })
        .unwrap();
    })
}

/// An instant ACK, a handshake, a request and a response with a part that is sent twice.
fn whole_connection(keys: &str) -> Box<Connection> {
    let mut feed = Feed::new(keys);
    // max_ack_delay 30 ms, ack_delay_exponent 4, min_ack_delay 1 ms.
    let extensions = encrypted_extensions(&[
        0x0b, 1, 30, 0x0a, 1, 4, 0xc0, 0, 0, 0, 0xff, 0x04, 0xde, 0x1b, 2, 0x43, 0xe8,
    ]);
    let flight = [extensions, certificate()].concat().leak();
    feed.packets(0, true, &[HELLO]);
    feed.packets(10, false, &[initial(0, &[F::Ack(0, 0)])]);
    let hello = initial(1, &[F::ServerHello(WHOLE)]);
    let rest = [F::Crypto(0, flight)];
    feed.packets(14, false, &[hello, handshake(0, &rest)]);
    feed.packets(20, true, &[handshake(0, &[F::Ack(0, 0), F::Ping])]);
    feed.packets(21, true, &[one_rtt(0, &[F::Stream(0, 10)])]);
    feed.packets(28, false, &[handshake(1, &[F::Ack(0, 0)])]);
    let answer = [F::Ack(0, 0), HANDSHAKE_DONE, F::Stream(0, 100)];
    feed.packets(30, false, &[one_rtt(0, &answer)]);
    feed.packets(40, false, &[one_rtt(1, &[F::Stream(0, 100)])]);
    let close = F::Raw(&[0x1d, 5, 3, b'b', b'y', b'e']);
    feed.packets(50, true, &[one_rtt(1, &[F::Ack(1, 0), close])]);
    feed.one()
}

#[test]
fn a_whole_connection_with_keys_shows_everything() {
    let connection = whole_connection(&key_log());
    let expected = "source_file=x.pcap\n\
        start_time_ns=0\n\
        client_ip=192.0.2.1\n\
        client_port=50000\n\
        server_ip=198.51.100.1\n\
        server_port=443\n\
        version=0x00000001\n\
        odcid=0101010101010101\n\
        client_scid=0202020202020202\n\
        server_scid=0303030303030303\n\
        retry=false\n\
        hello_retry=false\n\
        sni=www.example.net\n\
        alpn=h3\n\
        client_hello_us=0\n\
        first_ack_us=10000\n\
        server_hello_us=14000\n\
        first_handshake_us=14000\n\
        handshake_done_us=30000\n\
        first_stream_us=30000\n\
        first_request_stream_us=30000\n\
        first_answer=iack\n\
        hello_time_ns=0\n\
        ack_us=10000\n\
        sh_us=14000\n\
        ack_to_sh_us=4000\n\
        sh_to_handshake_us=0\n\
        ack_delay_raw=25\n\
        ack_datagram_bytes=48\n\
        ack_frames=ack\n\
        ack_eliciting=false\n\
        ack_pn=0\n\
        sh_pn=1\n\
        ack_largest=0\n\
        first_ack_range=0\n\
        gap_before_sh=false\n\
        initial_ack_delay_raw=25\n\
        initial_ack_delay_us=200\n\
        handshake_ack_delay_raw=25\n\
        handshake_ack_delay_us=200\n\
        client_hello_copies=1\n\
        initial_size=1200\n\
        bytes_sent=1200\n\
        bytes_received=580\n\
        datagrams_received=2\n\
        ttl=57\n\
        packets_client=4\n\
        packets_server=6\n\
        datagrams_client=4\n\
        datagrams_server=5\n\
        undecrypted_packets=0\n\
        packets_not_understood=0\n\
        version_used=0x00000001\n\
        cipher_suite=TLS_AES_128_GCM_SHA256\n\
        alpn_selected=h3\n\
        transport_parameters_server=[{\"id\":\"0xb\",\"name\":\"max_ack_delay\",\"value\":30},\
        {\"id\":\"0xa\",\"name\":\"ack_delay_exponent\",\"value\":4},\
        {\"id\":\"0xff04de1b\",\"name\":\"min_ack_delay\",\"value\":1000}]\n\
        min_ack_delay_id_server=0xff04de1b\n\
        min_ack_delay_us_server=1000\n\
        certificate_bytes=300\n\
        certificate_message_bytes=313\n\
        amplification=0.48333333333333334\n\
        unvalidated_bytes_client=1200\n\
        unvalidated_bytes_server=580\n\
        capture_side=client\n\
        blocked_us=0\n\
        probes=0\n\
        second_flight_first=2\n\
        second_flight_last=3\n\
        rtt_samples=3\n\
        rtt_min_us=8000\n\
        rtt_smoothed_us=9606\n\
        rtt_variation_us=3475\n\
        rtt_series_at_us=[10000,28000,30000]\n\
        rtt_series_us=[10000,8000,9000]\n\
        pto_series_us=[30000,26750,53506]\n\
        spurious_retransmissions_client=0\n\
        spurious_retransmissions_server=1\n\
        ip_bytes_client=1443\n\
        ip_bytes_server=1041\n\
        ip_length_guessed=false\n\
        payload_bytes_client=10\n\
        payload_bytes_server=100\n\
        duration_us=50000\n\
        anrw_throughput_bps=397440\n\
        anrw_goodput_bps=371520\n\
        download_throughput_bps=208200\n\
        upload_throughput_bps=523809\n\
        application_goodput_bps=20000\n\
        retransmitted_bytes_client=0\n\
        retransmitted_bytes_server=162\n\
        retransmission_rate=0.06521739130434782\n\
        key_updates_client=0\n\
        key_updates_server=0\n\
        paths=1\n\
        migrations=0\n\
        closed_us=50000\n\
        closed_by=client\n\
        closed_by_application=true\n\
        closed_code=5\n\
        closed_reason=bye\n";
    assert_eq!(shown(&connection), expected);
}

#[test]
fn without_keys_what_stands_in_protected_packets_is_unknown() {
    let connection = whole_connection("");
    let expected = "source_file=x.pcap\n\
        start_time_ns=0\n\
        client_ip=192.0.2.1\n\
        client_port=50000\n\
        server_ip=198.51.100.1\n\
        server_port=443\n\
        version=0x00000001\n\
        odcid=0101010101010101\n\
        client_scid=0202020202020202\n\
        server_scid=0303030303030303\n\
        retry=false\n\
        hello_retry=false\n\
        sni=www.example.net\n\
        alpn=h3\n\
        client_hello_us=0\n\
        first_ack_us=10000\n\
        server_hello_us=14000\n\
        first_handshake_us=14000\n\
        first_answer=iack\n\
        hello_time_ns=0\n\
        ack_us=10000\n\
        sh_us=14000\n\
        ack_to_sh_us=4000\n\
        sh_to_handshake_us=0\n\
        ack_delay_raw=25\n\
        ack_datagram_bytes=48\n\
        ack_frames=ack\n\
        ack_eliciting=false\n\
        ack_pn=0\n\
        sh_pn=1\n\
        ack_largest=0\n\
        first_ack_range=0\n\
        gap_before_sh=false\n\
        initial_ack_delay_raw=25\n\
        initial_ack_delay_us=200\n\
        client_hello_copies=1\n\
        initial_size=1200\n\
        bytes_sent=1200\n\
        bytes_received=580\n\
        datagrams_received=2\n\
        ttl=57\n\
        packets_client=4\n\
        packets_server=6\n\
        datagrams_client=4\n\
        datagrams_server=5\n\
        undecrypted_packets=7\n\
        packets_not_understood=0\n\
        version_used=0x00000001\n\
        cipher_suite=TLS_AES_128_GCM_SHA256\n\
        amplification=0.48333333333333334\n\
        unvalidated_bytes_client=1200\n\
        unvalidated_bytes_server=580\n\
        capture_side=client\n\
        probes=0\n\
        second_flight_first=2\n\
        rtt_samples=1\n\
        rtt_min_us=10000\n\
        rtt_smoothed_us=10000\n\
        rtt_variation_us=5000\n\
        rtt_series_at_us=[10000]\n\
        rtt_series_us=[10000]\n\
        pto_series_us=[30000]\n\
        ip_bytes_client=1443\n\
        ip_bytes_server=1041\n\
        ip_length_guessed=false\n\
        duration_us=50000\n\
        anrw_throughput_bps=397440\n\
        paths=1\n";
    assert_eq!(shown(&connection), expected);
}

#[test]
fn a_retry_shows_whether_it_was_captured_or_not() {
    let again = datagram(true, RETRY, b"token", &[initial(1, &[F::ClientHello])]);
    for (has_retry, has_again, retried) in [
        (false, false, false),
        (true, false, true),
        (true, true, true),
        (false, true, true),
    ] {
        let mut feed = Feed::begun("");
        if has_retry {
            feed.bytes(5, false, &retry());
        }
        if has_again {
            feed.bytes(7, true, &again);
        }
        let connection = feed.one();
        assert_eq!(row(&connection).columns.0.retry, retried);
    }
}

#[test]
fn bytes_before_validation_are_measured_if_they_are_known() {
    // Amplification, bytes of both sides.
    let measured = |feed: &mut Feed| {
        let connection = feed.one();
        let found = Validation::new(&connection);
        (
            found.amplification,
            found.unvalidated_bytes_client,
            found.unvalidated_bytes_server,
        )
    };
    let answer_bytes = datagram(false, CLIENT, &[], &[ANSWER]).len() as u64;
    let share = answer_bytes as f64 / 1200.0;
    let mut feed = Feed::answered("");
    assert_eq!(
        measured(&mut feed),
        (Some(share), Some(1200), Some(answer_bytes))
    );
    // Without the server's direction.
    assert_eq!(measured(&mut Feed::begun("")), (None, None, None));
    // With a token.
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &retry());
    assert_eq!(measured(&mut feed), (None, None, None));
    // A cut datagram of the client may hold its first Handshake packet.
    let mut feed = Feed::answered("");
    let hello = datagram(true, SERVER, &[], &[HELLO]);
    feed.cut(20, true, &hello, 3);
    assert_eq!(measured(&mut feed), (None, None, None));
}

#[test]
fn round_trips_are_the_clients() {
    for (client_ttl, server_ttl, side) in [
        (64, 57, Some("client")),
        (57, 64, Some("server")),
        (60, 60, None),
    ] {
        let mut feed = Feed::new(&key_log());
        (feed.client_ttl, feed.server_ttl) = (client_ttl, server_ttl);
        feed.packets(0, true, &[HELLO]);
        feed.packets(10, false, &[ANSWER]);
        feed.packets(20, true, &[handshake(0, &[F::Ping])]);
        let connection = feed.one();
        assert_eq!(Validation::new(&connection).capture_side, side);
        let trips = RoundTrips::new(&connection);
        let is_client = side == Some("client");
        assert_eq!(trips.rtt_samples, is_client.then_some(1));
        assert_eq!(trips.rtt_min_us, is_client.then_some(10_000));
        assert_eq!(trips.rtt_series_us.is_some(), is_client);
        // Known at either side of the capture.
        assert_eq!(trips.spurious_retransmissions_client, Some(0));
    }
    let mut feed = Feed::begun(&key_log());
    feed.packets(10, false, &[initial(0, &[F::ServerHello(WHOLE)])]);
    let trips = RoundTrips::new(&feed.one());
    assert_eq!((trips.rtt_samples, trips.rtt_series_us), (None, None));
}

#[test]
fn spurious_retransmissions_are_known_with_keys_and_both_directions() {
    let counts = |feed: &mut Feed| {
        // The logs are searched when a packet first needs keys.
        feed.packets(20, true, &[one_rtt(0, &[F::Ping])]);
        let trips = RoundTrips::new(&feed.one());
        (
            trips.spurious_retransmissions_client,
            trips.spurious_retransmissions_server,
        )
    };
    assert_eq!(counts(&mut Feed::answered(&key_log())), (Some(0), Some(0)));
    assert_eq!(counts(&mut Feed::answered("")), (None, None));
    assert_eq!(counts(&mut Feed::begun(&key_log())), (None, None));
    let one_side = key_log_of(&[CLIENT_ONE_RTT], CipherSuite::Aes128GcmSha256);
    assert_eq!(counts(&mut Feed::answered(&one_side)), (None, None));
    let both = key_log_of(
        &[CLIENT_ONE_RTT, SERVER_ONE_RTT],
        CipherSuite::Aes128GcmSha256,
    );
    let mut feed = Feed::answered(&both);
    // The client has the answer, but receives it again.
    feed.packets(12, true, &[initial(1, &[F::Ack(0, 0)])]);
    feed.packets(14, false, &[initial(1, &[F::ServerHello(WHOLE)])]);
    assert_eq!(counts(&mut feed), (Some(0), Some(1)));
    let mut feed = Feed::answered(&both);
    let sealed = datagram(false, CLIENT, &[], &[one_rtt(0, &[F::Stream(0, 99)])]);
    feed.cut(20, false, &sealed, 30);
    assert_eq!(counts(&mut feed), (None, None));
}

#[test]
fn a_row_names_its_answer() {
    let versions = version_negotiation(CLIENT, [1; 8], &[Version::V2]);
    let mut feed = Feed::begun("");
    feed.bytes(5, false, &versions);
    let connection = feed.one();
    let answer = row(&connection);
    assert_eq!(
        (answer.first_answer(), answer.has_client_hello()),
        ("version_negotiation", true)
    );
    let mut feed = Feed::new("");
    feed.cut(0, true, &datagram(true, [1; 8], &[], &[HELLO]), 100);
    let connection = feed.one();
    let answer = row(&connection);
    assert_eq!(
        (answer.first_answer(), answer.has_client_hello()),
        ("timeout", false)
    );
}
