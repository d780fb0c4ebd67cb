//! Reads the names, one per line, in a separate thread during the run. A list of any length needs little memory,
//! and a slow pipe blocks nothing. Empty lines and comments (`#`) are skipped.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use firstflight_core::Failure;
use firstflight_core::host_name::fault_of_name;
use firstflight_core::lists::Rejected;

use crate::input::answered::Answered;
use crate::wire::name::Name;

/// Names per batch, and number of batches that can wait in the channel.
const BATCH: usize = 256;
const QUEUE: usize = 4;
/// Maximum number of bytes read from a line. The rest of a longer line is skipped, because no name is that long.
const LONGEST_LINE: u64 = 1024;

/// A name of the list.
#[derive(Debug)]
pub struct Listed {
    /// Line number, from 1.
    pub line: u32,
    /// The name as in the list.
    pub domain: String,
    pub name: Name,
}

/// A message from the thread.
#[derive(Debug, Default)]
struct Batch {
    names: Vec<Listed>,
    rejected: u64,
    resumed: u64,
    failure: Option<Failure>,
}

impl Batch {
    /// Replaces the names by a failure.
    fn refuse(&mut self, failure: Failure) {
        self.names.clear();
        self.failure = Some(failure);
    }
}

/// The engine's interface to the thread.
pub struct Names {
    batches: Receiver<Batch>,
    next: std::vec::IntoIter<Listed>,
    ended: bool,
    /// Number of lines to resolve if the list is a file, and number of names taken.
    lines: Option<u64>,
    taken: u64,
    /// Number of rejected lines, and of lines skipped because an earlier run answered them.
    pub rejected: u64,
    pub resumed: u64,
    failure: Option<Failure>,
}

impl Names {
    /// Reads the names of the command line.
    pub fn given(program: &'static str, names: &[String]) -> Result<Names, Failure> {
        let text = names.join("\n");
        let input = io::Cursor::new(text.into_bytes());
        let read = Names::start(program, input, "the names".into(), Answered::default(), 0)?;
        Ok(Names {
            lines: Some(names.len() as u64),
            ..read
        })
    }

    /// Starts to read `path` (`-`: standard input). `program` is the prefix of each message. Fails if a file is not
    /// the list of the run that wrote `answered`. For a pipe, no name is passed on before this check is complete.
    pub fn open(program: &'static str, path: &Path, answered: Answered) -> Result<Names, Failure> {
        let name = path.display().to_string();
        let unreadable =
            |e: io::Error| Failure::Input(format!("{name} cannot be read: {e}; nothing was sent"));
        if name == "-" {
            let hold = answered.last();
            return Names::start(
                program,
                io::stdin(),
                "standard input".into(),
                answered,
                hold,
            );
        }
        let mut file = File::open(path).map_err(unreadable)?;
        let kind = file.metadata().map_err(unreadable)?.file_type();
        if kind.is_dir() {
            return Err(unreadable(io::ErrorKind::IsADirectory.into()));
        }
        let lines = kind.is_file().then(|| count_lines(&mut file)).transpose();
        let lines = lines.map_err(unreadable)?;
        if lines.is_some() && answered.last() > 0 {
            let other = find_other(&mut file, &answered).map_err(unreadable)?;
            if let Some(line) = other {
                return Err(is_other(line, &name));
            }
        }
        let to_ask = lines.map(|lines| lines.saturating_sub(answered.count()));
        let hold = if lines.is_some() { 0 } else { answered.last() };
        let names = Names::start(program, file, name, answered, hold)?;
        Ok(Names {
            lines: to_ask,
            ..names
        })
    }

