//! Test helpers: rows as text, folders, and TCP segments.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use firstflight_records::{Column, Record, Row, Style, Value, Visitor};
use firstflight_wire::tcp::Header;

use crate::net::ip::{IpLength, Segment};

struct Cells(Vec<Option<String>>);

impl Visitor for Cells {
    fn value(&mut self, value: Value<'_>) {
        self.0.push(match value {
            Value::Null => None,
            Value::Bool(value) => Some(value.to_string()),
            Value::Int(value) => Some(value.to_string()),
            Value::Float(value) => Some(value.to_string()),
            Value::Text(text) => Some(text.to_owned()),
            Value::Shown(shown) => {
                let mut out = Vec::new();
                shown.write(Style::Plain, &mut out);
                Some(String::from_utf8(out).unwrap())
            }
            Value::Texts(_) | Value::Ints(_) => unreachable!("no kind of the dissector has lists"),
        });
    }
}

/// A row's cells; `None` for null.
pub(super) fn cells(row: &(impl Row + ?Sized)) -> Vec<Option<String>> {
    let mut cells = Cells(Vec::new());
    row.visit(&mut cells);
    cells.0
}

/// A row's cells as lines NAME=VALUE, without nulls.
pub(super) fn lines<R: Record>(row: &R) -> String {
    let columns = R::columns();
    let cells = cells(row);
    assert_eq!(columns.len(), cells.len());
    let line = |(column, cell): (&Column, Option<String>)| {
        cell.map(|cell| format!("{}={cell}\n", column.name))
    };
    columns.iter().zip(cells).filter_map(line).collect()
}

/// A folder that is removed when dropped.
pub(super) struct Folder(pub(super) PathBuf);

impl Folder {
    pub(super) fn new() -> Folder {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("firstflight-dissect-test.{}.{n}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir(&path).unwrap();
        Folder(path)
    }

    /// Sorted names of the files in the folder.
    pub(super) fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    pub(super) fn text(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A TCP segment between a client and a server.
#[derive(Clone, Copy)]
pub(super) struct S<'a> {
    pub from_client: bool,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    /// A multiple of four bytes.
    pub options: &'a [u8],
    pub payload: usize,
    pub ecn: u8,
}

impl S<'_> {
    pub(super) fn segment(&self) -> Segment<'static> {
        let client = SocketAddr::from(([192, 0, 2, 1], 50_000));
        let server = SocketAddr::from(([198, 51, 100, 1], 443));
        let (src, dst) = if self.from_client {
            (client, server)
        } else {
            (server, client)
        };
        let length = 20 + self.options.len();
        let mut bytes = Vec::new();
        bytes.extend(src.port().to_be_bytes());
        bytes.extend(dst.port().to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([((length / 4) << 4) as u8, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0xab, 0xcd, 0, 9]);
        bytes.extend(self.options);
        Segment {
            src,
            dst,
            ttl: if self.from_client { 64 } else { 57 },
            ecn: self.ecn,
            header: Header::parse(bytes.leak()).unwrap(),
            length: self.payload,
            ip_length: IpLength {
                bytes: 20 + length + self.payload,
                is_guessed: false,
            },
        }
    }
}
