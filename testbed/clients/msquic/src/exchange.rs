//! An msquic connection and its streams. Callbacks run on threads of msquic and only send events to a channel.

use crate::certificate;
use crate::secrets::Secrets;
use firstflight_testbed_clients::Request;
use firstflight_testbed_clients::http::{ALPN, NO_ERROR, Sent};
use firstflight_testbed_clients::program::{CLOSING, Progress};
use msquic::ffi::QUIC_BUFFER;
use msquic::{
    Addr, Api, BufferRef, Configuration, Connection, ConnectionEvent, ConnectionRef,
    ConnectionShutdownFlags, CredentialConfig, CredentialFlags, PARAM_CONN_REMOTE_ADDRESS,
    PARAM_CONN_TLS_SECRETS, Registration, SendFlags, Settings, Status, StatusCode, Stream,
    StreamEvent, StreamOpenFlags, StreamRef, StreamStartFlags,
};
use std::ffi::c_void;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

/// The server's control stream and its two QPACK streams.
const SERVER_STREAMS: u16 = 3;
/// Maximum disconnect timeout of msquic, in ms.
const LONGEST_DISCONNECT: u128 = 600_000;

/// An event from a callback.
enum Event {
    Connected,
    Received(Vec<u8>),
    Finished,
    /// The connection or the stream failed; the reason is one sentence.
    Failed(String),
    /// The connection is closed; no event follows.
    Closed,
}

/// A connection and everything that msquic uses until it is closed. The order of the fields is the order of drops.
pub struct Exchange {
    streams: Vec<Stream>,
    connection: Connection,
    secrets: Secrets,
    /// Bytes to send on streams, each with the list of buffers that msquic points to.
    sent: Vec<(Vec<u8>, Box<[BufferRef; 1]>)>,
    _configuration: Configuration,
    reports: Sender<Event>,
    events: Receiver<Event>,
    until: Instant,
}

impl Exchange {
    /// Connects to the request's address. Connection and exchange together may take `patience`. Errors here are one
    /// sentence.
    pub fn begin(
        registration: &Registration,
        request: &Request,
        patience: Duration,
    ) -> Result<Self, String> {
        let until = Instant::now() + patience;
        let (reports, events) = channel();
        let configuration = configuration(registration, request, patience)?;
        // Before the connection, so that it outlives it.
        let secrets = Secrets::new();
        let connection =
            Connection::open(registration, handler(&reports, &request.host)).map_err(text)?;
        let address = Addr::from(request.address());
        // SAFETY: msquic copies the address; `Self` drops the secrets after the connection.
        unsafe {
            set(&connection, PARAM_CONN_REMOTE_ADDRESS, &raw const address)?;
            set(&connection, PARAM_CONN_TLS_SECRETS, secrets.room())?;
        }
        connection
            .start(&configuration, &request.host, request.port)
            .map_err(text)?;
        Ok(Self {
            streams: Vec::new(),
            connection,
            secrets,
            sent: Vec::new(),
            _configuration: configuration,
            reports,
            events,
            until,
        })
    }

    /// Exchanges the request; `None` if it exceeds the time limit.
    pub fn go_on(&mut self, sent: Sent, progress: &mut Progress) -> Option<Result<(), String>> {
        let mut sent = Some(sent);
        loop {
            let left = self.until.saturating_duration_since(Instant::now());
            let step = match self.events.recv_timeout(left) {
                Ok(Event::Connected) => {
                    progress.connected();
                    sent.take().map_or(Ok(()), |sent| self.ask(sent))
                }
                Ok(Event::Received(bytes)) => progress.received(&bytes),
                Ok(Event::Finished) => return Some(progress.finished()),
                Ok(Event::Failed(why)) => Err(why),
                Ok(Event::Closed) => Err("the connection is closed".to_owned()),
                Err(RecvTimeoutError::Timeout) => return None,
                Err(RecvTimeoutError::Disconnected) => Err("msquic is gone".to_owned()),
            };
            if let Err(why) = step {
                return Some(Err(why));
            }
        }
    }

