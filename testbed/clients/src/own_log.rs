//! The log (qlog) that a stack writes for a connection, as a file in the folder QLOGDIR.

use crate::own_tls::hex;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// A connection's log, in memory until the connection is closed.
#[derive(Clone)]
pub struct OwnLog {
    folder: Option<PathBuf>,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    odcid: String,
    text: Vec<u8>,
}

impl OwnLog {
    /// Creates a log; it is written only if QLOGDIR is set.
    pub fn new() -> Self {
        Self {
            folder: std::env::var_os("QLOGDIR").map(PathBuf::from),
            log: Arc::default(),
        }
    }

    /// Starts the log of the connection with the original destination connection ID `original`. Returns the writer for
    /// the stack, or `None` if QLOGDIR is not set.
    pub fn begin(&self, original: &[u8]) -> Option<Box<dyn Write + Send + Sync>> {
        self.folder.as_ref()?;
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        *log = Log {
            odcid: hex(original),
            text: Vec::new(),
        };
        Some(Box::new(Memory(self.log.clone())))
    }

    /// Writes the file ODCID_client.sqlog. Errors are one sentence.
    pub fn write(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let path = folder.join(format!("{}_client.sqlog", log.odcid));
        let text = with_connection(&log.text, &log.odcid)
            .ok_or("the beginning of the stack's log is not as expected")?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

impl Default for OwnLog {
    fn default() -> Self {
        Self::new()
    }
}

/// Adds the original destination connection ID to the first record, as `group_id` of the common fields: these stacks do
/// not log which connection a log belongs to. `None`: the record is not JSON-SEQ (RFC 7464), or already has a
/// `group_id`.
fn with_connection(text: &[u8], odcid: &str) -> Option<Vec<u8>> {
    let end = text.iter().position(|&byte| byte == b'\n')?;
    let mut header: serde_json::Value =
        serde_json::from_slice(text[..end].strip_prefix(b"\x1e")?).ok()?;
    let trace = header.get_mut("trace")?.as_object_mut()?;
    let common = trace
        .entry("common_fields")
        .or_insert_with(|| serde_json::json!({}));
    let named = common
        .as_object_mut()?
        .insert("group_id".to_owned(), odcid.into());
    if named.is_some() {
        return None;
    }
    let mut whole = vec![0x1e];
    serde_json::to_writer(&mut whole, &header).ok()?;
    whole.extend_from_slice(&text[end..]);
    Some(whole)
}

struct Memory(Arc<Mutex<Log>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.text.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn the_first_record_names_the_connection() {
        for (given, made) in [
            (json!({}), json!({"common_fields": {"group_id": "0a0b"}})),
            (
                json!({"title": "x", "common_fields": {"reference_time": 7}}),
                json!({"title": "x", "common_fields": {"reference_time": 7, "group_id": "0a0b"}}),
            ),
        ] {
            let log = format!("\x1e{}\n\x1e{{\"time\":1}}\n", json!({"trace": given}));
            let whole = with_connection(log.as_bytes(), "0a0b").expect("a log");
            let (first, others) = whole.split_at(
                whole
                    .iter()
                    .position(|&byte| byte == b'\n')
                    .expect("a line"),
            );
            assert_eq!(others, b"\n\x1e{\"time\":1}\n");
            let first: Value = serde_json::from_slice(&first[1..]).expect("JSON");
            assert_eq!(first, json!({"trace": made}));
        }
    }

    #[test]
    fn another_form_is_refused() {
        for log in [
            "",
            "{}\n",
            "\x1e{}\n",
            "\x1e{\"trace\":{\"common_fields\":7}}\n",
            "\x1e{\"trace\":{\"common_fields\":{\"group_id\":\"0a\"}}}\n",
            "\x1e{\"trace\":{}}",
        ] {
            assert_eq!(with_connection(log.as_bytes(), "0a"), None, "{log}");
        }
    }
}
