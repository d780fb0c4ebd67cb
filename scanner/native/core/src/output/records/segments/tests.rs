//! Segments are written to a folder and read again.

use arrow_array::{ArrayRef, StringArray};
use serde::Serialize;

use super::*;
use crate::input::targets::csv;
use crate::output::records::outcome::tests::Word;
use crate::output::records::{Tally, leave_out_answered};

/// The columns that every kind of record has.
#[derive(Default)]
struct Rows(Vec<(u32, String, String, String)>);

#[derive(Serialize)]
struct Row<'a>(u32, &'a str, &'a str, &'a str);

impl Columns for Rows {
    type Row<'a> = Row<'a>;

    fn schema() -> Arc<Schema> {
        let text = |name| Field::new(name, DataType::Utf8, false);
        let target = Field::new("target", DataType::UInt32, false);
        Arc::new(Schema::new(vec![
            target,
            text("ip"),
            text("domain"),
            text("outcome"),
        ]))
    }

    fn push(&mut self, row: &Row<'_>) {
        let text = |text: &str| text.to_owned();
        self.0.push((row.0, text(row.1), text(row.2), text(row.3)));
    }

    fn len(&self) -> usize {
        self.0.len()
    }

    fn finish(&mut self, schema: Arc<Schema>) -> Result<RecordBatch, ArrowError> {
        let rows = std::mem::take(&mut self.0);
        let text = |of: fn(&(u32, String, String, String)) -> &str| -> ArrayRef {
            Arc::new(rows.iter().map(of).map(Some).collect::<StringArray>())
        };
        let targets: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<UInt32Array>());
        let texts = [text(|row| &row.1), text(|row| &row.2), text(|row| &row.3)];
        RecordBatch::try_new(schema, [targets].into_iter().chain(texts).collect())
    }
}

/// An empty folder, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("segments-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn open(&self, resume: bool) -> Result<Segments<Rows>, Failure> {
        Segments::open(&self.0, resume)
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Lines 2, 3 and 4 in a list.
fn list() -> TargetList {
    let text = "ip,domain,port\n192.0.2.1,a.test,\n192.0.2.2,,\n192.0.2.3,c.test,\n";
    csv::read(text.as_bytes(), "list", |_, _| ()).unwrap()
}

const ROWS: [Row<'static>; 3] = [
    Row(2, "192.0.2.1", "a.test", "answered"),
    Row(4, "192.0.2.3", "c.test", "blocked"),
    Row(FIRST_PLANNED, "192.0.2.9", "", "answered"),
];

#[test]
fn segments_are_numbered_and_go_on_where_the_run_before_ended() {
    let folder = Folder::new("numbers");
    let mut segments = folder.open(false).unwrap();
    assert_eq!((segments.last(), segments.close().is_ok()), (0, true));
    assert_eq!(segments.last(), 0, "without rows there is no segment");
    for number in 1..=2 {
        segments.push(&ROWS[0], 0);
        segments.close().unwrap();
        assert_eq!(segments.last(), number);
    }
    fs::write(folder.0.join("seg-000009.arrow.part"), "").unwrap();
    fs::write(folder.0.join("seg-x.arrow"), "").unwrap();
    assert!(matches!(folder.open(false).err(), Some(Failure::Usage(_))));
    let mut segments = folder.open(true).unwrap();
    assert_eq!(segments.last(), 2);
    segments.push(&ROWS[0], 0);
    segments.close().unwrap();
    let arrow: Vec<_> = folder
        .names()
        .into_iter()
        .filter(|name| name.ends_with(".arrow"))
        .collect();
    assert_eq!(
        arrow,
        [
            "seg-000001.arrow",
            "seg-000002.arrow",
            "seg-000003.arrow",
            "seg-x.arrow"
        ]
    );
}

