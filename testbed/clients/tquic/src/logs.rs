//! tquic's own log of a connection, in the folder QLOGDIR.

use firstflight_testbed_clients::own_tls::hex;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tquic::Connection;

/// A connection's log, in memory until the connection is closed.
#[derive(Clone)]
pub struct Qlog {
    folder: Option<PathBuf>,
    log: Arc<Mutex<Log>>,
}

#[derive(Default)]
struct Log {
    odcid: String,
    text: Vec<u8>,
}

impl Qlog {
    /// A log that is written if the environment names a folder for it.
    pub fn new() -> Self {
        Self {
            folder: std::env::var_os("QLOGDIR").map(PathBuf::from),
            log: Arc::default(),
        }
    }

    /// Begins the log of a new connection. An error is one sentence.
    pub fn start(&self, connection: &mut Connection) -> Result<(), String> {
        if self.folder.is_none() {
            return Ok(());
        }
        let original = connection.dcid().map_err(|error| error.to_string())?;
        let odcid = hex(&original);
        self.log
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .odcid = odcid;
        connection.set_qlog(
            Box::new(Memory(self.log.clone())),
            "firstflight-tquic-client".to_owned(),
            String::new(),
        );
        Ok(())
    }

    /// Writes the file ODCID_client.sqlog. An error is one sentence.
    pub fn write(&self) -> Result<(), String> {
        let Some(folder) = &self.folder else {
            return Ok(());
        };
        let log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        let path = folder.join(format!("{}_client.sqlog", log.odcid));
        let text = with_connection(&log.text, &log.odcid)
            .ok_or("the beginning of tquic's log is not as expected")?;
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
    }
}

/// Enters the original destination connection ID into the first record, as `group_id` of the common fields: tquic
/// leaves out which connection its log is of. None: that record is no JSON-SEQ (RFC 7464), or has common fields.
fn with_connection(text: &[u8], odcid: &str) -> Option<Vec<u8>> {
    let end = text.iter().position(|&byte| byte == b'\n')?;
    let mut header: serde_json::Value =
        serde_json::from_slice(text[..end].strip_prefix(b"\x1e")?).ok()?;
    let trace = header.get_mut("trace")?.as_object_mut()?;
    let fields = serde_json::json!({ "group_id": odcid });
    if trace.insert("common_fields".to_owned(), fields).is_some() {
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

    #[test]
    fn the_first_record_names_the_connection() {
        let log = b"\x1e{\"qlog_version\":\"0.4\",\"trace\":{\"vantage_point\":{\"type\":\"client\"}}}\n\x1e{\"time\":1}\n";
        let made = with_connection(log, "0a0b").expect("a log");
        let text = String::from_utf8(made).expect("text");
        assert_eq!(
            text,
            "\x1e{\"qlog_version\":\"0.4\",\"trace\":{\"vantage_point\":{\"type\":\"client\"},\
             \"common_fields\":{\"group_id\":\"0a0b\"}}}\n\x1e{\"time\":1}\n"
        );
    }

    #[test]
    fn another_form_is_refused() {
        for log in [
            "",
            "{}\n",
            "\x1e{}\n",
            "\x1e{\"trace\":{\"common_fields\":{}}}\n",
            "\x1e{\"trace\":{}}",
        ] {
            assert_eq!(with_connection(log.as_bytes(), "0a"), None, "{log}");
        }
    }
}