    /// Closes the connection, waits until it is closed, and writes the secrets.
    pub fn close(self) -> Result<(), String> {
        let until = Instant::now() + CLOSING;
        self.connection
            .shutdown(ConnectionShutdownFlags::NONE, NO_ERROR.into());
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.events.recv_timeout(left) {
                Ok(Event::Closed) | Err(_) => break,
                Ok(_) => {}
            }
        }
        drop(self.streams);
        drop(self.connection);
        self.secrets.write()
    }

    /// Opens the control stream, which stays open, and the request stream.
    fn ask(&mut self, sent: Sent) -> Result<(), String> {
        let ignored = |_: StreamRef, _: StreamEvent<'_>| Ok(());
        self.send(
            sent.control,
            (StreamOpenFlags::UNIDIRECTIONAL, SendFlags::NONE),
            ignored,
        )?;
        let reports = self.reports.clone();
        let answered = move |_: StreamRef, event: StreamEvent<'_>| {
            let found = match event {
                StreamEvent::Receive { buffers, .. } => {
                    let parts: Vec<&[u8]> = buffers.iter().map(BufferRef::as_bytes).collect();
                    Some(Event::Received(parts.concat()))
                }
                StreamEvent::PeerSendShutdown => Some(Event::Finished),
                StreamEvent::PeerSendAborted { error_code } => Some(Event::Failed(format!(
                    "the server reset the stream: {error_code:#x}"
                ))),
                _ => None,
            };
            report(&reports, found)
        };
        self.send(
            sent.request,
            (StreamOpenFlags::NONE, SendFlags::FIN),
            answered,
        )
    }

    fn send(
        &mut self,
        bytes: Vec<u8>,
        (open, last): (StreamOpenFlags, SendFlags),
        handler: impl FnMut(StreamRef, StreamEvent<'_>) -> Result<(), Status> + 'static,
    ) -> Result<(), String> {
        let stream = Stream::open(&self.connection, open, handler).map_err(text)?;
        stream.start(StreamStartFlags::NONE).map_err(text)?;
        let buffers = Box::new([BufferRef::from(bytes.as_slice())]);
        // SAFETY: `self` drops bytes and buffers after the connection.
        unsafe { stream.send(&*buffers, last, std::ptr::null()) }.map_err(text)?;
        self.sent.push((bytes, buffers));
        self.streams.push(stream);
        Ok(())
    }
}

/// msquic's default settings, with the timeouts of the request.
fn configuration(
    registration: &Registration,
    request: &Request,
    patience: Duration,
) -> Result<Configuration, String> {
    let ms = u64::try_from(patience.as_millis()).map_err(text)?;
    let disconnect = patience.as_millis().min(LONGEST_DISCONNECT);
    let settings = Settings::new()
        .set_IdleTimeoutMs(ms)
        .set_HandshakeIdleTimeoutMs(ms)
        .set_DisconnectTimeoutMs(u32::try_from(disconnect).map_err(text)?)
        .set_PeerUnidiStreamCount(SERVER_STREAMS);
    let alpn = [BufferRef::from(ALPN)];
    let made = Configuration::open(registration, &alpn, Some(&settings)).map_err(text)?;
    let credential = CredentialConfig::new_client()
        .set_credential_flags(
            CredentialFlags::INDICATE_CERTIFICATE_RECEIVED
                | CredentialFlags::USE_PORTABLE_CERTIFICATES,
        )
        .set_ca_certificate_file(request.roots.clone());
    made.load_credential(&credential)
        .map_err(|error| format!("{}: {error}", request.roots))?;
    Ok(made)
}

/// The callback for events of the connection to the server `host`.
fn handler(
    reports: &Sender<Event>,
    host: &str,
) -> impl FnMut(ConnectionRef, ConnectionEvent<'_>) -> Result<(), Status> + 'static {
    let (reports, host) = (reports.clone(), host.to_owned());
    move |_, event| {
        let found = match event {
            ConnectionEvent::Connected { .. } => Some(Event::Connected),
            ConnectionEvent::PeerCertificateReceived { certificate, .. } => {
                // SAFETY: portable certificates are buffers with DER, valid until the callback returns.
                let buffer = unsafe { &*certificate.cast::<QUIC_BUFFER>() };
                let der = BufferRef::from_ffi_ref(buffer).as_bytes();
                if let Some(why) = certificate::why_not(der, &host) {
                    report(&reports, Some(Event::Failed(why)))?;
                    return Err(StatusCode::QUIC_STATUS_BAD_CERTIFICATE.into());
                }
                None
            }
            ConnectionEvent::ShutdownInitiatedByTransport { status, error_code } => Some(
                Event::Failed(format!("the connection ended: {status}, {error_code:#x}")),
            ),
            ConnectionEvent::ShutdownInitiatedByPeer { error_code } => {
                Some(Event::Failed(format!("the server closed: {error_code:#x}")))
            }
            ConnectionEvent::ShutdownComplete { .. } => Some(Event::Closed),
            ConnectionEvent::PeerStreamStarted { stream, .. } => {
                stream.set_callback_handler(ignored);
                None
            }
            _ => None,
        };
        report(&reports, found)
    }
}

/// Accepts a stream of the server without reading it, since no such stream carries the response.
fn ignored(stream: StreamRef, event: StreamEvent<'_>) -> Result<(), Status> {
    if let StreamEvent::ShutdownComplete { .. } = event {
        // SAFETY: it is the last event of this stream, and nothing else has its handle.
        drop(unsafe { Stream::from_raw(stream.as_raw()) });
    }
    Ok(())
}

fn report(reports: &Sender<Event>, found: Option<Event>) -> Result<(), Status> {
    if let Some(found) = found {
        // Fails if the request has finished: then the event does not matter.
        let _ = reports.send(found);
    }
    Ok(())
}

/// Sets a parameter for a connection.
///
/// # Safety
///
/// `value` must have the type that `parameter` requires, and live as long as msquic uses it.
unsafe fn set<T>(connection: &Connection, parameter: u32, value: *const T) -> Result<(), String> {
    let length = u32::try_from(size_of::<T>()).map_err(text)?;
    // SAFETY: the caller guarantees it.
    unsafe {
        Api::set_param(
            connection.as_raw(),
            parameter,
            length,
            value.cast::<c_void>(),
        )
    }
    .map_err(text)
}

/// Formats an error.
fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
