//! A log of the sender for the testbed: the launch time of each datagram, and the congestion window.

use firstflight_listener::DATAGRAM_BYTES;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// Length of a packet's authentication tag. Its last bytes identify a datagram in a capture.
const TAG_BYTES: usize = 16;

/// One file for all connections, with a JSON line for each datagram and for each change to a window. Times are
/// existing `Instant`s, because reading a guest's clock takes time and would change the measurement.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Open>>);

struct Open {
    out: BufWriter<Box<dyn Write + Send>>,
    /// The same moment on both clocks.
    started: (Instant, u128),
}

impl Log {
    /// Creates the file. Errors are sentences for display.
    pub fn create(path: &Path) -> Result<Self, String> {
        let file = File::create(path)
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = since.map_or(0, |since| since.as_nanos());
        Ok(Self::into(Box::new(file), (Instant::now(), now_ns)))
    }

    fn into(out: Box<dyn Write + Send>, started: (Instant, u128)) -> Self {
        let out = BufWriter::with_capacity(64 * DATAGRAM_BYTES, out);
        Self(Arc::new(Mutex::new(Open { out, started })))
    }

    /// Logs a datagram with launch time `at`.
    pub fn datagram(&self, at: Instant, datagram: &[u8]) {
        let tag: String = datagram[datagram.len().saturating_sub(TAG_BYTES)..]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        self.line(at, &format!("\"tag\":\"{tag}\""));
    }

    /// Logs a connection's new window or lost packets since `at`. `lost` counts from the start of the connection.
    pub fn window(&self, at: Instant, bytes: usize, lost: usize) {
        self.line(at, &format!("\"window_bytes\":{bytes},\"lost\":{lost}"));
    }

    /// Writes the buffered lines, because the server will be killed.
    pub fn flush(&self) {
        let _ = self.open().out.flush();
    }

    fn line(&self, at: Instant, rest: &str) {
        let mut open = self.open();
        let (started, started_ns) = open.started;
        let since = at.saturating_duration_since(started).as_nanos();
        let before = started.saturating_duration_since(at).as_nanos();
        let time_ns = started_ns + since - before;
        // After an error, the log is too short, and the reader notices that.
        let _ = writeln!(open.out, "{{\"time_ns\":{time_ns},{rest}}}");
    }

    fn open(&self) -> std::sync::MutexGuard<'_, Open> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_the_time_by_the_clock_that_captures_have() {
        let (kept, started) = (Kept::default(), Instant::now());
        let log = Log::into(Box::new(kept.clone()), (started, 1_000_000));
        let datagram: Vec<u8> = (0..20).collect();
        log.datagram(started + Duration::from_nanos(5), &datagram);
        log.window(started, 12_000, 3);
        // The datagram is shorter than a tag.
        log.datagram(started, &[255]);
        assert!(kept.0.lock().unwrap().is_empty());
        log.flush();
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        assert_eq!(
            text.lines().collect::<Vec<_>>(),
            [
                "{\"time_ns\":1000005,\"tag\":\"0405060708090a0b0c0d0e0f10111213\"}",
                "{\"time_ns\":1000000,\"window_bytes\":12000,\"lost\":3}",
                "{\"time_ns\":1000000,\"tag\":\"ff\"}",
            ]
        );
    }

    #[test]
    fn a_time_before_the_beginning_is_one() {
        let (kept, started) = (Kept::default(), Instant::now() + Duration::from_secs(1));
        let log = Log::into(Box::new(kept.clone()), (started, 1_000_000));
        log.window(started - Duration::from_nanos(7), 1, 0);
        log.flush();
        assert!(
            String::from_utf8(kept.0.lock().unwrap().clone())
                .unwrap()
                .contains("999993")
        );
    }
}
