use super::*;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use firstflight_records::{Record, columns};

columns! {
    struct AnswerRow<'a> {
        line: u32,
        ttl: Option<u32>,
        names: &'a [String],
        ttls: &'a [u32],
    }
}

#[test]
fn lists_and_nulls_are_kept() {
    let mut columns = ArrowColumns::new(&AnswerRow::columns());
    let names = ["a".to_owned(), "b".to_owned()];
    for (line, ttl, names, ttls) in [
        (1, Some(7), &names[..], &[3, 4][..]),
        (2, None, &[][..], &[][..]),
    ] {
        columns.push(&AnswerRow {
            line,
            ttl,
            names,
            ttls,
        });
    }
    assert_eq!(columns.len(), 2);
    let batch = columns
        .finish(ArrowColumns::schema(&AnswerRow::columns()))
        .unwrap();
    assert!(columns.is_empty());
    assert!(batch.column(1).is_null(1) && !batch.column(1).is_null(0));
    let first = batch.column(2).as_list::<i32>().value(0);
    let texts: Vec<_> = first.as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, ["a", "b"]);
    let last = batch.column(3).as_list::<i32>().value(1);
    assert_eq!((last.len(), batch.column(3).null_count()), (0, 0));
}

/// A text that is produced when it is written.
struct Dots;

impl firstflight_records::Shown for Dots {
    fn write(&self, style: Style, out: &mut Vec<u8>) {
        assert_eq!(style, Style::Plain);
        out.extend(b"...");
    }
}

/// Returns the array for a column of type `kind` after `values`.
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
    let mut columns = ArrowColumns::new(&AnswerRow::columns());
    for builder in &mut columns.builders {
        builder.push(Value::Null);
    }
    assert!(
        columns
            .finish(ArrowColumns::schema(&AnswerRow::columns()))
            .is_err()
    );
}
