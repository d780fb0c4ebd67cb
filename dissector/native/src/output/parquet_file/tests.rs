//! Rows of every type, written and read again.

use parquet::basic::Compression;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::statistics::Statistics;
use parquet::record::Field;

use super::column::Stored;
use super::texts::Texts;
use super::*;
use crate::temporary::nameless;

/// A column of each type except lists, with a letter as its name.
fn columns(nullable: bool) -> Vec<Column> {
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];
    let column = |(name, kind)| Column {
        name,
        kind,
        nullable,
    };
    NAMES.into_iter().zip(Type::ALL).map(column).collect()
}

/// A file that is being written, and a second handle to read it.
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
    // Number of rows, their text, rows of each group.
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
    // The value that each column accepts.
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
        // Surplus cells are ignored.
        (
            &[Value::Int(1), Value::Bool(true), Value::Int(2), Value::Null],
            None,
        ),
    ] {
        let (mut file, _) = create(&columns);
        let error = file.write_row(row).err().map(|error| error.to_string());
        let expected = wrong.map(|name| format!("column {name} got no value of its type"));
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
    // A repeated text counts again, because a file without a dictionary stores it again.
    for (value, bytes) in [
        (Value::Text("abc"), 3),
        (Value::Null, 0),
        (Value::Text("\u{e9}"), 2),
        (Value::Text("abc"), 3),
    ] {
        assert_eq!(cells.push(value), Some(bytes));
    }
    assert_eq!(cells.levels, [1, 0, 1, 1]);
    let Stored::Text(texts) = cells.stored else {
        panic!("no text")
    };
    assert_eq!(texts.plain(), b"\x03\0\0\0abc\x02\0\0\0\xc3\xa9");
    assert_eq!(texts.indices(), Some((2, &[0, 1, 0][..])));
}

/// A file with one column of `kind` with these cells, and the same cells read again.
fn written(kind: Type, cells: &[Value<'_>]) -> (SerializedFileReader<File>, Vec<Field>) {
    let column = Column {
        name: "a",
        kind,
        nullable: true,
    };
    let (mut file, again) = create(&[column]);
    for cell in cells {
        file.write_row(&[*cell][..]).unwrap();
    }
    file.finish().unwrap();
    let (reader, rows) = read(again);
    (reader, rows.into_iter().flatten().collect())
}

#[test]
fn texts_come_back_however_many_differ() {
    // Three row groups. One index more than fits into a byte, and texts that all differ.
    for distinct in [1, 2, 64, 65, 256, 257, 3000, 20_000] {
        let texts: Vec<String> = (0..17_000usize)
            .map(|n| "x".repeat(n % distinct % 7) + &(n * 7 % distinct).to_string())
            .collect();
        let cell = |(n, text): (usize, &String)| match n % 5 {
            4 => Field::Null,
            _ => Field::Str(text.clone()),
        };
        let expected: Vec<Field> = texts.iter().enumerate().map(cell).collect();
        let cells: Vec<Value<'_>> = expected
            .iter()
            .map(|field| match field {
                Field::Str(text) => Value::Text(text),
                _ => Value::Null,
            })
            .collect();
        let (reader, found) = written(Type::String, &cells);
        assert!(found == expected, "{distinct} distinct texts");
        let has_dictionary: Vec<bool> = reader
            .metadata()
            .row_groups()
            .iter()
            .map(|group| group.column(0).dictionary_page_offset().is_some())
            .collect();
        // If texts repeat too little in a group, the later groups have no dictionary.
        let expected = [true, distinct < 5000, distinct < 5000];
        assert_eq!(has_dictionary, expected, "{distinct} distinct texts");
    }
}

#[test]
fn integers_come_back_whatever_lies_between_them() {
    let steps = |step: fn(i64) -> i64, count: i64| (0..count).map(step).collect::<Vec<_>>();
    for numbers in [
        vec![],
        vec![7],
        vec![i64::MIN, i64::MAX, 0, -1, i64::MAX, i64::MIN],
        steps(|n| n, 130),
        steps(|n| n * n * n - 50_000, 33),
        steps(|n| n.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64), 1000),
        steps(|n| (n % 3) << (n % 63), 9000),
        steps(|n| if n == 128 { i64::MAX } else { 5 }, 257),
    ] {
        let mut cells: Vec<Value<'_>> = numbers.iter().copied().map(Value::Int).collect();
        cells.push(Value::Null);
        let (reader, found) = written(Type::I64, &cells);
        let expected: Vec<Field> = numbers
            .iter()
            .copied()
            .map(Field::Long)
            .chain([Field::Null])
            .collect();
        assert_eq!(found, expected);
        let Some(group) = reader.metadata().row_groups().first() else {
            panic!("no rows")
        };
        let statistics = group.column(0).statistics().unwrap();
        if numbers.len() < 8192 {
            assert_eq!(statistics.null_count_opt(), Some(1));
            let Statistics::Int64(found) = statistics else {
                panic!("other statistics")
            };
            let expected = (numbers.iter().min(), numbers.iter().max());
            assert_eq!((found.min_opt(), found.max_opt()), expected);
        }
    }
}

