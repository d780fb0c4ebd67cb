//! Rows written to files, put aside, and counted.

use firstflight_records::Value;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::super::Stamp;
use super::super::rows::pacing::PacingRow;
use super::super::rows::quic_ack::QuicAckRow;
use super::super::testing::Folder;
use super::*;
use crate::flow::expiry::Bounds;
use crate::flow::pacing::{Direction, Pacings, Protocol, Sent};
use crate::quic::connection::testing::Feed;

fn to(folder: &Folder, format: Format, kinds: &[Kind]) -> Destination {
    Destination {
        kinds: kinds.to_vec(),
        format,
        folder: Some(folder.0.join("rows")),
        stamps: Stamps::default(),
        summary: Some(folder.0.join("summary.json")),
    }
}

/// Writes the row for a direction with one packet, from port `src_port`.
fn write_pacing(outputs: &mut Outputs, src_port: u16) {
    let direction = Direction {
        src: ([192, 0, 2, 1], src_port).into(),
        dst: ([192, 0, 2, 2], 2).into(),
        protocol: Protocol::Udp,
    };
    let bounds = Bounds {
        idle_ns: 1,
        closing_ns: 1,
        max_live: 1,
    };
    let mut pacings = Pacings::new(bounds, 1);
    let sent = Sent {
        ns: 0,
        ip_bytes: 1,
        payload: 1,
        seq: None,
        begins: false,
    };
    pacings.packet(direction, &sent);
    let pacing = pacings.drain().unwrap();
    let row = PacingRow::new("x.pcap", 1, &pacing);
    outputs.write(Kind::Pacing, &row).unwrap();
}

/// The source ports in a file of these rows.
fn ports(folder: &Folder, name: &str) -> Vec<String> {
    if name.contains(".jsonl") {
        let text = folder.text(name);
        let port = |line: &str| {
            let (_, rest) = line.split_once("\"src_port\":").unwrap();
            rest.split(',').next().unwrap().to_owned()
        };
        return text.lines().map(port).collect();
    }
    let reader = SerializedFileReader::new(File::open(folder.0.join(name)).unwrap()).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let found = row.get_column_iter().find(|(name, _)| *name == "src_port");
        found.unwrap().1.to_string()
    })
    .collect()
}

#[test]
fn files_get_their_names_when_they_are_whole() {
    for (format, extension) in [(Format::Jsonl, "jsonl"), (Format::Parquet, "parquet")] {
        for is_whole in [true, false] {
            let folder = Folder::new();
            let kinds = [Kind::Pacing, Kind::TcpFlow, Kind::Pacing];
            let mut outputs = Outputs::open(&to(&folder, format, &kinds)).unwrap();
            write_pacing(&mut outputs, 7);
            write_pacing(&mut outputs, 8);
            outputs.finish(is_whole).unwrap();
            let rows = Folder(folder.0.join("rows"));
            let suffix = if is_whole { "" } else { ".part" };
            let names = ["pacing", "tcp_flow"].map(|name| format!("{name}.{extension}{suffix}"));
            assert_eq!(rows.names(), names);
            if is_whole {
                assert_eq!(ports(&rows, &names[0]), ["7", "8"]);
                assert_eq!(folder.names(), ["rows", "summary.json"]);
                let summary = "{\"pacing\":{\"rows\":2},\"tcp_flow\":{\"rows\":0}}\n";
                assert_eq!(folder.text("summary.json"), summary);
            } else {
                assert_eq!(folder.names(), ["rows"]);
            }
        }
    }
}

#[test]
fn rows_put_aside_follow_those_before_and_are_counted() {
    for (format, name) in [
        (Format::Jsonl, "pacing.jsonl"),
        (Format::Parquet, "pacing.parquet"),
    ] {
        let folder = Folder::new();
        let to = to(&folder, format, &[Kind::Pacing]);
        let mut outputs = Outputs::open(&to).unwrap();
        write_pacing(&mut outputs, 1);
        let mut asides = [Outputs::aside(&to), Outputs::aside(&to)];
        write_pacing(&mut asides[1], 3);
        write_pacing(&mut asides[0], 2);
        assert!(asides[0].wants(Kind::Pacing) && !asides[0].wants(Kind::TcpFlow));
        for aside in asides {
            outputs.take(aside).unwrap();
        }
        write_pacing(&mut outputs, 4);
        outputs.finish(true).unwrap();
        let rows = Folder(folder.0.join("rows"));
        assert_eq!(ports(&rows, name), ["1", "2", "3", "4"]);
        assert_eq!(folder.text("summary.json"), "{\"pacing\":{\"rows\":4}}\n");
    }
}

#[test]
fn rows_of_other_kinds_are_neither_written_nor_counted() {
    let folder = Folder::new();
    let mut outputs =
        Outputs::open(&to(&folder, Format::Jsonl, &[Kind::Pacing, Kind::TcpFlow])).unwrap();
    for kind in [
        Kind::QuicConnection,
        Kind::QuicPacket,
        Kind::TcpFlow,
        Kind::TcpPacket,
        Kind::Pacing,
    ] {
        let is_wanted = [Kind::Pacing, Kind::TcpFlow].contains(&kind);
        assert_eq!(outputs.wants(kind), is_wanted, "{kind:?}");
    }
    outputs
        .write(Kind::TcpPacket, &[Value::Text("x")][..])
        .unwrap();
    let connection = Feed::begun("").one();
    outputs
        .write_connection(&ConnectionRow::new("x", &connection))
        .unwrap();
    write_pacing(&mut outputs, 1);
    outputs.finish(true).unwrap();
    let summary = "{\"pacing\":{\"rows\":1},\"tcp_flow\":{\"rows\":0}}\n";
    assert_eq!(folder.text("summary.json"), summary);
    assert_eq!(folder.text("rows/tcp_flow.jsonl"), "");
}

