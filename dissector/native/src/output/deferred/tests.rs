//! Rows that are put aside and read again.

use super::*;

struct Found(Vec<String>);

impl Visitor for Found {
    fn value(&mut self, value: Value<'_>) {
        self.0.push(match value {
            Value::Null => "null".into(),
            Value::Bool(value) => format!("{value:?}"),
            Value::Int(value) => format!("{value:?}"),
            Value::Float(value) => format!("{value:?}"),
            Value::Text(value) => format!("{value:?}"),
            Value::Shown(_) => unreachable!("shown cells are deferred as text"),
            Value::Texts(_) | Value::Ints(_) => unreachable!("no kind of the dissector has lists"),
        });
    }
}

#[test]
fn rows_come_back_in_order() {
    let long = "x".repeat(100);
    let row = |n: i64| {
        [
            Value::Null,
            Value::Bool(true),
            Value::Int(n),
            Value::Float(0.5),
            Value::Text("\u{e9}\n"),
            Value::Text(&long),
        ]
    };
    for count in [0, 3, 60_000] {
        let mut deferred = Deferred::new();
        for n in 0..count {
            deferred.write_row(&row(n)[..]).unwrap();
        }
        let mut next = 0;
        let read = deferred.replay(|found| {
            let (mut cells, mut expected) = (Found(Vec::new()), Found(Vec::new()));
            found.visit(&mut cells);
            row(next)[..].visit(&mut expected);
            assert_eq!(cells.0, expected.0);
            next += 1;
            Ok(())
        });
        read.unwrap();
        assert_eq!(next, count);
    }
}

#[test]
fn every_kind_of_value_comes_back() {
    let row = [
        Value::Null,
        Value::Bool(false),
        Value::Bool(true),
        Value::Int(i64::MIN),
        Value::Float(-0.25),
        Value::Text("x y"),
        Value::Text(""),
    ];
    let mut deferred = Deferred::new();
    deferred.write_row(&row[..]).unwrap();
    deferred.write_row(&row[..0]).unwrap();
    let mut found = Vec::new();
    deferred
        .replay(|row| {
            let mut cells = Found(Vec::new());
            row.visit(&mut cells);
            found.push(cells.0.join(" "));
            Ok(())
        })
        .unwrap();
    assert_eq!(
        found,
        [
            "null false true -9223372036854775808 -0.25 \"x y\" \"\"",
            ""
        ]
    );
}

#[test]
fn a_row_ends_where_it_is_damaged() {
    for (bytes, expected) in [
        (&[0, 1, 1, 0][..], "null true null"),
        (&[0, 5, 0], "null"),
        (&[0, 2, 1, 0, 0], "null"),
        (&[2, 1, 0, 0, 0, 0, 0, 0, 0, 0], "1 null"),
        (&[4, 2, 0, 0, 0, b'a'], ""),
        (&[4, 1, 0, 0, 0, 0xff, 0], ""),
        (&[4, 1, 0, 0, 0, b'a', 0], "\"a\" null"),
        (&[1], ""),
    ] {
        let mut cells = Found(Vec::new());
        EncodedRow(bytes).visit(&mut cells);
        assert_eq!(cells.0.join(" "), expected, "{bytes:?}");
    }
}

#[test]
fn what_cannot_be_written_ends_the_replay() {
    let mut deferred = Deferred::new();
    for _ in 0..3 {
        deferred.write_row(&[Value::Null][..]).unwrap();
    }
    let mut rows = 0;
    let end = deferred.replay(|_| {
        rows += 1;
        Err(io::Error::other("full"))
    });
    assert_eq!((end.unwrap_err().to_string(), rows), ("full".into(), 1));
}

#[test]
fn what_cannot_be_read_again_is_no_end() {
    struct Broken;

    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }

    let rows = [1, 0, 0, 0, 0, 1, 0, 0, 0, 0];
    for (length, expected) in [(5, 1), (10, 2)] {
        let mut count = 0;
        let end = replay(rows[..length].chain(Broken), |_| {
            count += 1;
            Ok(())
        });
        assert_eq!(
            (end.unwrap_err().to_string(), count),
            ("gone".into(), expected)
        );
    }
    // Within a row's length.
    let end = replay(&rows[..7], |_| Ok(()));
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}