    /// Starts the thread. No name is passed on before line `hold` is read.
    fn start(
        program: &'static str,
        input: impl Read + Send + 'static,
        name: String,
        answered: Answered,
        hold: u32,
    ) -> Result<Names, Failure> {
        let (to, batches) = sync_channel(QUEUE);
        std::thread::Builder::new()
            .name("names".into())
            .spawn(move || read(program, input, &name, &answered, hold, &to))
            .map_err(|e| Failure::Usage(format!("no thread for reading names: {e}")))?;
        Ok(Names {
            batches,
            next: Vec::new().into_iter(),
            ended: false,
            lines: None,
            taken: 0,
            rejected: 0,
            resumed: 0,
            failure: None,
        })
    }

    /// Returns the next name if the thread has read one.
    pub fn next(&mut self) -> Option<Listed> {
        loop {
            if let Some(name) = self.next.next() {
                self.taken += 1;
                return Some(name);
            }
            match self.batches.try_recv() {
                Ok(batch) => self.take(batch),
                Err(TryRecvError::Empty) => return None,
                Err(TryRecvError::Disconnected) => {
                    self.ended = true;
                    return None;
                }
            }
        }
    }

    /// Waits for the next name for at most `longest`.
    pub fn wait(&mut self, longest: Duration) {
        if !self.next.as_slice().is_empty() {
            // A name is available, but the caller waits for something else.
            std::thread::sleep(longest.min(Duration::from_millis(10)));
            return;
        }
        match self.batches.recv_timeout(longest) {
            Ok(batch) => self.take(batch),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.ended = true,
        }
    }

    fn take(&mut self, batch: Batch) {
        self.rejected += batch.rejected;
        self.resumed += batch.resumed;
        self.failure = batch.failure.or(self.failure.take());
        self.next = batch.names.into_iter();
    }

    /// Returns whether all names were taken.
    pub fn is_ended(&self) -> bool {
        self.ended && self.next.as_slice().is_empty()
    }

    /// Returns the number of names that are not taken yet, if the list is a file. Empty lines count until the end
    /// of the list.
    pub fn remaining(&self) -> Option<u64> {
        let left = self.lines?.saturating_sub(self.taken + self.rejected);
        Some(if self.is_ended() { 0 } else { left })
    }

    /// Returns the failure if the list could not be read completely.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }
}

/// Counts a file's lines, and rewinds it.
fn count_lines(file: &mut File) -> io::Result<u64> {
    let (mut input, mut lines) = (BufReader::with_capacity(1 << 16, &mut *file), 0);
    while input.skip_until(b'\n')? > 0 {
        lines += 1;
    }
    file.rewind()?;
    Ok(lines)
}

/// Returns the first line that differs from the segments, and rewinds the file.
fn find_other(file: &mut File, answered: &Answered) -> io::Result<Option<u32>> {
    let mut input = BufReader::with_capacity(1 << 16, &mut *file);
    let (mut bytes, mut other) = (Vec::new(), None);
    for line in 1..=answered.last() {
        bytes.clear();
        if read_line(&mut input, &mut bytes)? == 0 {
            other = Some(answered.last());
            break;
        }
        if answered.contradicts(line, text_of(&bytes)) {
            other = Some(line);
            break;
        }
    }
    file.rewind()?;
    Ok(other)
}

fn is_other(line: u32, name: &str) -> Failure {
    Failure::Usage(format!(
        "--resume: line {line} of {name} differs from the list of the segments; give the list of the first run"
    ))
}

/// Returns a line's text as in the records.
fn text_of(bytes: &[u8]) -> &str {
    let text = std::str::from_utf8(bytes).unwrap_or("\u{fffd}");
    text.trim_start_matches('\u{feff}').trim()
}

/// Returns the name in a line, or the reason for rejecting the line.
fn name_of(text: &str) -> Result<Name, &'static str> {
    match fault_of_name(text) {
        Some(fault) => Err(fault),
        None => Name::from_text(text).ok_or("it is not a valid name for a question"),
    }
}

