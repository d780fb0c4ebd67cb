//! Rows of every type, written and read again.

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;

use super::*;
use crate::temporary::nameless;

/// A column of each type but lists, with the name of its place.
fn columns(nullable: bool) -> Vec<Column> {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let column = |(name, kind)| Column {
        name,
        kind,
        nullable,
    };
    NAMES.into_iter().zip(Type::ALL).map(column).collect()
}

/// A file that is being written, and the same to be read.
fn create(columns: &[Column]) -> (ParquetFile, File) {
    let file = nameless().unwrap();
    let again = file.try_clone().unwrap();
    (ParquetFile::new(file, "k", columns).unwrap(), again)
}

fn read(file: File) -> (SerializedFileReader<File>, Vec<Vec<Field>>) {
    let reader = SerializedFileReader::new(file).unwrap();
    let rows = reader.get_row_iter(None).unwrap();
    let mut fields = Vec::new();
    for row in rows {
        let row = row.unwrap();
        let of_row: Vec<Field> = row.get_column_iter().map(|(_, f)| f.clone()).collect();
        fields.push(of_row);
    }
    (reader, fields)
}

#[test]
fn cells_of_every_type_come_back() {
    for nullable in [false, true] {
        let (mut file, again) = create(&columns(nullable));
        let mut rows = vec![
            [
                Value::Text("x"),
                Value::Bool(true),
                Value::Int(200),
                Value::Int(60_000),
                Value::Int(4_000_000_000),
                Value::Int(-5),
                Value::Float(0.5),
                Value::Float(-0.25),
            ],
            [
                Value::Text(""),
                Value::Bool(false),
                Value::Int(0),
                Value::Int(1),
                Value::Int(2),
                Value::Int(3),
                Value::Float(4.0),
                Value::Float(5.0),
            ],
        ];
        if nullable {
            rows.insert(1, [Value::Null; 8]);
        }
        for row in &rows {
            file.write_row(&row[..]).unwrap();
        }
        file.finish().unwrap();
        let (_, found) = read(again);
        let mut expected = vec![
            vec![
                Field::Str("x".into()),
                Field::Bool(true),
                Field::UByte(200),
                Field::UShort(60_000),
                Field::UInt(4_000_000_000),
                Field::Long(-5),
                Field::Float(0.5),
                Field::Double(-0.25),
            ],
            vec![
                Field::Str(String::new()),
                Field::Bool(false),
                Field::UByte(0),
                Field::UShort(1),
                Field::UInt(2),
                Field::Long(3),
                Field::Float(4.0),
                Field::Double(5.0),
            ],
        ];
        if nullable {
            expected.insert(1, vec![Field::Null; 8]);
        }
        assert_eq!(found, expected, "nullable: {nullable}");
    }
}

#[test]
fn a_file_names_its_kind_and_columns() {
    for nullable in [false, true] {
        let (file, again) = create(&columns(nullable));
        file.finish().unwrap();
        let (reader, rows) = read(again);
        assert!(rows.is_empty());
        let metadata = reader.metadata().file_metadata();
        let pairs = metadata.key_value_metadata().unwrap();
        let kind = pairs.iter().find(|pair| pair.key == "firstflight.kind");
        assert_eq!(kind.and_then(|pair| pair.value.as_deref()), Some("k"));
        let repetition = if nullable {
            Repetition::OPTIONAL
        } else {
            Repetition::REQUIRED
        };
        let found: Vec<_> = metadata
            .schema_descr()
            .columns()
            .iter()
            .map(|column| {
                let physical = column.physical_type();
                assert_eq!(column.self_type().get_basic_info().repetition(), repetition);
                (column.name().to_owned(), physical, column.converted_type())
            })
            .collect();
        let expected = [
            ("a", Physical::BYTE_ARRAY, ConvertedType::UTF8),
            ("b", Physical::BOOLEAN, ConvertedType::NONE),
            ("c", Physical::INT32, ConvertedType::UINT_8),
            ("d", Physical::INT32, ConvertedType::UINT_16),
            ("e", Physical::INT32, ConvertedType::UINT_32),
            ("f", Physical::INT64, ConvertedType::NONE),
            ("g", Physical::FLOAT, ConvertedType::NONE),
            ("h", Physical::DOUBLE, ConvertedType::NONE),
        ];
        let expected = expected.map(|(name, physical, kind)| (name.to_owned(), physical, kind));
        assert_eq!(found, expected);
    }
}

