//! Records of probes with parts that are set directly, column by column.

use firstflight_wire::{ConnectionId, Frame};
use serde_json::{Value, json};

use super::*;
use crate::evidence::{FirstAck, FirstHello, FrameKinds};

/// The kernel's transmit stamp of the Initial.
const SENT: Stamp = 1_795_154_400_000_000_000;

fn target() -> Target<'static> {
    Target {
        line: 12,
        ip_text: "192.0.2.7",
        domain: "www.example.net",
        port: 8443,
        group: 64500,
        asn: 64500,
    }
}

/// A probe with one attempt and no answer.
fn silent() -> Sent {
    Sent {
        exchange: Exchange::new([0xd; 8], [0xa, 0xb, 0xc, 0xd, 0xe, 0xf, 0x10, 0x21]),
        attempts: 2,
        initial_size: 1252,
        to: "192.0.2.7:8443".parse().unwrap(),
        src_ip: Some("198.51.100.1".parse().unwrap()),
        src_port: 61_003,
        first_sent: Some(SENT),
        sent_at: Some(SENT),
        after_close: 0,
        ttl: None,
        ecn: None,
        listened: None,
        retransmission_us: Vec::new(),
    }
}

/// The frames of the packet with the first ACK.
fn frames() -> FrameKinds {
    let mut kinds = FrameKinds::default();
    kinds.push(&Frame::Ping);
    kinds.push(&Frame::Padding { length: 3 });
    kinds
}

/// A probe that an instant ACK, a ServerHello and a Handshake packet answered.
fn answered() -> Sent {
    let mut sent = silent();
    let seen = &mut sent.exchange;
    seen.server_cid = ConnectionId::new(&[0xfe, 0x01, 0x90]).ok();
    seen.ack = Some(FirstAck {
        at: SENT + 7_000_999,
        datagram: 1,
        datagram_bytes: 48,
        packet_number: 1,
        delay: 25,
        largest: 3,
        first_range: 2,
        ecn: None,
        frames: frames(),
        eliciting: true,
    });
    seen.hello = Some(FirstHello {
        at: SENT + 10_500_000,
        datagram: 2,
        packet_number: 4,
        gap: true,
    });
    seen.handshake_at = Some(SENT + 11_000_000);
    (seen.bytes, seen.datagrams, seen.discarded) = (3756, 3, 5);
    (sent.after_close, sent.ttl) = (6, Some(57));
    sent
}

fn record(outcome: Outcome, sent: Sent) -> FinishedProbe {
    FinishedProbe {
        target: TargetRef::Listed(0),
        outcome,
        sent: Some(sent),
        why: None,
        initial_size: None,
    }
}

/// The columns that are neither null, nor zero, nor false, nor empty.
fn columns_of(probe: &FinishedProbe) -> Value {
    let mut row = serde_json::to_value(probe.row(&target())).unwrap();
    let empty =
        |value: &Value| [Value::Null, json!(0), json!(false), json!(""), json!([])].contains(value);
    row.as_object_mut()
        .unwrap()
        .retain(|_, value| !empty(value));
    row
}

#[test]
fn a_target_that_was_sent_nothing_has_its_reason_and_no_more() {
    let target_ref = TargetRef::Listed(0);
    let probe = FinishedProbe::unsent(target_ref, Outcome::Blocked, "on a list".to_owned());
    let expected = json!({
        "domain": "www.example.net",
        "ip": "192.0.2.7",
        "port": 8443,
        "outcome": "blocked",
        "detail": "on a list",
    });
    assert_eq!(columns_of(&probe), expected);
    let sized = FinishedProbe {
        initial_size: Some(1300),
        ..FinishedProbe::unsent(
            TargetRef::Listed(0),
            Outcome::Blocked,
            "on a list".to_owned(),
        )
    };
    assert_eq!(columns_of(&sized)["initial_size"], 1300);
    assert_eq!(probe.row(&target()).target, 12, "the line of the list");
    assert!(matches!(probe.target(), TargetRef::Listed(0)));
}