/// Reads lines until the end, or until the receiver is closed.
fn read(
    program: &str,
    input: impl Read,
    name: &str,
    answered: &Answered,
    hold: u32,
    to: &SyncSender<Batch>,
) {
    let mut input = BufReader::with_capacity(1 << 16, input);
    let (mut bytes, mut line) = (Vec::new(), 0_u32);
    let mut rejected = Rejected::new(program, name);
    let mut batch = Batch::default();
    loop {
        bytes.clear();
        match read_line(&mut input, &mut bytes) {
            Ok(0) => {
                if line < answered.last() {
                    batch.refuse(is_other(answered.last(), name));
                }
                break;
            }
            Ok(_) => {}
            Err(e) => {
                let why = format!(
                    "{name} cannot be read to its end: {e}; the names before the error are resolved"
                );
                if line < hold {
                    batch.names.clear();
                }
                batch.failure = Some(Failure::Input(why));
                break;
            }
        }
        let Some(next) = line.checked_add(1) else {
            batch.failure = Some(Failure::Input(format!(
                "{name} has too many lines: at most 4294967295 are possible"
            )));
            break;
        };
        line = next;
        let text = text_of(&bytes);
        if answered.contradicts(line, text) {
            batch.refuse(is_other(line, name));
            break;
        }
        match name_of(text) {
            _ if text.is_empty() || text.starts_with('#') => {}
            Ok(_) if answered.contains(line) => batch.resumed += 1,
            Ok(name) => batch.names.push(Listed {
                line,
                domain: text.to_owned(),
                name,
            }),
            Err(why) => {
                batch.rejected += 1;
                rejected.line(line, why);
            }
        }
        // Pass on the names from a pipe before waiting for more input, if the list is verified up to here.
        let is_due = batch.names.len() >= BATCH || input.buffer().is_empty();
        if is_due && line >= hold && to.send(std::mem::take(&mut batch)).is_err() {
            return;
        }
    }
    // This fails if the run has stopped. Nobody needs the batch then.
    let _ = to.send(batch);
}

