use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Int64Type, UInt8Type, UInt32Type};
use arrow_schema::DataType;
use firstflight_records::difference;

#[test]
fn columns_are_those_of_the_description() {
    let found = difference("quic_probe", &["prober"], &ProbeRow::columns()[1..]);
    assert_eq!(found, None);
}

#[test]
fn json_has_every_column_with_null_as_null() {
    let row = ProbeRow {
        ip: "::1".into(),
        ack_us: Some(7),
        ..ProbeRow::default()
    };
    let json: serde_json::Value = serde_json::to_value(&row).unwrap();
    let names: Vec<&str> = ProbeRow::columns()[1..].iter().map(|c| c.name).collect();
    let written = serde_json::to_string(&row).unwrap();
    let places: Vec<_> = names
        .iter()
        .map(|name| written.find(&format!("\"{name}\":")))
        .collect();
    assert_eq!(json.as_object().unwrap().len(), names.len());
    assert!(places.iter().all(Option::is_some) && places.is_sorted());
    assert_eq!(
        (&json["ack_us"], &json["sh_us"]),
        (&7.into(), &serde_json::Value::Null)
    );
}

#[test]
fn a_batch_has_the_cells_of_its_rows() {
    let mut columns = Columns::default();
    for target in [2, u32::MAX] {
        columns.push(&ProbeRow {
            target,
            ip: "192.0.2.1".into(),
            ack_us: (target == 2).then_some(-1),
            amplification: Some(0.1),
            ttl: Some(255),
            gap_before_sh: Some(true),
            ..ProbeRow::default()
        });
    }
    assert_eq!(columns.len(), 2);
    let batch = columns.finish(Columns::schema()).unwrap();
    assert_eq!(columns.len(), 0);
    let column = |name: &str| batch.column_by_name(name).unwrap().clone();
    let targets = column("target");
    assert_eq!(
        targets.as_primitive::<UInt32Type>().values(),
        &[2, u32::MAX]
    );
    let acks = column("ack_us");
    assert_eq!(acks.as_primitive::<Int64Type>().value(0), -1);
    assert!(acks.is_null(1) && !acks.is_null(0));
    let shares = column("amplification");
    assert_eq!(shares.as_primitive::<Float32Type>().values(), &[0.1, 0.1]);
    assert_eq!(column("ttl").as_primitive::<UInt8Type>().value(1), 255);
    assert!(column("gap_before_sh").as_boolean().value(0));
    assert_eq!(column("ip").as_string::<i32>().value(1), "192.0.2.1");
}

#[test]
fn segments_have_the_types_of_the_description() {
    let schema = Columns::schema();
    assert_eq!(schema.fields().len(), ProbeRow::columns().len());
    for (name, kind, nullable) in [
        ("target", DataType::UInt32, false),
        ("domain", DataType::Utf8, false),
        ("sent_at", DataType::Int64, true),
        ("attempts", DataType::UInt8, false),
        ("retried", DataType::Boolean, false),
        ("ack_datagram_bytes", DataType::UInt16, true),
        ("amplification", DataType::Float32, true),
    ] {
        let field = schema.field_with_name(name).unwrap();
        assert_eq!(
            (field.data_type(), field.is_nullable()),
            (&kind, nullable),
            "{name}"
        );
    }
}