#[test]
fn differences_after_the_last_number_take_no_bits() {
    let mut out = Vec::new();
    delta::write(&[0, -1], &mut out);
    // 128 differences in 4 groups; 2 numbers, the first 0; smallest difference -1; four widths.
    assert_eq!(out, [0x80, 1, 4, 2, 0, 1, 0, 0, 0, 0]);
}

#[test]
fn indices_of_a_dictionary_fill_whole_bytes() {
    for (indices, distinct, expected) in [
        (&[0, 1, 0][..], 2, &[9, 8, 3, 0, 1, 0, 0, 0, 0, 0, 0][..]),
        (&[0, 0], 1, &[9, 1, 4, 0]),
        (
            &[256],
            257,
            &[9, 16, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ),
    ] {
        let mut out = vec![9];
        pages::write_indices(indices, distinct, &mut out);
        assert_eq!(out, expected);
    }
}

#[test]
fn a_dictionary_ends_if_most_texts_of_a_sample_differ() {
    // Cells in a row group, distinct texts, and whether the next group has a dictionary.
    for (cells, distinct, stays) in [
        (63, 63, true),
        (64, 31, true),
        (64, 32, true),
        (64, 33, false),
        (65, 33, false),
    ] {
        let mut texts = Texts::new();
        for cell in 0..cells {
            texts.push(&(cell % distinct).to_string());
        }
        texts.clear();
        assert_eq!(texts.indices().is_some(), stays, "{distinct} of {cells}");
    }
}

#[test]
fn unsigned_integers_have_the_least_and_the_greatest_of_them() {
    let cells = [4_000_000_000, 1, 2_000_000_000].map(Value::Int);
    let (reader, found) = written(Type::U32, &cells);
    assert_eq!(found[0], Field::UInt(4_000_000_000));
    let statistics = reader.metadata().row_group(0).column(0).statistics();
    let Some(Statistics::Int32(statistics)) = statistics else {
        panic!("other statistics")
    };
    let bits = |found: Option<&i32>| found.map(|found| *found as u32);
    let found = (bits(statistics.min_opt()), bits(statistics.max_opt()));
    assert_eq!(found, (Some(1), Some(4_000_000_000)));
}

#[test]
fn cells_that_are_there_and_nulls_keep_their_places() {
    // Runs of values and nulls, and bits that do not fill their last byte.
    for rows in [1, 7, 8, 9, 8191, 8192, 8200] {
        for is_null in [
            (|_| true) as fn(usize) -> bool,
            |_| false,
            |n| n % 3 == 0,
            |n| n > 20,
        ] {
            let expected: Vec<Field> = (0..rows)
                .map(|n| match is_null(n) {
                    true => Field::Null,
                    false => Field::Bool(n % 7 == 0),
                })
                .collect();
            let cells: Vec<Value<'_>> = expected
                .iter()
                .map(|field| match field {
                    Field::Bool(cell) => Value::Bool(*cell),
                    _ => Value::Null,
                })
                .collect();
            assert!(written(Type::Bool, &cells).1 == expected, "{rows} rows");
            let nulls = vec![Value::Null; rows];
            for kind in [Type::String, Type::I64, Type::U8, Type::F64] {
                assert!(written(kind, &nulls).1 == vec![Field::Null; rows]);
            }
        }
    }
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