#[test]
fn a_silent_probe_has_what_was_sent() {
    let expected = json!({
        "domain": "www.example.net",
        "ip": "192.0.2.7",
        "port": 8443,
        "outcome": "timeout",
        "sent_at": SENT,
        "src_ip": "198.51.100.1",
        "src_port": 61_003,
        "initial_size": 1252,
        "version": "0x00000001",
        "client_cid": "0a0b0c0d0e0f1021",
        "attempts": 2,
        "bytes_sent": 1252,
        "amplification": 0.0,
    });
    assert_eq!(columns_of(&record(Outcome::Timeout, silent())), expected);
}

#[test]
fn an_answered_probe_has_its_evidence_and_times() {
    let expected = json!({
        "domain": "www.example.net",
        "ip": "192.0.2.7",
        "port": 8443,
        "outcome": "iack",
        "sent_at": SENT,
        "src_ip": "198.51.100.1",
        "src_port": 61_003,
        "initial_size": 1252,
        "version": "0x00000001",
        "client_cid": "0a0b0c0d0e0f1021",
        "attempts": 2,
        "ack_us": 7000,
        "sh_us": 10_500,
        "ack_to_sh_us": 3500,
        "sh_to_handshake_us": 500,
        "ack_delay_raw": 25,
        "ack_delay_us": 200,
        "ack_datagram_bytes": 48,
        "ack_frames": "ping,padding",
        "ack_eliciting": true,
        "ack_pn": 1,
        "sh_pn": 4,
        "ack_largest": 3,
        "first_ack_range": 2,
        "gap_before_sh": true,
        "bytes_sent": 1252,
        "bytes_received": 3756,
        "datagrams_received": 3,
        "amplification": 3.0,
        "discarded": 5,
        "after_close": 6,
        "ttl": 57,
        "server_cid": "fe0190",
    });
    assert_eq!(columns_of(&record(Outcome::Iack, answered())), expected);
}

#[test]
fn what_few_probes_have_is_in_their_columns() {
    let mut sent = silent();
    sent.first_sent = Some(SENT - 2_000_000);
    let seen = &mut sent.exchange;
    (seen.retried, seen.hello_retry, seen.bytes) = (true, true, 100);
    let rare = seen.rare.get_or_insert_default();
    rare.retry_at = Some(SENT - 500_000);
    rare.close = Some((0x128, "no such name".to_owned()));
    rare.versions = Some(("0x6b3343cf".to_owned(), 3, SENT + 5_000_999));
    rare.icmp = Some((3, 13));
    rare.detail = Some("a remark".to_owned());
    let row = columns_of(&record(Outcome::Closed, sent));
    for (column, expected) in [
        ("retried", json!(true)),
        ("hello_retry", json!(true)),
        ("retry_us", json!(1500)),
        ("close_code", json!(0x128)),
        ("close_reason", json!("no such name")),
        ("version_list", json!("0x6b3343cf")),
        ("version_grease", json!(3)),
        ("vn_us", json!(5_000)),
        ("icmp_type", json!(3)),
        ("icmp_code", json!(13)),
        ("detail", json!("a remark")),
        ("amplification", Value::Null),
    ] {
        let found = row.get(column).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{column}");
    }
}

#[test]
fn a_record_without_a_transmit_stamp_has_no_times() {
    let mut sent = answered();
    (sent.sent_at, sent.src_ip) = (None, None);
    let row = columns_of(&record(Outcome::Iack, sent));
    for column in ["sent_at", "src_ip", "ack_us", "sh_us", "ack_to_sh_us"] {
        assert_eq!(row.get(column), None, "{column}");
    }
    assert_eq!(row["sh_to_handshake_us"], 500, "both are receive stamps");
}

