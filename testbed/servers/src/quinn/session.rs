//! TLS sessions that withhold the ClientHello from rustls until the certificate is available.

use crate::hello;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::crypto::{
    ExportKeyingMaterialError, HeaderKey, KeyPair, Keys, PacketKey, ServerConfig, Session,
    UnsupportedVersion,
};
use quinn_proto::transport_parameters::TransportParameters;
use quinn_proto::{ConnectionId, Side, TransportError};
use std::any::Any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// State that a connection shares with its TLS session.
#[derive(Default)]
pub struct Certificate {
    has_hello: AtomicBool,
    is_there: AtomicBool,
}

impl Certificate {
    /// Returns whether the ClientHello is complete.
    pub fn has_hello(&self) -> bool {
        self.has_hello.load(Ordering::Relaxed)
    }

    /// Permits TLS to answer.
    pub fn arrive(&self) {
        self.is_there.store(true, Ordering::Relaxed);
    }
}

/// Creates rustls sessions.
pub struct Sessions {
    inner: Arc<QuicServerConfig>,
    /// Their certificates are available only after a delay.
    late: bool,
    newest: Mutex<Option<Arc<Certificate>>>,
}

impl Sessions {
    pub fn new(inner: QuicServerConfig, late: bool) -> Self {
        Self {
            inner: Arc::new(inner),
            late,
            newest: Mutex::new(None),
        }
    }

    /// Removes and returns the certificate state of the newest session.
    pub fn newest(&self) -> Option<Arc<Certificate>> {
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        newest.take()
    }
}

impl ServerConfig for Sessions {
    fn initial_keys(&self, version: u32, id: &ConnectionId) -> Result<Keys, UnsupportedVersion> {
        self.inner.initial_keys(version, id)
    }

    fn retry_tag(&self, version: u32, id: &ConnectionId, packet: &[u8]) -> [u8; 16] {
        self.inner.retry_tag(version, id, packet)
    }

    fn start_session(
        self: Arc<Self>,
        version: u32,
        parameters: &TransportParameters,
    ) -> Box<dyn Session> {
        let certificate = Arc::new(Certificate::default());
        if !self.late {
            certificate.arrive();
        }
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        *newest = Some(Arc::clone(&certificate));
        Box::new(LateSession {
            inner: Arc::clone(&self.inner).start_session(version, parameters),
            certificate,
            stream: Vec::new(),
            passed: 0,
        })
    }
}

struct LateSession {
    inner: Box<dyn Session>,
    certificate: Arc<Certificate>,
    /// The client's handshake bytes up to now; the first `passed` are with rustls.
    stream: Vec<u8>,
    passed: usize,
}

impl LateSession {
    /// Passes the waiting bytes to rustls, if the certificate is available.
    fn pass(&mut self) -> Result<bool, TransportError> {
        if !self.certificate.is_there.load(Ordering::Relaxed) || self.passed == self.stream.len() {
            return Ok(false);
        }
        let from = std::mem::replace(&mut self.passed, self.stream.len());
        self.inner.read_handshake(&self.stream[from..])
    }
}

impl Session for LateSession {
    fn read_handshake(&mut self, bytes: &[u8]) -> Result<bool, TransportError> {
        if self.certificate.has_hello() && self.passed == self.stream.len() {
            return self.inner.read_handshake(bytes);
        }
        self.stream.extend_from_slice(bytes);
        if hello::is_whole(&self.stream) {
            self.certificate.has_hello.store(true, Ordering::Relaxed);
        }
        self.pass()
    }

    fn write_handshake(&mut self, out: &mut Vec<u8>) -> Option<Keys> {
        // No alert can be sent from here, so the session stays unfinished and the client times out.
        self.pass().ok()?;
        self.inner.write_handshake(out)
    }

    fn initial_keys(&self, id: &ConnectionId, side: Side) -> Keys {
        self.inner.initial_keys(id, side)
    }

    fn handshake_data(&self) -> Option<Box<dyn Any>> {
        self.inner.handshake_data()
    }

    fn peer_identity(&self) -> Option<Box<dyn Any>> {
        self.inner.peer_identity()
    }

    fn early_crypto(&self) -> Option<(Box<dyn HeaderKey>, Box<dyn PacketKey>)> {
        self.inner.early_crypto()
    }

    fn early_data_accepted(&self) -> Option<bool> {
        self.inner.early_data_accepted()
    }

    fn is_handshaking(&self) -> bool {
        self.inner.is_handshaking()
    }

    fn transport_parameters(&self) -> Result<Option<TransportParameters>, TransportError> {
        self.inner.transport_parameters()
    }

    fn next_1rtt_keys(&mut self) -> Option<KeyPair<Box<dyn PacketKey>>> {
        self.inner.next_1rtt_keys()
    }

    fn is_valid_retry(&self, id: &ConnectionId, header: &[u8], payload: &[u8]) -> bool {
        self.inner.is_valid_retry(id, header, payload)
    }

    fn export_keying_material(
        &self,
        output: &mut [u8],
        label: &[u8],
        context: &[u8],
    ) -> Result<(), ExportKeyingMaterialError> {
        self.inner.export_keying_material(output, label, context)
    }
}