/// Reads a line. Skips the rest of a line that is longer than [`LONGEST_LINE`]. Returns 0 at the end.
fn read_line(input: &mut impl BufRead, bytes: &mut Vec<u8>) -> io::Result<usize> {
    let read = input.by_ref().take(LONGEST_LINE).read_until(b'\n', bytes)?;
    if read as u64 == LONGEST_LINE && !bytes.ends_with(b"\n") {
        input.skip_until(b'\n')?;
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn all(text: &'static str, answered: Answered) -> (Vec<(u32, String)>, Names) {
        let hold = answered.last();
        let input = text.as_bytes();
        let mut names = Names::start("test", input, "list".into(), answered, hold).unwrap();
        let mut found = Vec::new();
        while !names.is_ended() {
            names.wait(Duration::from_secs(10));
            while let Some(listed) = names.next() {
                found.push((listed.line, listed.domain));
            }
        }
        (found, names)
    }

    #[test]
    fn lines_keep_their_numbers() {
        let (found, names) = all(
            "\u{feff}a.test\r\n\n b.test \nb..c\nA.test.",
            Answered::default(),
        );
        let expected = [(1, "a.test"), (3, "b.test"), (5, "A.test.")];
        assert_eq!(found, expected.map(|(line, text)| (line, text.to_owned())));
        assert_eq!((names.rejected, names.failure()), (1, None));
    }

    #[test]
    fn what_is_no_name_is_rejected_and_a_comment_is_not() {
        let (found, names) = all(
            "rank,domain\n1,a.test\nhttps://b.test/\nc.test:443\n192.0.2.1\n::1\n# comment\n\nd.test\n",
            Answered::default(),
        );
        assert_eq!((found, names.rejected), (vec![(9, "d.test".to_owned())], 6));
    }

    #[test]
    fn endless_lines_are_rejected() {
        let text: &'static str = format!("{}\nb\n{}", "a".repeat(100_000), "a".repeat(1024)).leak();
        let (found, names) = all(text, Answered::default());
        assert_eq!((found, names.rejected), (vec![(2, "b".to_owned())], 2));
    }

    #[test]
    fn answered_lines_are_left_out() {
        let mut answered = Answered::default();
        answered.set(1, true);
        answered.set(200, true);
        answered.set(2, true);
        answered.set(2, false);
        let (found, names) = all("a\nb\nc\n", answered);
        assert_eq!(found, [(2, "b".to_owned()), (3, "c".to_owned())]);
        assert_eq!(names.resumed, 1);
    }

    #[test]
    fn a_file_has_so_many_names_left() {
        let path = std::env::temp_dir().join(format!("names-{}", std::process::id()));
        std::fs::write(&path, "a\nb..c\n\nd\ne").unwrap();
        let mut answered = Answered::default();
        answered.set(4, true);
        let mut names = Names::open("test", &path, answered).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            names.remaining(),
            Some(4),
            "without the line that is answered"
        );
        let mut found = Vec::new();
        while !names.is_ended() {
            names.wait(Duration::from_secs(10));
            while let Some(listed) = names.next() {
                found.push((listed.line, names.remaining()));
            }
        }
        // One line is rejected. The empty line counts until the end.
        assert_eq!(found, [(1, Some(2)), (5, Some(1))]);
        assert_eq!(names.remaining(), Some(0));
    }

    #[test]
    fn how_many_names_a_pipe_has_is_not_known() {
        let (found, names) = all("a\n", Answered::default());
        assert_eq!((found.len(), names.remaining()), (1, None));
        let opened = Names::open("test", Path::new("/dev/null"), Answered::default());
        assert_eq!(opened.unwrap().remaining(), None);
    }

    #[test]
    fn another_list_than_that_of_the_segments_is_refused() {
        for (text, line) in [
            ("new\na\nb\nc\n", 1),
            ("a\nc\n", 2),
            ("a\n\nb\n", 2),
            ("a\n", 2),
        ] {
            let (found, names) = all(text, two_lines());
            let expected = |name: &str| {
                Some(Failure::Usage(format!(
                    "--resume: line {line} of {name} differs from the list of the segments; give the list of the \
                     first run"
                )))
            };
            assert_eq!(
                (found, names.failure()),
                (vec![], expected("list")),
                "{text}"
            );
            let path = std::env::temp_dir().join(format!("other-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            let opened = Names::open("test", &path, two_lines());
            let name = path.display().to_string();
            assert_eq!(opened.err(), expected(&name), "{text}");
            std::fs::write(&path, "a\nb\nnew\n").unwrap();
            let opened = Names::open("test", &path, two_lines()).unwrap();
            assert_eq!(opened.remaining(), Some(2), "read from its begin: {text}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// Returns the segments' record for a two-line list: `a` is answered, `b` is not.
    fn two_lines() -> Answered {
        let mut answered = Answered::default();
        answered.set(1, true);
        answered.note(1, "a");
        answered.note(2, "b");
        answered
    }

    #[test]
    fn names_of_a_pipe_wait_until_it_is_known_to_be_the_list() {
        let (input, mut pipe) = std::io::pipe().unwrap();
        let mut answered = two_lines();
        answered.note(3, "c");
        let mut names = Names::start("test", input, "list".into(), answered, 3).unwrap();
        pipe.write_all(b"a\nb\n").unwrap();
        names.wait(Duration::from_millis(20));
        assert!(names.next().is_none());
        pipe.write_all(b"c\n").unwrap();
        names.wait(Duration::from_secs(10));
        let found: Vec<u32> = std::iter::from_fn(|| names.next())
            .map(|name| name.line)
            .collect();
        assert_eq!(found, [2, 3]);
        pipe.write_all(b"d\n").unwrap();
        names.wait(Duration::from_secs(10));
        assert_eq!(names.next().map(|name| name.line), Some(4));
    }

    #[test]
    fn a_folder_is_no_list() {
        let opened = Names::open("test", Path::new("/"), Answered::default());
        assert!(matches!(opened, Err(Failure::Input(_))));
    }
}
