//! TLS 1.3 for all connections of a run: what is offered, what is checked, where keys are logged.
//!
//! Nothing that the server shows ends a handshake: certificates and signatures are checked, and what is wrong
//! with them is noted. The handshake then goes on, because what is behind it is the measurement.

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

/// The group that the ClientHello has a key share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeyShare {
    X25519,
    X25519mlkem768,
}

impl KeyShare {
    /// Returns how many datagrams a ClientHello with it takes.
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
    None,
}

/// What ClientHellos to names without a configuration have of ECH.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Ech {
    None,
    Grease,
}

/// What is checked of a server's certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Verify {
    None,
    /// CertificateVerify: the server has the key of its certificate.
    Signature,
    /// The signature, and the chain up to a root.
    Chain,
}

/// What the checks of one connection found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// An OCSP response came with the certificate.
    pub ocsp: bool,
    /// Of CertificateVerify; `None`: not checked, or its key or scheme is not understood.
    pub signature_valid: Option<bool>,
}

/// Makes connections' TLS parts.
pub struct Tls {
    config: Arc<ClientConfig>,
    /// `config` has a GREASE extension.
    grease: bool,
    /// Of names with an ECH configuration, in place of `config`.
    with_ech: HashMap<String, Arc<ClientConfig>>,
    recorder: Arc<Recorder>,
    secrets: Arc<SecretLog>,
    resumes: bool,
}

/// The application protocol that requests are sent by.
pub const H3: &[u8] = b"h3";

impl Tls {
    /// Offers `key_share` first; checks what `verify` says; appends secrets to `keylog`, and keeps them for
    /// [`Self::take_secrets`] if the version of a connection may change.
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

    /// Offers these application protocols, in this order, and names the server only if `sni`.
    pub fn with_hello(mut self, alpn: &[String], sni: bool) -> Tls {
        let config = Arc::make_mut(&mut self.config);
        config.alpn_protocols = alpn.iter().map(|name| name.clone().into_bytes()).collect();
        config.enable_sni = sni;
        self
    }

    /// Offers ECH to the names that have configurations, and if it is to `grease` a GREASE extension to all
    /// others; everything else stays as it is.
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

    /// Returns what a ClientHello to `domain` has of ECH.
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

    /// Keeps tickets for a second connection with each target.
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

    /// Begins a connection of `version` to `domain`, or if that is empty to `ip` without a name, with these transport
    /// parameters. `resume`: where its tickets go, one of which it uses if there is one already, and whether
    /// it sends 0-RTT data then. Fails if TLS cannot ask for such a name.
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
                .map_err(|_| "no ClientHello can carry this name".to_owned())?
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
            .map_err(|e| format!("no ClientHello can be made: {e}"))
    }

    /// Returns what was found since the last call: handshake bytes of one connection are read at a time.
    pub fn take_note(&self) -> Note {
        std::mem::take(&mut *self.recorder.lock())
    }

    /// Returns the secrets made since the last call; `None`: no version may change.
    pub fn take_secrets(&self) -> Option<TrafficSecrets> {
        self.secrets.take()
    }
}

/// A configuration of TLS 1.3, with ECH in this mode.
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

/// The cipher suites offered. AES-128 first, as browsers do: servers mostly take the first, and its hash costs
/// a client half of SHA-384.
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

/// The groups offered, the one with a key share first.
fn groups(key_share: KeyShare) -> Vec<&'static dyn SupportedKxGroup> {
    use aws_lc_rs::kx_group::{SECP256R1, SECP384R1, X25519, X25519MLKEM768};
    match key_share {
        KeyShare::X25519 => vec![X25519, SECP256R1, SECP384R1],
        KeyShare::X25519mlkem768 => vec![X25519MLKEM768, X25519, SECP256R1, SECP384R1],
    }
}

/// Notes what the checks find, and never fails for it.
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
        // QUIC has no TLS 1.2 (RFC 9001 4.2).
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
