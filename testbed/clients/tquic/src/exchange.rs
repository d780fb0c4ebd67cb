//! Callbacks for a connection: they send the request once the handshake is complete, and store the response.

use bytes::Bytes;
use firstflight_testbed_clients::http::Sent;
use firstflight_testbed_clients::own_log::OwnLog;
use firstflight_testbed_clients::own_tls;
use std::cell::RefCell;
use std::rc::Rc;
use tquic::error::ConnectionError;
use tquic::{Connection, Error, TransportHandler};

/// Events since the last call of `take`.
#[derive(Default)]
pub struct Happened {
    pub connected: bool,
    /// Bytes of the response stream.
    pub received: Vec<u8>,
    /// The response stream has finished.
    pub finished: bool,
    pub closed: bool,
    /// The reason why the exchange failed.
    pub failed: Option<String>,
}

/// A connection's request and progress.
pub struct Exchange {
    sent: Sent,
    stream: Option<u64>,
    log: OwnLog,
    happened: Rc<RefCell<Happened>>,
}

impl Exchange {
    pub fn new(sent: Sent, log: OwnLog, happened: Rc<RefCell<Happened>>) -> Self {
        Self {
            sent,
            stream: None,
            log,
            happened,
        }
    }

    /// Opens the control stream and the request stream.
    fn ask(&mut self, connection: &mut Connection) -> tquic::Result<()> {
        let control = connection.stream_uni_new(0, false)?;
        write(connection, control, &self.sent.control, false)?;
        let stream = connection.stream_bidi_new(0, false)?;
        write(connection, stream, &self.sent.request, true)?;
        self.stream = Some(stream);
        connection.stream_want_read(stream, true)
    }

    /// Reads a stream. Discards bytes of the server's own streams.
    fn take(&mut self, connection: &mut Connection, stream: u64) -> tquic::Result<()> {
        let mut room = [0; 16 << 10];
        loop {
            let (length, last) = match connection.stream_read(stream, &mut room) {
                Err(Error::Done) => return Ok(()),
                other => other?,
            };
            if self.stream == Some(stream) {
                let mut happened = self.happened.borrow_mut();
                happened.received.extend_from_slice(&room[..length]);
                happened.finished |= last;
            }
            if last {
                return Ok(());
            }
        }
    }

    fn fail(&self, result: tquic::Result<()>) {
        if let Err(error) = result {
            self.happened.borrow_mut().failed = Some(error.to_string());
        }
    }
}

impl TransportHandler for Exchange {
    fn on_conn_created(&mut self, connection: &mut Connection) {
        let started = own_tls::key_log().and_then(|keys| {
            if let Some(keys) = keys {
                connection.set_keylog(Box::new(keys));
            }
            let original = connection.dcid().map_err(|error| error.to_string())?;
            if let Some(log) = self.log.begin(&original) {
                connection.set_qlog(log, "firstflight-tquic-client".to_owned(), String::new());
            }
            Ok(())
        });
        if let Err(error) = started {
            self.happened.borrow_mut().failed = Some(error);
        }
    }

    fn on_conn_established(&mut self, connection: &mut Connection) {
        self.happened.borrow_mut().connected = true;
        let asked = self.ask(connection);
        self.fail(asked);
    }

    fn on_conn_closed(&mut self, connection: &mut Connection) {
        let mut happened = self.happened.borrow_mut();
        happened.closed = true;
        happened.failed = Some(why(connection));
    }

    fn on_stream_created(&mut self, _: &mut Connection, _: u64) {}

    fn on_stream_readable(&mut self, connection: &mut Connection, stream: u64) {
        let taken = self.take(connection, stream);
        if self.stream == Some(stream) {
            self.fail(taken);
        }
    }

    fn on_stream_writable(&mut self, connection: &mut Connection, stream: u64) {
        // Everything is written; otherwise tquic calls this every millisecond.
        let _ = connection.stream_want_write(stream, false);
    }

    fn on_stream_closed(&mut self, _: &mut Connection, _: u64) {}

    fn on_new_token(&mut self, _: &mut Connection, _: Vec<u8>) {}
}

/// Writes all bytes or fails. A server that does not accept the few hundred bytes in a request accepts no byte.
fn write(connection: &mut Connection, stream: u64, bytes: &[u8], last: bool) -> tquic::Result<()> {
    let written = connection.stream_write(stream, Bytes::copy_from_slice(bytes), last)?;
    if written < bytes.len() {
        return Err(Error::FlowControlError);
    }
    connection.stream_want_write(stream, false)
}

/// The reason why a connection is closed, in one sentence.
pub fn why(connection: &Connection) -> String {
    if let Some(error) = connection.peer_error() {
        format!("closed by the server: {}", named(error))
    } else if connection.is_reset() {
        "reset by the server".to_owned()
    } else if connection.is_handshake_timeout() || connection.is_idle_timeout() {
        "timed out".to_owned()
    } else if let Some(error) = connection.local_error() {
        format!("closed here: {}", named(error))
    } else {
        "closed".to_owned()
    }
}

/// The code of an error, of the transport (RFC 9000, section 20.1) or of HTTP/3, and the reason.
fn named(error: &ConnectionError) -> String {
    let layer = match error.is_app {
        true => "HTTP/3",
        false => "transport",
    };
    let reason = String::from_utf8_lossy(&error.reason);
    format!("{layer} error {:#x}, {:?}", error.error_code, reason)
}
