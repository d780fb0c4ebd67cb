//! TLS 1.3 for all connections in a run: the offered parameters, the certificate checks and the key log.
//!
//! A failed check never aborts the handshake. Certificates and signatures are checked, and failures are recorded. The
//! handshake continues, because the measurement needs the later messages.

mod ech;
mod secrets;
mod tickets;

use std::collections::HashMap;
use std::fs::File;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ValueEnum;
pub use ech::{EchConfigs, EchOffer};
use firstflight_certificates::has_signed;
use firstflight_core::Failure;
use rustls::client::EchMode;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConfig, Resumption};
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::quic::{ClientConnection, Version};
use rustls::{DigitallySignedStruct, Error, SignatureScheme, SupportedCipherSuite};
use secrets::SecretLog;
pub use secrets::TrafficSecrets;
pub use tickets::Tickets;

/// The group of the key share in the ClientHello.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyShare {
    X25519,
    X25519mlkem768,
}

impl KeyShare {
    /// Returns the number of datagrams for a ClientHello with this key share.
    pub fn hello_datagrams(self) -> u64 {
        match self {
            KeyShare::X25519 => 1,
            KeyShare::X25519mlkem768 => 2,
        }
    }
}

/// Whether ClientHellos name the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sni {
    /// The name of the target, if it has one.
    Target,
    /// No name.
    None,
}

/// The ECH extension of ClientHellos to names without an ECH configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ech {
    None,
    Grease,
}

/// The checks on a server's certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    None,
    /// CertificateVerify: the server has the private key of the certificate.
    Signature,
    /// The signature, and the chain up to a root.
    Chain,
}

/// Results of the checks in a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// An OCSP response was stapled to the certificate.
    pub ocsp: bool,
    /// Result of CertificateVerify. `None`: not checked, or the key or the signature scheme is not supported.
    pub signature_valid: Option<bool>,
}

/// Creates the TLS side of connections.
pub struct Tls {
    config: Arc<ClientConfig>,
    /// `config` has a GREASE extension.
    grease: bool,
    /// Configurations for names with ECH. They replace `config`.
    with_ech: HashMap<String, Arc<ClientConfig>>,
    recorder: Arc<Recorder>,
    secrets: Arc<SecretLog>,
    resumes: bool,
}

/// The application protocol of requests.
pub const H3: &[u8] = b"h3";

impl Tls {
    /// Offers `key_share` first, and checks certificates according to `verify`. Appends secrets to `keylog`. If the
    /// version of a connection may change, also keeps the secrets for [`Self::take_secrets`].
    pub fn new(
        key_share: KeyShare,
        verify: Verify,
        keylog: Option<File>,
        version_may_change: bool,
    ) -> Result<Tls, Failure> {
        let provider = Arc::new(CryptoProvider {
            kx_groups: groups(key_share),
            cipher_suites: suites(),
            ..aws_lc_rs::default_provider()
        });
        let recorder = Arc::new(Recorder {
            provider,
            check: verify != Verify::None,
            note: Mutex::new(Note::default()),
        });
        let mut config = client_config(&recorder, None)?;
        config.alpn_protocols = vec![H3.to_vec()];
        config.resumption = Resumption::disabled();
        let logs = keylog.is_some() || version_may_change;
        let secrets = Arc::new(SecretLog::new(keylog, version_may_change));
        if logs {
            config.key_log = secrets.clone();
        }
        Ok(Tls {
            config: Arc::new(config),
            grease: false,
            with_ech: HashMap::new(),
            recorder,
            secrets,
            resumes: false,
        })
    }

    /// Offers these application protocols, in this order. Names the server only if `sni` is true.
    pub fn with_hello(mut self, alpn: &[String], sni: bool) -> Tls {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols = alpn.iter().map(|name| name.clone().into_bytes()).collect();
        config.enable_sni = sni;
        self
    }

    /// Offers ECH to the names that have configurations. If `grease` is true, offers a GREASE extension to all other
    /// names. Changes no other setting.
    pub fn with_ech(mut self, grease: bool, configs: EchConfigs) -> Result<Tls, Failure> {
        let make = |mode| -> Result<ClientConfig, Failure> {
            let mut config = client_config(&self.recorder, Some(mode))?;
            config.alpn_protocols = self.config.alpn_protocols.clone();
            config.enable_sni = self.config.enable_sni;
            config.key_log = self.config.key_log.clone();
            config.resumption = Resumption::disabled();
            Ok(config)
        };
        let with_ech = configs.of_names(make)?;
        let greased = grease
            .then(ech::grease)
            .transpose()?
            .map(make)
            .transpose()?;
        self.with_ech = with_ech;
        if let Some(config) = greased {
            self.config = Arc::new(config);
            self.grease = true;
        }
        Ok(self)
    }

