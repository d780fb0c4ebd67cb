//! TLS key logs (draft-ietf-tls-keylogfile): given files, a file next to the capture, and blocks in a pcapng file.
//!
//! A log may be larger than the memory limit, so only line positions are kept. A connection's lines are read when they
//! are needed.

mod line;

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use line::{Secret, Secrets};

use crate::temporary::nameless;
use firstflight_usage::tell;
use line::{LONGEST, Line, random_text};

/// Lines for a connection that are read together. TLS 1.3 has five, with two exporter secrets.
const LINES: usize = 8;
/// Bytes read for a connection, from its position in the index.
const WANTED: usize = LINES * LONGEST;

/// Maximum number of bytes of logs inside a capture that are kept in memory; more go to an unnamed file.
const IN_MEMORY: usize = 1 << 22;
/// Maximum number of unsorted positions. Beyond it, all positions are sorted again.
const UNSORTED: usize = 1024;

/// Mean number of sorted positions per share.
const PER_SHARE: usize = 8;

/// Storage from which lines can be read again.
#[derive(Debug)]
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Adds `text`, which follows `end` bytes.
    fn append(&mut self, text: &[u8], end: u64) -> io::Result<()> {
        match self {
            Source::File(file) => file.write_all_at(text, end),
            Source::Memory(bytes) if bytes.len() + text.len() <= IN_MEMORY => {
                bytes.extend_from_slice(text);
                Ok(())
            }
            Source::Memory(bytes) => {
                let file = nameless()?;
                file.write_all_at(bytes, 0)?;
                file.write_all_at(text, bytes.len() as u64)?;
                *self = Source::File(file);
                Ok(())
            }
        }
    }

    /// Up to `buf.len()` bytes from `offset`.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        match self {
            Source::File(file) => file.read_at(buf, offset),
            Source::Memory(bytes) => {
                let from = usize::try_from(offset).ok().and_then(|at| bytes.get(at..));
                from.unwrap_or_default().read(buf)
            }
        }
    }
}

/// Positions of lines, by client random.
#[derive(Debug)]
struct Index {
    /// (first bytes of the random, offset of the first line for a group with this random).
    places: Vec<(u64, u64)>,
    /// How many positions are sorted.
    sorted: usize,
    /// Start of each share of fingerprints in the sorted positions, and the end. Randoms are uniformly distributed.
    shares: Vec<usize>,
    /// Random of the last indexed line, in hex, and the position.
    last: [u8; 64],
    last_at: u64,
    /// Offset of the next line.
    end: u64,
}

impl Default for Index {
    fn default() -> Self {
        Index {
            places: Vec::new(),
            sorted: 0,
            shares: Vec::new(),
            last: [0; 64],
            last_at: 0,
            end: 0,
        }
    }
}

impl Index {
    /// Reads all lines of `text`. A line that is too long is split into several, which do not parse.
    fn read(&mut self, text: impl Read) -> io::Result<()> {
        let mut reader = BufReader::with_capacity(1 << 16, text);
        let mut line = Vec::with_capacity(LONGEST);
        loop {
            // Nearly all lines are completely in the buffer.
            let buffer = reader.fill_buf()?;
            let ahead = &buffer[..buffer.len().min(LONGEST)];
            if let Some(end) = memchr::memchr(b'\n', ahead) {
                self.line(&ahead[..=end]);
                reader.consume(end + 1);
                continue;
            }
            line.clear();
            let length = reader
                .by_ref()
                .take(LONGEST as u64)
                .read_until(b'\n', &mut line)?;
            if length == 0 {
                break;
            }
            self.line(&line);
        }
        if self.places.len() > self.sorted + UNSORTED {
            self.sort();
        }
        Ok(())
    }

    fn sort(&mut self) {
        self.places.sort_unstable();
        self.sorted = self.places.len();
        let shares = (self.sorted / PER_SHARE).next_power_of_two();
        let mut at = 0;
        self.shares = (0..=shares)
            .map(|share| {
                let rest = &self.places[at..];
                at += rest
                    .iter()
                    .take_while(|(f, _)| share_of(*f, shares) < share)
                    .count();
                at
            })
            .collect();
    }

    /// Adds the next line.
    fn line(&mut self, text: &[u8]) {
        // A connection's lines are usually adjacent. Only the first is indexed; lines with the same random are
        // skipped if a read from there covers them.
        let random = random_text(text).filter(|random| random.len() == self.last.len());
        let is_read = self.end + text.len() as u64 <= self.last_at + WANTED as u64;
        if random.is_some_and(|random| *random != self.last || !is_read)
            && let Some(line) = Line::parse(text)
        {
            self.places.push((fingerprint(&line.random), self.end));
            self.last.copy_from_slice(random.unwrap_or(&[0; 64]));
            self.last_at = self.end;
        }
        self.end += text.len() as u64;
    }

