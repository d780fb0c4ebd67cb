use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use firstflight_records::described;

#[test]
fn columns_are_those_of_the_description() {
    let described: Vec<_> = described("quic_probe")
        .unwrap()
        .into_iter()
        .filter(|column| column.from == "prober")
        .map(|column| (column.name, column.kind, column.nullable))
        .collect();
    let ours: Vec<_> = Row::columns()[1..]
        .iter()
        .map(|column| (column.name.into(), column.kind.to_string(), column.nullable))
        .collect();
    assert_eq!(ours, described);
}

#[test]
fn json_has_every_column_with_null_as_null() {
    let row = Row {
        ip: "::1".into(),
        ack_us: Some(7),
        ..Row::default()
    };
    let json: serde_json::Value = serde_json::to_value(&row).unwrap();
    let names: Vec<&str> = Row::columns()[1..].iter().map(|c| c.name).collect();
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
        columns.push(&Row {
            target,
            ip: "192.0.2.1".into(),
            ack_us: (target == 2).then_some(-1),
            amplification: Some(0.1),
            ttl: Some(255),
            gap_before_sh: Some(true),
            ..Row::default()
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

/// A text that is made where it is written.
struct Dots;

impl firstflight_records::Shown for Dots {
    fn write(&self, style: Style, out: &mut Vec<u8>) {
        assert_eq!(style, Style::Plain);
        out.extend(b"...");
    }
}

/// The array of one column of type `kind` after `values`.
fn array_of(kind: Type, values: &[Value<'_>]) -> ArrayRef {
    let mut builder = Builder::new(&Column {
        name: "any",
        kind,
        nullable: true,
    });
    values.iter().for_each(|value| builder.push(*value));
    assert_eq!(builder.array().len(), values.len());
    builder.array_mut().finish()
}

#[test]
fn each_type_of_column_takes_its_cells() {
    use arrow_array::{
        BooleanArray, Float32Array, Float64Array, Int64Array, StringArray, UInt8Array, UInt16Array,
        UInt32Array,
    };
    let (null, int) = (Value::Null, Value::Int);
    let cases: [(Type, &[Value<'_>], ArrayRef); 8] = [
        (
            Type::String,
            &[Value::Text("a"), null, Value::Shown(&Dots)],
            Arc::new(StringArray::from(vec![Some("a"), None, Some("...")])),
        ),
        (
            Type::Bool,
            &[Value::Bool(true), null, Value::Bool(false)],
            Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)])),
        ),
        (
            Type::U8,
            &[int(255), null],
            Arc::new(UInt8Array::from(vec![Some(255), None])),
        ),
        (
            Type::U16,
            &[int(65_535), null],
            Arc::new(UInt16Array::from(vec![Some(65_535), None])),
        ),
        (
            Type::U32,
            &[int(4_294_967_295), null],
            Arc::new(UInt32Array::from(vec![Some(u32::MAX), None])),
        ),
        (
            Type::I64,
            &[int(i64::MIN), null],
            Arc::new(Int64Array::from(vec![Some(i64::MIN), None])),
        ),
        (
            Type::F32,
            &[Value::Float(0.5), null],
            Arc::new(Float32Array::from(vec![Some(0.5), None])),
        ),
        (
            Type::F64,
            &[Value::Float(0.1), null],
            Arc::new(Float64Array::from(vec![Some(0.1), None])),
        ),
    ];
    for (kind, values, expected) in cases {
        let found = array_of(kind, values);
        assert_eq!(found.as_ref(), expected.as_ref(), "{kind}");
        assert_eq!(found.data_type(), &arrow_type(kind), "{kind}");
    }
}

#[test]
fn a_cell_of_another_type_is_null() {
    for (kind, value) in [
        (Type::String, Value::Int(1)),
        (Type::Bool, Value::Int(1)),
        (Type::U8, Value::Text("1")),
        (Type::I64, Value::Float(1.0)),
        (Type::F64, Value::Int(1)),
    ] {
        assert!(array_of(kind, &[value]).is_null(0), "{kind}");
    }
}

#[test]
fn a_batch_without_a_cell_that_must_be_there_is_refused() {
    let mut columns = Columns::default();
    columns.builders[0].push(Value::Null);
    columns.builders[1..]
        .iter_mut()
        .for_each(|builder| builder.push(Value::Null));
    assert!(columns.finish(Columns::schema()).is_err());
}

#[test]
fn segments_have_the_types_of_the_description() {
    let schema = Columns::schema();
    assert_eq!(schema.fields().len(), Row::columns().len());
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