#[test]
fn connections_are_written_between_their_stamps_and_counted_by_their_answer() {
    let given = ["tool_version=1.2", "run=r"].map(|text| Stamp::parse(text).unwrap());
    for (stamps, begin, end) in [
        (
            vec![],
            "{\"kind\":\"quic_connection\",\"source_file\":\"x\",",
            "\"detail\":null}",
        ),
        (
            given.to_vec(),
            "{\"kind\":\"quic_connection\",\"run\":\"r\",\"source_file\":\"x\",",
            "\"detail\":null,\"tool_version\":\"1.2\"}",
        ),
    ] {
        let folder = Folder::new();
        let to = Destination {
            stamps: Stamps::new(stamps).unwrap(),
            ..to(&folder, Format::Jsonl, &[Kind::QuicConnection])
        };
        let mut outputs = Outputs::open(&to).unwrap();
        let connection = Feed::begun("").one();
        for _ in 0..2 {
            let row = ConnectionRow::new("x", &connection);
            outputs.write_connection(&row).unwrap();
        }
        outputs.finish(true).unwrap();
        let text = folder.text("rows/quic_connection.jsonl");
        assert_eq!(text.lines().count(), 2);
        for line in text.lines() {
            assert!(line.starts_with(begin) && line.ends_with(end), "{line}");
        }
        let summary = "{\"quic_connection\":{\"first_answer\":{\"timeout\":2},\"rows\":2,\
                       \"without_client_hello\":0}}\n";
        assert_eq!(folder.text("summary.json"), summary);
    }
}

#[test]
fn rows_of_acks_are_written_with_their_stamps_and_counted() {
    let folder = Folder::new();
    let to = Destination {
        stamps: Stamps::new(vec![Stamp::parse("run=r").unwrap()]).unwrap(),
        ..to(&folder, Format::Jsonl, &[Kind::QuicAck])
    };
    let mut outputs = Outputs::open(&to).unwrap();
    let connection = Feed::answered("").one();
    let rows: Vec<_> = QuicAckRow::of("x", &connection).collect();
    assert!(!rows.is_empty());
    for row in &rows {
        outputs.write_stamped(Kind::QuicAck, row).unwrap();
        // Not requested.
        outputs.write_stamped(Kind::QuicPacket, row).unwrap();
    }
    outputs.finish(true).unwrap();
    let text = folder.text("rows/quic_ack.jsonl");
    assert_eq!(text.lines().count(), rows.len());
    let begin = "{\"kind\":\"quic_ack\",\"run\":\"r\",\"source_file\":\"x\",";
    assert!(text.lines().all(|line| line.starts_with(begin)), "{text}");
    let summary = format!("{{\"quic_ack\":{{\"rows\":{}}}}}\n", rows.len());
    assert_eq!(folder.text("summary.json"), summary);
}

#[test]
fn lines_can_be_read_after_a_flush() {
    let folder = Folder::new();
    let mut outputs = Outputs::open(&to(&folder, Format::Jsonl, &[Kind::Pacing])).unwrap();
    write_pacing(&mut outputs, 1);
    assert_eq!(folder.text("rows/pacing.jsonl.part"), "");
    outputs.flush().unwrap();
    let rows = Folder(folder.0.join("rows"));
    assert_eq!(ports(&rows, "pacing.jsonl.part").len(), 1);
}

#[test]
fn what_cannot_be_created_is_named() {
    let folder = Folder::new();
    std::fs::write(folder.0.join("rows"), "").unwrap();
    let mut to = to(&folder, Format::Jsonl, &[Kind::Pacing]);
    let error = Outputs::open(&to).err().unwrap();
    let place = folder.0.join("rows/pacing.jsonl").display().to_string();
    assert_eq!(error.place, place);
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("{place} cannot be written: ")),
        "{text}"
    );
    to.folder = None;
    to.summary = Some(folder.0.join("no/summary.json"));
    let error = Outputs::open(&to).err().unwrap();
    let place = folder.0.join("no/summary.json").display().to_string();
    assert_eq!(error.place, place);
}

#[test]
fn without_a_folder_rows_go_to_standard_output() {
    let folder = Folder::new();
    let to = Destination {
        folder: None,
        ..to(&folder, Format::Jsonl, &[Kind::TcpFlow])
    };
    let outputs = Outputs::open(&to).unwrap();
    assert_eq!(outputs.places.len(), 1);
    let output = &outputs.places[0];
    assert_eq!(
        (output.kind, &*output.place),
        (Kind::TcpFlow, "standard output")
    );
    assert!(output.part.is_none() && matches!(output.sink, Sink::Jsonl(_)));
}

#[test]
fn rows_that_cannot_be_written_name_their_place() {
    let folder = Folder::new();
    let mut outputs = Outputs::open(&to(&folder, Format::Parquet, &[Kind::Pacing])).unwrap();
    let error = outputs.write(Kind::Pacing, &[Value::Null][..]).unwrap_err();
    assert!(error.place.ends_with("rows/pacing.parquet"), "{error}");
    let mut aside = Outputs::aside(&to(&folder, Format::Parquet, &[Kind::Pacing]));
    aside.write(Kind::Pacing, &[Value::Null][..]).unwrap();
    let error = outputs.take(aside).unwrap_err();
    assert!(error.place.ends_with("rows/pacing.parquet"), "{error}");
}