    /// Positions of lines with this fingerprint.
    fn with(&self, wanted: u64) -> impl Iterator<Item = u64> {
        let (places, rest) = self.places.split_at(self.sorted.min(self.places.len()));
        let share = share_of(wanted, self.shares.len().saturating_sub(1).max(1));
        let begin = |share: usize| self.shares.get(share).copied().unwrap_or(0);
        let (from, to) = (begin(share), begin(share + 1));
        let first = from + places[from..to].partition_point(|(found, _)| *found < wanted);
        let found = places[first..]
            .iter()
            .take_while(move |(f, _)| *f == wanted);
        let new = rest.iter().filter(move |(f, _)| *f == wanted);
        found.chain(new).map(|(_, offset)| *offset)
    }
}

/// Which of `shares` equal parts of all fingerprints this one is in; `shares` is a power of two.
fn share_of(fingerprint: u64, shares: usize) -> usize {
    ((u128::from(fingerprint) * shares as u128) >> 64) as usize
}

/// A recently read part of a log.
#[derive(Debug, Default)]
struct Window {
    offset: u64,
    bytes: Vec<u8>,
}

impl Window {
    /// Returns the bytes of `source` from `offset`, enough for a connection's lines. Logs usually are in the order
    /// of the capture, so the bytes are usually already in the window.
    fn at(&mut self, source: &Source, offset: u64) -> &[u8] {
        const AHEAD: usize = 1 << 16;
        let end = self.offset + self.bytes.len() as u64;
        if offset < self.offset || offset + WANTED as u64 > end {
            let goes_on = (self.offset..=end + AHEAD as u64).contains(&offset);
            self.bytes.resize(if goes_on { AHEAD } else { WANTED }, 0);
            // Keep some earlier bytes, because the order is not exact.
            self.offset = offset.saturating_sub(if goes_on { AHEAD as u64 / 4 } else { 0 });
            let length = source.read_at(&mut self.bytes, self.offset).unwrap_or(0);
            self.bytes.truncate(length);
        }
        let from = usize::try_from(offset - self.offset).unwrap_or(usize::MAX);
        let rest = self.bytes.get(from..).unwrap_or_default();
        &rest[..rest.len().min(WANTED)]
    }
}

/// One key log.
#[derive(Debug)]
pub struct KeyLog {
    source: Source,
    index: Index,
}

impl KeyLog {
    /// Reads the log at `path`. Ignores lines of other kinds (TLS 1.2, comments). If it finds no secret of QUIC, it
    /// warns on standard error, because the file may be the wrong one.
    pub fn open(path: &Path) -> io::Result<KeyLog> {
        let file = File::open(path)?;
        let mut index = Index::default();
        index.read(&file)?;
        if index.places.is_empty() && index.end > 0 {
            let path = path.display();
            tell!("firstflight-dissect: the key log {path} holds no secret of a QUIC connection");
        }
        Ok(KeyLog {
            source: Source::File(file),
            index,
        })
    }

    /// Adds the log's secrets of the connection with `random` to `found`. If the log cannot be read any more, adds
    /// nothing.
    fn look_up(&self, random: &[u8; 32], window: &mut Window, found: &mut Secrets) {
        for offset in self.index.with(fingerprint(random)) {
            let text = window.at(&self.source, offset);
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', text).chain([text.len()]) {
                match Line::parse(&text[start..end]) {
                    Some(line) if line.random == *random => found.take(&line),
                    Some(_) => break,
                    None => {}
                }
                start = (end + 1).min(text.len());
            }
            if found.is_whole() {
                break;
            }
        }
    }
}

fn fingerprint(random: &[u8; 32]) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = *random;
    u64::from_be_bytes([a, b, c, d, e, f, g, h])
}

/// All logs for a capture.
#[derive(Debug, Default)]
pub struct Keyring {
    /// Logs from --keys.
    given: Arc<Vec<KeyLog>>,
    beside: Option<KeyLog>,
    /// Logs inside the capture, concatenated.
    inside: Option<KeyLog>,
    /// The last window of each log.
    windows: RefCell<Vec<Window>>,
}

impl Keyring {
    /// The logs `given`.
    pub fn new(given: &Arc<Vec<KeyLog>>) -> Keyring {
        Keyring {
            given: Arc::clone(given),
            ..Keyring::default()
        }
    }

    /// Adds the log next to `capture`, if the file exists.
    pub fn open_beside(&mut self, capture: &Path) -> io::Result<()> {
        let path = beside(capture);
        if path.is_file() {
            self.beside = Some(KeyLog::open(&path)?);
        }
        Ok(())
    }

    /// Adds a log from inside the capture. If it cannot be stored, it is ignored.
    pub fn add(&mut self, text: &[u8]) {
        let log = self.inside.get_or_insert_with(|| KeyLog {
            source: Source::Memory(Vec::new()),
            index: Index::default(),
        });
        // The log grows, so a window may stop before its new end.
        self.windows.get_mut().clear();
        let end: &[u8] = if text.ends_with(b"\n") { b"" } else { b"\n" };
        let at = log.index.end;
        let put = |source: &mut Source| {
            source.append(text, at)?;
            source.append(end, at + text.len() as u64)
        };
        if put(&mut log.source).is_ok() {
            // Reading from memory cannot fail.
            let _ = log.index.read(text.chain(end));
        }
    }

    /// Whether there is any key.
    pub fn is_empty(&self) -> bool {
        self.logs().all(|log| log.index.places.is_empty())
    }