    /// Returns the ECH extension for a ClientHello to `domain`.
    pub fn ech(&self, domain: &str) -> Option<EchOffer> {
        match self.config_with_ech(domain) {
            Some(_) => Some(EchOffer::Config),
            None => self.grease.then_some(EchOffer::Grease),
        }
    }

    fn config_with_ech(&self, domain: &str) -> Option<&Arc<ClientConfig>> {
        if self.with_ech.is_empty() {
            return None;
        }
        self.with_ech.get(&domain.to_ascii_lowercase())
    }

    /// Sets whether tickets are kept for a second connection to each target.
    pub fn with_tickets(mut self, resumes: bool) -> Tls {
        self.resumes = resumes;
        self
    }

    /// Returns whether tickets are kept.
    pub fn resumes(&self) -> bool {
        self.resumes
    }

    /// Returns whether ClientHellos name the server.
    pub fn names_server(&self) -> bool {
        self.config.enable_sni
    }

    /// Creates a TLS connection of `version` with these transport parameters. The server name is `domain`, or the
    /// address `ip` if `domain` is empty. `resume` has the store for tickets, and whether 0-RTT data may be sent. The
    /// connection uses a ticket if the store has one. Fails if TLS does not allow the name.
    pub fn begin(
        &self,
        version: Version,
        (domain, ip): (&str, IpAddr),
        parameters: Vec<u8>,
        resume: Option<(Arc<Tickets>, bool)>,
    ) -> Result<ClientConnection, String> {
        let name = if domain.is_empty() {
            ServerName::IpAddress(ip.into())
        } else {
            ServerName::try_from(domain.to_owned())
                .map_err(|_| "a ClientHello cannot contain this name".to_owned())?
        };
        let config = self.config_with_ech(domain).unwrap_or(&self.config);
        let config = match resume {
            None => config.clone(),
            Some((tickets, early_data)) => {
                let mut own = ClientConfig::clone(config);
                own.resumption = Resumption::store(tickets);
                own.enable_early_data = early_data;
                Arc::new(own)
            }
        };
        ClientConnection::new(config, version, name, parameters)
            .map_err(|e| format!("cannot make a ClientHello: {e}"))
    }

    /// Returns the results since the last call. Only one connection at a time reads handshake bytes.
    pub fn take_note(&self) -> Note {
        std::mem::take(&mut *self.recorder.lock())
    }

    /// Returns the secrets made since the last call, or `None` if no version may change.
    pub fn take_secrets(&self) -> Option<TrafficSecrets> {
        self.secrets.take()
    }
}

/// Returns a configuration for TLS 1.3 with this ECH mode.
fn client_config(recorder: &Arc<Recorder>, ech: Option<EchMode>) -> Result<ClientConfig, Failure> {
    let builder = ClientConfig::builder_with_provider(recorder.provider.clone());
    let builder = match ech {
        Some(mode) => builder.with_ech(mode),
        None => builder.with_protocol_versions(&[&rustls::version::TLS13]),
    };
    Ok(builder
        .map_err(|e| Failure::Usage(format!("TLS 1.3 is not available: {e}")))?
        .dangerous()
        .with_custom_certificate_verifier(recorder.clone())
        .with_no_client_auth())
}

/// The cipher suites offered. AES-128 is first, as in browsers. Most servers choose the first suite, and its hash costs
/// a client half as much as SHA-384.
fn suites() -> Vec<SupportedCipherSuite> {
    use aws_lc_rs::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    vec![
        TLS13_AES_128_GCM_SHA256,
        TLS13_AES_256_GCM_SHA384,
        TLS13_CHACHA20_POLY1305_SHA256,
    ]
}

/// The groups offered. The first one has the key share.
fn groups(key_share: KeyShare) -> Vec<&'static dyn SupportedKxGroup> {
    use aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
    match key_share {
        KeyShare::X25519 => vec![X25519, SECP256R1, SECP384R1],
        KeyShare::X25519mlkem768 => vec![X25519MLKEM768, X25519, SECP256R1, SECP384R1],
    }
}

/// Records the results of the checks, and never fails because of them.
#[derive(Debug)]
struct Recorder {
    provider: Arc<CryptoProvider>,
    check: bool,
    note: Mutex<Note>,
}

impl Recorder {
    fn lock(&self) -> std::sync::MutexGuard<'_, Note> {
        self.note.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.lock().ocsp = !ocsp_response.is_empty();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        // QUIC does not allow TLS 1.2 (RFC 9001 4.2).
        Err(Error::General("TLS 1.2".into()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if self.check {
            let scheme = u16::from(dss.scheme);
            self.lock().signature_valid = has_signed(cert, scheme, message, dss.signature());
        }
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let algorithms = &self.provider.signature_verification_algorithms;
        algorithms.supported_schemes()
    }
}