#[test]
fn rows_are_grouped_by_8192_or_by_their_text() {
    let column = Column {
        name: "a",
        kind: Type::String,
        nullable: false,
    };
    let long = &*"x".repeat(1 << 20);
    // Rows, their text, rows of each group.
    for (rows, text, groups) in [
        (0, "", &[][..]),
        (1, "x", &[1]),
        (8191, "x", &[8191]),
        (8192, "x", &[8192]),
        (8193, "x", &[8192, 1]),
        // More than four megabytes.
        (4, long, &[4]),
        (5, long, &[5]),
        (11, long, &[5, 5, 1]),
    ] {
        let (mut file, again) = create(&[column]);
        for _ in 0..rows {
            file.write_row(&[Value::Text(text)][..]).unwrap();
        }
        file.finish().unwrap();
        let (reader, found) = read(again);
        let metadata = reader.metadata();
        let found_groups: Vec<i64> = metadata.row_groups().iter().map(|g| g.num_rows()).collect();
        assert_eq!(found_groups, groups, "{rows} rows");
        assert_eq!(found.len(), rows);
        let is_whole = |row: &Vec<Field>| row[..] == [Field::Str(text.to_owned())];
        assert!(found.iter().all(is_whole));
        for group in metadata.row_groups() {
            let compression = group.column(0).compression();
            assert!(matches!(compression, Compression::ZSTD(_)), "{compression}");
        }
    }
}

#[test]
fn columns_take_values_of_their_type_only() {
    let values = [
        Value::Text("x"),
        Value::Bool(true),
        Value::Int(1),
        Value::Float(0.5),
        Value::Null,
    ];
    // Which of these values the columns take.
    let takes = [0, 1, 2, 2, 2, 2, 3, 3];
    for nullable in [false, true] {
        for (column, taken) in columns(nullable).into_iter().zip(takes) {
            for (i, value) in values.iter().enumerate() {
                let mut cells = Cells::new(column);
                let is_taken = cells.push(*value).is_some();
                let expected = i == taken || nullable && i == 4;
                assert_eq!(is_taken, expected, "{} {i} {nullable}", column.name);
            }
        }
    }
}

#[test]
fn a_row_that_does_not_fit_names_the_first_wrong_column() {
    let columns = [("a", Type::I64), ("b", Type::Bool), ("c", Type::I64)];
    let columns = columns.map(|(name, kind)| Column {
        name,
        kind,
        nullable: false,
    });
    for (row, wrong) in [
        (&[Value::Int(1), Value::Bool(true), Value::Int(2)][..], None),
        (
            &[Value::Int(1), Value::Int(1), Value::Bool(true)],
            Some("b"),
        ),
        (&[Value::Int(1), Value::Bool(true)], Some("c")),
        (&[], Some("a")),
        // What is too much is passed over.
        (
            &[Value::Int(1), Value::Bool(true), Value::Int(2), Value::Null],
            None,
        ),
    ] {
        let (mut file, _) = create(&columns);
        let error = file.write_row(row).err().map(|error| error.to_string());
        let expected = wrong.map(|name| format!("column {name} must not hold what came for it"));
        assert_eq!(error, expected);
    }
}

#[test]
fn texts_are_counted_in_bytes() {
    let column = Column {
        name: "a",
        kind: Type::String,
        nullable: true,
    };
    let mut cells = Cells::new(column);
    for (value, bytes) in [
        (Value::Text("abc"), 3),
        (Value::Null, 0),
        (Value::Text("\u{e9}"), 2),
    ] {
        assert_eq!(cells.push(value), Some(bytes));
    }
    assert_eq!(cells.levels, [1, 0, 1]);
    let Stored::Text(bytes, ends) = cells.stored else {
        panic!("no text")
    };
    assert_eq!((bytes, ends), ("abc\u{e9}".as_bytes().to_vec(), vec![3, 5]));
}

#[test]
fn errors_of_the_file_stay_what_they_are() {
    let full = || io::Error::from(io::ErrorKind::StorageFull);
    let kinds = [
        ParquetError::External(Box::new(full())),
        ParquetError::External("other".into()),
        ParquetError::General("other".into()),
    ]
    .map(|error| io_error(error).kind());
    let expected = [
        io::ErrorKind::StorageFull,
        io::ErrorKind::Other,
        io::ErrorKind::Other,
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn a_second_group_holds_its_own_cells_only() {
    for nullable in [false, true] {
        let (mut file, again) = create(&columns(nullable));
        for n in 0..8194 {
            let row = [
                Value::Text("x"),
                Value::Bool(n % 2 == 0),
                Value::Int(n % 200),
                Value::Int(n),
                Value::Int(n),
                Value::Int(-n),
                Value::Float(0.5),
                Value::Float(n as f64),
            ];
            file.write_row(&row[..]).unwrap();
        }
        file.finish().unwrap();
        let (reader, rows) = read(again);
        let groups: Vec<i64> = reader
            .metadata()
            .row_groups()
            .iter()
            .map(|group| group.num_rows())
            .collect();
        assert_eq!((groups, rows.len()), (vec![8192, 2], 8194));
        let expected = [
            Field::Str("x".into()),
            Field::Bool(false),
            Field::UByte(193),
            Field::UShort(8193),
            Field::UInt(8193),
            Field::Long(-8193),
            Field::Float(0.5),
            Field::Double(8193.0),
        ];
        assert_eq!(rows[8193], expected);
    }
}
