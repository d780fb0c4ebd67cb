//! Lines of rows with values and nulls.

use std::io::Write;
use std::sync::{Arc, Mutex};

use super::*;
use firstflight_records::Type;

fn maybe(name: &'static str, kind: Type) -> Column {
    Column {
        name,
        kind,
        nullable: true,
    }
}

#[derive(Clone, Default)]
struct Shared(Arc<Mutex<Vec<u8>>>);

impl Write for Shared {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn text_is_escaped_and_null_is_null() {
    let columns = [
        maybe("a", Type::String),
        maybe("b", Type::I64),
        maybe("c", Type::Bool),
        maybe("d", Type::F64),
    ];
    let written = Shared::default();
    let place = Place::Shared(Box::new(written.clone()));
    let mut lines = JsonLines::new(place, "k", &columns);
    let row = [
        Value::Text("x\"\n\u{1}"),
        Value::Null,
        Value::Bool(true),
        Value::Float(0.5),
    ];
    lines.write_row(&row[..]).unwrap();
    let row = [Value::Null, Value::Int(-7), Value::Null, Value::Float(3.0)];
    lines.write_row(&row[..]).unwrap();
    lines.write_row(&[Value::Null; 4][..]).unwrap();
    assert!(written.0.lock().unwrap().is_empty());
    lines.flush().unwrap();
    assert_eq!(
        String::from_utf8(written.0.lock().unwrap().clone()).unwrap(),
        "{\"kind\":\"k\",\"a\":\"x\\\"\\n\\u0001\",\"b\":null,\"c\":true,\"d\":0.5}\n\
         {\"kind\":\"k\",\"a\":null,\"b\":-7,\"c\":null,\"d\":3.0}\n\
         {\"kind\":\"k\",\"a\":null,\"b\":null,\"c\":null,\"d\":null}\n"
    );
}

#[test]
fn pieces_of_any_length_are_taken_over() {
    let name = |length: usize| &*"n".repeat(length).leak();
    let columns: Vec<Column> = [1, 48, 49, 50, 60, 61, 62, 300]
        .map(|length| maybe(name(length), Type::I64))
        .into();
    let written = Shared::default();
    let place = Place::Shared(Box::new(written.clone()));
    let mut lines = JsonLines::new(place, "k", &columns);
    for set in 0..256u32 {
        let row: Vec<Value<'_>> = (0..8)
            .map(|i| match set >> i & 1 {
                1 => Value::Int(i64::from(set)),
                _ => Value::Null,
            })
            .collect();
        lines.write_row(&row[..]).unwrap();
    }
    lines.flush().unwrap();
    let written = written.0.lock().unwrap();
    for (set, line) in (0..256u32).zip(written.split(|byte| *byte == b'\n')) {
        let mut expected = String::from("{\"kind\":\"k\"");
        for (i, column) in columns.iter().enumerate() {
            let value = (set >> i & 1 == 1).then_some(set);
            let value = value.map_or("null".into(), |set| set.to_string());
            expected += &format!(",\"{}\":{value}", column.name);
        }
        assert_eq!(std::str::from_utf8(line), Ok(&*(expected + "}")));
    }
}

#[test]
fn both_truth_values_have_their_words() {
    let columns = [maybe("a", Type::Bool), maybe("b", Type::Bool)];
    let written = Shared::default();
    let place = Place::Shared(Box::new(written.clone()));
    let mut lines = JsonLines::new(place, "k", &columns);
    let row = [Value::Bool(true), Value::Bool(false)];
    lines.write_row(&row[..]).unwrap();
    lines.flush().unwrap();
    assert_eq!(
        *written.0.lock().unwrap(),
        b"{\"kind\":\"k\",\"a\":true,\"b\":false}\n"
    );
}

#[test]
fn lines_are_written_without_a_flush_when_there_are_many() {
    let columns = [maybe("a", Type::I64)];
    let written = Shared::default();
    let place = Place::Shared(Box::new(written.clone()));
    let mut lines = JsonLines::new(place, "k", &columns);
    for _ in 0..4000 {
        lines.write_row(&[Value::Int(7)][..]).unwrap();
    }
    let length = written.0.lock().unwrap().len();
    assert!(length >= 1 << 16, "{length} bytes");
    assert_eq!(length % "{\"kind\":\"k\",\"a\":7}\n".len(), 0);
}

#[test]
fn lines_put_aside_follow_those_before() {
    let columns = [maybe("a", Type::I64)];
    let written = Shared::default();
    let place = Place::Shared(Box::new(written.clone()));
    let mut lines = JsonLines::new(place, "k", &columns);
    let mut aside = JsonLines::new(Place::Aside(None), "k", &columns);
    lines.write_row(&[Value::Int(1)][..]).unwrap();
    aside.write_row(&[Value::Int(2)][..]).unwrap();
    lines.append(aside).unwrap();
    lines.write_row(&[Value::Int(3)][..]).unwrap();
    lines.flush().unwrap();
    let expected = "{\"kind\":\"k\",\"a\":1}\n{\"kind\":\"k\",\"a\":2}\n{\"kind\":\"k\",\"a\":3}\n";
    assert_eq!(*written.0.lock().unwrap(), expected.as_bytes());
}
