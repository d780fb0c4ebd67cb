//! Reads plain captures and captures compressed with gzip (RFC 1952) or Zstandard (RFC 8878). The first bytes determine
//! the format.

use std::io::{self, BufReader, Cursor, Read};
use std::sync::{Arc, Mutex, PoisonError};

use flate2::bufread::MultiGzDecoder;

const GZIP: [u8; 2] = [0x1f, 0x8b];
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Skippable frames, which tools such as pzstd write first. The lowest four bits are variable.
const ZSTD_SKIPPABLE: [u8; 3] = [0x2a, 0x4d, 0x18];
/// Magic numbers of unsupported compressors, and their names.
const OTHERS: [(&[u8], &str); 3] = [
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x04\x22\x4d\x18", "lz4"),
];
/// Compressed bytes read at a time.
const BUFFER: usize = 1 << 16;

/// Largest window of Zstandard, as a power of 2, because the window is kept in memory. `zstd -20` and above, and
/// `--long`, use larger ones.
const WINDOW_LOG: u32 = 26;

/// The bytes of `source`, decompressed if they are compressed.
pub fn plain(mut source: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    let mut magic = Vec::with_capacity(6);
    source.by_ref().take(6).read_to_end(&mut magic)?;
    let is_skippable = magic.first().is_some_and(|first| first & 0xf0 == 0x50)
        && magic.get(1..4) == Some(&ZSTD_SKIPPABLE);
    let is_zstd = is_skippable || magic.starts_with(&ZSTD);
    let is_gzip = magic.starts_with(&GZIP);
    if let Some((_, name)) = OTHERS.iter().find(|(begin, _)| magic.starts_with(begin)) {
        return Err(io::Error::other(format!(
            "it is compressed by {name}: decompress it first"
        )));
    }
    let whole = Cursor::new(magic).chain(source);
    if is_zstd {
        let mut decoder = zstd::Decoder::new(whole)?;
        decoder.window_log_max(WINDOW_LOG)?;
        return Ok(Box::new(decoder));
    }
    if is_gzip {
        return Ok(Box::new(MultiGzDecoder::new(BufReader::with_capacity(
            BUFFER, whole,
        ))));
    }
    Ok(Box::new(whole))
}

/// The library's message, with advice if the window is too large.
fn in_words(error: &io::Error) -> String {
    let message = error.to_string();
    if message.contains("too much memory") {
        format!(
            "its Zstandard window is larger than {} MiB: decompress it first",
            (1u64 << WINDOW_LOG) >> 20
        )
    } else {
        message
    }
}

/// Reports a read error as the end of input, and keeps the reason. All data before the error is used.
pub(super) struct UntilError<R> {
    inner: R,
    reason: Arc<Mutex<Option<String>>>,
}

/// The reason why an [`UntilError`] stopped.
pub(super) struct Reason(Arc<Mutex<Option<String>>>);

impl Reason {
    /// `None` if the input is complete.
    pub(super) fn get(&self) -> Option<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

impl<R: Read> UntilError<R> {
    pub(super) fn new(inner: R) -> (UntilError<R>, Reason) {
        let reason = Arc::new(Mutex::new(None));
        let seen = Reason(Arc::clone(&reason));
        (UntilError { inner, reason }, seen)
    }
}

impl<R: Read> Read for UntilError<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let mut reason = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if reason.is_some() {
            return Ok(0);
        }
        match self.inner.read(buf) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => {
                *reason = Some(in_words(&error));
                Ok(0)
            }
            other => other,
        }
    }
}