#[test]
fn times_are_whole_microseconds_of_a_clock_that_was_not_set_back() {
    for (from, to, us) in [
        (Some(0), Some(0), Some(0)),
        (Some(5), Some(1004), Some(0)),
        (Some(5), Some(1005), Some(1)),
        (Some(-3000), Some(4500), Some(7)),
        (Some(SENT), Some(SENT + SECOND as Stamp), Some(1_000_000)),
        (Some(1), Some(0), None),
        (None, Some(5000), None),
        (Some(5000), None, None),
    ] {
        assert_eq!(micros(from, to), us, "{from:?} {to:?}");
    }
}

#[test]
fn delays_that_do_not_fit_are_not_known() {
    for (raw, us) in [
        (0, Some(0)),
        (25, Some(200)),
        ((1 << 60) - 1, Some(i64::MAX - 7)),
        (1 << 60, None),
        (1 << 61, None),
        ((1 << 62) - 1, None),
    ] {
        assert_eq!(delay_us(raw), us, "{raw}");
    }
}

#[test]
fn numbers_beyond_a_column_are_its_largest() {
    for (value, expected) in [
        (0, 0),
        (2, 2),
        (i64::MAX as u64, i64::MAX),
        (1 << 63, i64::MAX),
    ] {
        assert_eq!(int(value), expected, "{value}");
    }
}

#[test]
fn bytes_are_written_in_two_digits_each() {
    for (bytes, text) in [
        (&[][..], ""),
        (&[0x00], "00"),
        (&[0x0f, 0xf0, 0x5a], "0ff05a"),
        (&[0x12, 0x89, 0xab, 0xef], "1289abef"),
    ] {
        assert_eq!(hex(bytes), text);
    }
}

/// Appends rows and makes a batch, as the writing thread does for every kind of record.
fn rows_of<C: records::Columns>(row: &C::Row<'_>) -> (usize, usize, RecordBatch) {
    let mut columns = C::default();
    assert!(columns.is_empty());
    (0..3).for_each(|_| columns.push(row));
    let rows = columns.len();
    let batch = columns.finish(C::schema()).unwrap();
    (rows, columns.len(), batch)
}

#[test]
fn the_writing_thread_gets_a_batch_of_all_rows() {
    let probe = record(Outcome::Iack, answered());
    let (rows, left, batch) = rows_of::<Columns>(&probe.row(&target()));
    assert_eq!((rows, left, batch.num_rows()), (3, 0, 3));
    let names: Vec<_> = batch
        .schema()
        .fields()
        .iter()
        .map(|f| f.name().clone())
        .collect();
    assert_eq!(names[..3], ["target", "domain", "ip"]);
    assert_eq!(names.len(), batch.num_columns());
}

#[test]
fn what_was_heard_has_its_columns_only_if_it_was_listened_to() {
    let mut sent = answered();
    sent.listened = Some(5 * SECOND / 2);
    let listened = columns_of(&record(Outcome::Iack, sent));
    assert_eq!(listened["listened_s"], json!(2.5));
    assert_eq!(listened.get("retransmission_us"), None, "an empty list");
    let mut sent = answered();
    sent.listened = Some(SECOND);
    sent.retransmission_us = vec![210_500, 610_500];
    let rare = sent.exchange.rare.get_or_insert_default();
    rare.retransmissions = 2;
    let row = serde_json::to_value(record(Outcome::Iack, sent).row(&target())).unwrap();
    assert_eq!(row["retransmissions"], json!(2));
    assert_eq!(row["retransmission_us"], json!([210_500, 610_500]));
    let silent = serde_json::to_value(record(Outcome::Iack, answered()).row(&target())).unwrap();
    assert_eq!(
        (&silent["listened_s"], &silent["retransmissions"]),
        (&Value::Null, &Value::Null)
    );
}

#[test]
fn arrivals_count_from_the_initial() {
    let stamps = [SENT + 1_999, SENT + 7_000_000, SENT - 1];
    assert_eq!(micros_of(Some(SENT), &stamps), [1, 7_000]);
    assert!(micros_of(None, &stamps).is_empty());
}
