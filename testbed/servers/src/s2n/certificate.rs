//! TLS with a delayed certificate: rustls gets the ClientHello only after the delay. s2n-quic creates a session when
//! the ClientHello is complete.

use super::delay::Delay;
use s2n_quic::provider::tls::{Provider, rustls as s2n_rustls};
use s2n_quic_core::application::ServerName;
use s2n_quic_core::crypto::{CryptoSuite, tls};
use s2n_quic_core::transport;
use std::any::Any;
use std::convert::Infallible;
use std::fmt;
use std::task::Poll;
use std::time::Duration;

/// The TLS provider; its sessions answer after a delay, or immediately without one.
pub struct Late {
    inner: s2n_rustls::Server,
    delay: Option<Duration>,
}

impl Late {
    pub fn new(tls: rustls::ServerConfig, delay: Option<Duration>) -> Self {
        Self {
            inner: s2n_rustls::Server::from(tls),
            delay,
        }
    }
}

impl Provider for Late {
    type Server = Self;
    type Client = s2n_rustls::Client;
    type Error = Infallible;

    fn start_server(self) -> Result<Self, Infallible> {
        Ok(self)
    }

    fn start_client(self) -> Result<s2n_rustls::Client, Infallible> {
        Ok(s2n_rustls::Client::default())
    }
}

impl tls::Endpoint for Late {
    type Session = Session<<s2n_rustls::Server as tls::Endpoint>::Session>;

    fn new_server_session<P: s2n_codec::EncoderValue>(
        &mut self,
        parameters: &P,
        info: tls::ConnectionInfo,
    ) -> Self::Session {
        Session {
            inner: self.inner.new_server_session(parameters, info),
            delay: self.delay.map(Delay::new),
        }
    }

    fn new_client_session<P: s2n_codec::EncoderValue>(
        &mut self,
        parameters: &P,
        name: ServerName,
    ) -> Self::Session {
        Session {
            inner: self.inner.new_client_session(parameters, name),
            delay: None,
        }
    }

    fn max_tag_length(&self) -> usize {
        self.inner.max_tag_length()
    }
}

/// A session that does nothing until its delay expires.
pub struct Session<S> {
    inner: S,
    delay: Option<Delay>,
}

impl<S: fmt::Debug> fmt::Debug for Session<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl<S: tls::Session> tls::Session for Session<S> {
    fn poll<C: tls::Context<Self>>(
        &mut self,
        context: &mut C,
    ) -> Poll<Result<(), transport::Error>> {
        if let Some(delay) = &self.delay {
            if !delay.is_due(context.waker()) {
                return Poll::Pending;
            }
            self.delay = None;
        }
        self.inner.poll(&mut Inner(context))
    }
}

impl<S: CryptoSuite> CryptoSuite for Session<S> {
    type HandshakeKey = S::HandshakeKey;
    type HandshakeHeaderKey = S::HandshakeHeaderKey;
    type InitialKey = S::InitialKey;
    type InitialHeaderKey = S::InitialHeaderKey;
    type ZeroRttKey = S::ZeroRttKey;
    type ZeroRttHeaderKey = S::ZeroRttHeaderKey;
    type OneRttKey = S::OneRttKey;
    type OneRttHeaderKey = S::OneRttHeaderKey;
    type RetryKey = S::RetryKey;
}

/// Adapts the context of a [`Session`] for the inner session.
struct Inner<'a, C>(&'a mut C);

impl<S: tls::Session, C: tls::Context<Session<S>>> tls::Context<S> for Inner<'_, C> {
    fn on_client_application_params(
        &mut self,
        client: tls::ApplicationParameters,
        server: &mut Vec<u8>,
    ) -> Result<(), transport::Error> {
        self.0.on_client_application_params(client, server)
    }

    fn on_handshake_keys(
        &mut self,
        key: S::HandshakeKey,
        header: S::HandshakeHeaderKey,
    ) -> Result<(), transport::Error> {
        self.0.on_handshake_keys(key, header)
    }

    fn on_zero_rtt_keys(
        &mut self,
        key: S::ZeroRttKey,
        header: S::ZeroRttHeaderKey,
        parameters: tls::ApplicationParameters,
    ) -> Result<(), transport::Error> {
        self.0.on_zero_rtt_keys(key, header, parameters)
    }

    fn on_one_rtt_keys(
        &mut self,
        key: S::OneRttKey,
        header: S::OneRttHeaderKey,
        parameters: tls::ApplicationParameters,
    ) -> Result<(), transport::Error> {
        self.0.on_one_rtt_keys(key, header, parameters)
    }

    fn on_server_name(&mut self, name: ServerName) -> Result<(), transport::Error> {
        self.0.on_server_name(name)
    }

    fn on_application_protocol(&mut self, protocol: tls::Bytes) -> Result<(), transport::Error> {
        self.0.on_application_protocol(protocol)
    }

    fn on_key_exchange_group(&mut self, group: tls::NamedGroup) -> Result<(), transport::Error> {
        self.0.on_key_exchange_group(group)
    }

    fn on_handshake_complete(&mut self) -> Result<(), transport::Error> {
        self.0.on_handshake_complete()
    }

    fn on_tls_context(&mut self, context: Box<dyn Any + Send>) {
        self.0.on_tls_context(context);
    }

    fn on_tls_exporter_ready(
        &mut self,
        session: &impl tls::TlsSession,
    ) -> Result<(), transport::Error> {
        self.0.on_tls_exporter_ready(session)
    }

    fn on_tls_handshake_failed(
        &mut self,
        session: &impl tls::TlsSession,
        error: Box<dyn std::error::Error + Send + Sync + 'static>,
    ) -> Result<(), transport::Error> {
        self.0.on_tls_handshake_failed(session, error)
    }

    fn receive_initial(&mut self, most: Option<usize>) -> Option<tls::Bytes> {
        self.0.receive_initial(most)
    }

    fn receive_handshake(&mut self, most: Option<usize>) -> Option<tls::Bytes> {
        self.0.receive_handshake(most)
    }

    fn receive_application(&mut self, most: Option<usize>) -> Option<tls::Bytes> {
        self.0.receive_application(most)
    }

    fn can_send_initial(&self) -> bool {
        self.0.can_send_initial()
    }

    fn send_initial(&mut self, bytes: tls::Bytes) {
        self.0.send_initial(bytes);
    }

    fn can_send_handshake(&self) -> bool {
        self.0.can_send_handshake()
    }

    fn send_handshake(&mut self, bytes: tls::Bytes) {
        self.0.send_handshake(bytes);
    }

    fn can_send_application(&self) -> bool {
        self.0.can_send_application()
    }

    fn send_application(&mut self, bytes: tls::Bytes) {
        self.0.send_application(bytes);
    }

    fn waker(&self) -> &std::task::Waker {
        self.0.waker()
    }
}