#[test]
fn a_segment_with_rows_grows_old() {
    let folder = Folder::new("old");
    let mut segments = folder.open(false).unwrap();
    assert_eq!((segments.opened, segments.is_old()), (None, false));
    assert_eq!(segments.closes_in(), None);
    segments.push(&ROWS[0], 0);
    assert!(segments.closes_in().unwrap() <= MAX_AGE);
    segments.opened = Some(Instant::now() + Duration::from_secs(3600));
    assert!(!segments.is_old());
    segments.opened = Instant::now().checked_sub(MAX_AGE);
    assert!(segments.is_old());
    assert_eq!(segments.closes_in(), Some(Duration::ZERO));
    segments.close().unwrap();
    assert_eq!((segments.last(), segments.opened), (1, None));
}

#[test]
fn a_segment_is_full_at_its_most_rows() {
    let folder = Folder::new("rows");
    let mut segments = folder.open(false).unwrap();
    for _ in 0..Rows::MOST_ROWS {
        assert!(!segments.is_full());
        segments.push(&ROWS[0], 0);
    }
    assert!(segments.is_full());
}

#[test]
fn targets_that_segments_answer_are_left_out_and_counted_once() {
    let folder = Folder::new("answered");
    let mut segments = folder.open(false).unwrap();
    for _ in 0..2 {
        ROWS.iter().for_each(|row| segments.push(row, 0));
        segments.close().unwrap();
    }
    let (list, mut order, mut tally) = (list(), vec![2, 1, 0], Tally::<Word>::default());
    leave_out_answered(&mut order, &mut tally, &segments, &list).unwrap();
    assert_eq!((order, tally.resumed, tally.sent), (vec![1], 2, 1));
    assert_eq!((tally.of(Word::Answered), tally.of(Word::Blocked)), (1, 1));
}

#[test]
fn segments_of_another_list_or_kind_are_refused() {
    for (name, row, usage) in [
        (
            "another address",
            Row(2, "192.0.2.2", "a.test", "answered"),
            true,
        ),
        (
            "another name",
            Row(2, "192.0.2.1", "b.test", "answered"),
            true,
        ),
        (
            "another line",
            Row(5, "192.0.2.1", "a.test", "answered"),
            true,
        ),
        (
            "another outcome",
            Row(2, "192.0.2.1", "a.test", "lost"),
            false,
        ),
    ] {
        let folder = Folder::new("refused");
        let mut segments = folder.open(false).unwrap();
        segments.push(&row, 0);
        segments.close().unwrap();
        let failure = segments.answered::<Word>(&list()).err().unwrap();
        assert_eq!(
            matches!(failure, Failure::Usage(_)),
            usage,
            "{name}: {failure}"
        );
    }
    let folder = Folder::new("broken");
    let segments = folder.open(false).unwrap();
    fs::write(folder.0.join("seg-000001.arrow"), "no segment").unwrap();
    let failure = segments.answered::<Word>(&list()).err();
    assert!(matches!(failure, Some(Failure::Input(_))));
}

#[test]
fn origin_as_numbers_are_a_last_column_if_the_list_has_them() {
    for (has_asn, expected) in [(false, None), (true, Some(vec![Some(64500), None]))] {
        let folder = Folder::new("asn");
        let mut segments = folder.open(false).unwrap();
        if has_asn {
            segments.add_asn();
        }
        segments.push(&ROWS[0], 64500);
        segments.push(&ROWS[1], 0);
        segments.close().unwrap();
        let file = File::open(folder.0.join("seg-000001.arrow")).unwrap();
        let batch = FileReader::try_new(file, None)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        let asns = batch.column_by_name("asn").map(|column| {
            let column = column.as_primitive::<UInt32Type>();
            column.iter().collect::<Vec<_>>()
        });
        assert_eq!((asns, batch.num_rows()), (expected, 2));
    }
}

#[test]
fn a_segment_that_cannot_be_written_leaves_no_file() {
    let folder = Folder::new("gone");
    let mut segments = folder.open(false).unwrap();
    segments.push(&ROWS[0], 0);
    fs::create_dir(folder.0.join("seg-000001.arrow")).unwrap();
    fs::write(folder.0.join("seg-000001.arrow").join("file"), "").unwrap();
    assert!(segments.close().is_err());
    assert_eq!((segments.last(), folder.names().len()), (0, 1));
}