    /// The secrets of the connection with this `random` in its ClientHello, from all logs.
    pub fn look_up(&self, random: &[u8; 32]) -> Secrets {
        let mut found = Secrets::default();
        let mut windows = self.windows.borrow_mut();
        windows.resize_with(self.logs().count(), Window::default);
        for (log, window) in self.logs().zip(windows.iter_mut()) {
            if !found.is_whole() {
                log.look_up(random, window, &mut found);
            }
        }
        found
    }

    fn logs(&self) -> impl Iterator<Item = &KeyLog> {
        self.given.iter().chain(&self.beside).chain(&self.inside)
    }
}

/// NAME.keys for NAME.pcap, NAME.pcapng and their compressed forms.
fn beside(capture: &Path) -> PathBuf {
    let compressed = capture
        .extension()
        .is_some_and(|extension| extension == "gz" || extension == "zst");
    let plain = if compressed {
        capture.with_extension("")
    } else {
        capture.to_path_buf()
    };
    plain.with_extension("keys")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, random: u8, secret: u8) -> String {
        let hex = |b: u8| format!("{b:02x}").repeat(32);
        format!("{label} {} {}\n", hex(random), hex(secret))
    }

    #[test]
    fn lines_are_found_again_in_any_order() {
        let mut ring = Keyring::default();
        assert!(ring.is_empty());
        let text = [
            "# a comment\n".to_owned(),
            line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 9, 1),
            line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 5, 2),
            line("EXPORTER_SECRET", 5, 9),
            line("SERVER_HANDSHAKE_TRAFFIC_SECRET", 5, 3),
            "x".repeat(1000),
            "\n".to_owned(),
            line("SERVER_HANDSHAKE_TRAFFIC_SECRET", 9, 4),
        ]
        .concat();
        // Without a line end, and the rest of the connection's lines in another block.
        ring.add(text.trim_end().as_bytes());
        ring.add(line("CLIENT_TRAFFIC_SECRET_0", 9, 6).as_bytes());
        ring.add(line("SERVER_TRAFFIC_SECRET_0", 9, 7).as_bytes());
        let bytes = |secret: Option<Secret>| secret.map(|s| s.as_slice().to_vec());
        let nine = ring.look_up(&[9; 32]);
        assert_eq!(bytes(nine.client_handshake), Some(vec![1; 32]));
        assert_eq!(bytes(nine.server_handshake), Some(vec![4; 32]));
        assert_eq!(bytes(nine.client_application), Some(vec![6; 32]));
        assert_eq!(bytes(nine.server_application), Some(vec![7; 32]));
        assert!(nine.is_whole() && nine.client_early.is_none());
        let five = ring.look_up(&[5; 32]);
        assert_eq!(bytes(five.server_handshake), Some(vec![3; 32]));
        assert!(ring.look_up(&[1; 32]).client_handshake.is_none());
    }

    #[test]
    fn lines_of_a_connection_may_have_others_between_them() {
        for others in 0..20 {
            let other = format!("CLIENT_RANDOM {} {}\n", "07".repeat(32), "08".repeat(48));
            let text = [
                line("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 9, 1),
                line("SERVER_HANDSHAKE_TRAFFIC_SECRET", 9, 4),
                other.repeat(others),
                line("CLIENT_TRAFFIC_SECRET_0", 9, 6),
                line("SERVER_TRAFFIC_SECRET_0", 9, 7),
            ];
            let mut ring = Keyring::default();
            ring.add(text.concat().as_bytes());
            assert!(ring.look_up(&[9; 32]).is_whole(), "{others}");
            let places = ring.inside.map(|log| log.index.places.len());
            assert_eq!(places, Some(if others < 6 { 1 } else { 2 }), "{others}");
        }
    }

    #[test]
    fn many_blocks_in_a_capture_are_put_aside() {
        let mut ring = Keyring::default();
        let random = |n: u64| {
            [
                &n.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[..],
                &[7; 24],
            ]
            .concat()
        };
        let count = 30_000;
        for n in 0..count {
            let hex: String = random(n).iter().map(|b| format!("{b:02x}")).collect();
            let secret = format!("{n:064x}");
            let text = format!("CLIENT_TRAFFIC_SECRET_0 {hex} {secret}");
            ring.add(text.as_bytes());
        }
        let inside = ring.inside.as_ref().unwrap();
        assert!(matches!(inside.source, Source::File(_)));
        for n in [0, 1, 20_000, count - 1] {
            let found = ring.look_up(random(n)[..].try_into().unwrap());
            let secret = found.client_application.unwrap();
            assert_eq!(secret.as_slice()[24..], n.to_be_bytes());
        }
        assert!(ring.look_up(&[7; 32]).client_application.is_none());
    }

    #[test]
    fn the_log_beside_a_capture_has_its_name() {
        for (capture, keys) in [
            ("a/x.pcap", "a/x.keys"),
            ("x.pcapng", "x.keys"),
            ("x.pcap.zst", "x.keys"),
        ] {
            assert_eq!(beside(Path::new(capture)), Path::new(keys));
        }
    }
}
