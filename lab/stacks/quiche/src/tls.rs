//! BoringSSL with two points where a handshake can pause: before any answer (the select-certificate callback), and
//! before the signature of the certificate (the private key operation).

use boring::error::ErrorStack;
use boring::ex_data::Index;
use boring::hash::MessageDigest;
use boring::pkey::{PKey, Private};
use boring::rsa::Padding;
use boring::sign::{RsaPssSaltlen, Signer};
use boring::ssl::{
    ClientHello, NameType, PrivateKeyMethod, PrivateKeyMethodError, SelectCertError, Ssl,
    SslContextBuilder, SslMethod, SslOptions, SslRef, SslSignatureAlgorithm,
};
use boring::x509::X509;
use firstflight_listener::CertificateFiles;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far a handshake may continue during a call of quiche, and the data from the ClientHello. quiche resumes the
/// handshake in every call and cannot pass a context to the callbacks, so the server sets this before each call.
#[derive(Debug, Clone, Default)]
pub struct HandshakeProgress {
    pub allowed: Allowed,
    pub certificate: usize,
    pub other_group_only: bool,
    /// Whether the ClientHello is complete.
    pub hello_seen: bool,
    pub sni: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Allowed {
    #[default]
    Nothing,
    ServerHello,
    All,
}

/// The progress, shared with the callbacks. One thread uses it; BoringSSL's types require the lock.
#[derive(Clone, Default)]
pub struct SharedProgress(Arc<Mutex<HandshakeProgress>>);

impl SharedProgress {
    pub fn lock(&self) -> MutexGuard<'_, HandshakeProgress> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A certificate chain, leaf first, with its key.
struct Identity {
    leaf: X509,
    chain: Vec<X509>,
    key: PKey<Private>,
}

impl Identity {
    fn read(name: &str, files: &CertificateFiles) -> Result<Self, String> {
        let read = |file: &std::path::Path| {
            std::fs::read(file).map_err(|error| {
                format!(
                    "certificate {name}: {} cannot be read: {error}",
                    file.display()
                )
            })
        };
        let bad = |what: &str, file: &std::path::Path| {
            format!("certificate {name}: {} holds no {what}", file.display())
        };
        let mut chain = X509::stack_from_pem(&read(&files.chain)?)
            .map_err(|_| bad("certificates", &files.chain))?;
        let key = PKey::private_key_from_pem(&read(&files.key)?)
            .map_err(|_| bad("private key", &files.key))?;
        if chain.is_empty() {
            return Err(bad("certificates", &files.chain));
        }
        let leaf = chain.remove(0);
        Ok(Self { leaf, chain, key })
    }
}

/// Returns the TLS context for a quiche configuration with these certificates, controlled by `progress`.
pub fn context<'a>(
    certificates: impl Iterator<Item = (&'a String, &'a CertificateFiles)>,
    progress: &SharedProgress,
) -> Result<SslContextBuilder, String> {
    let identities = certificates
        .map(|(name, files)| Identity::read(name, files))
        .collect::<Result<Vec<_>, _>>()?;
    let identities = Arc::new(identities);
    let build = || -> Result<SslContextBuilder, ErrorStack> {
        let mut builder = SslContextBuilder::new(SslMethod::tls())?;
        builder.set_options(SslOptions::NO_TICKET);
        builder.set_private_key_method(HeldKey {
            identities: Arc::clone(&identities),
            progress: progress.clone(),
            signature: Ssl::new_ex_index()?,
        });
        let (identities, progress) = (Arc::clone(&identities), progress.clone());
        builder.set_select_certificate_callback(move |hello| select(hello, &identities, &progress));
        Ok(builder)
    };
    build().map_err(|error| format!("BoringSSL cannot be set up: {error}"))
}

fn select(
    mut hello: ClientHello<'_>,
    identities: &[Identity],
    progress: &SharedProgress,
) -> Result<(), SelectCertError> {
    let mut progress = progress.lock();
    progress.hello_seen = true;
    progress.sni = hello.servername(NameType::HOST_NAME).map(str::to_owned);
    if progress.allowed == Allowed::Nothing {
        return Err(SelectCertError::RETRY);
    }
    let identity = identities
        .get(progress.certificate)
        .ok_or(SelectCertError::ERROR)?;
    let configure = |ssl: &mut SslRef| -> Result<(), ErrorStack> {
        ssl.set_certificate(&identity.leaf)?;
        for certificate in &identity.chain {
            ssl.add_chain_cert(certificate)?;
        }
        if progress.other_group_only {
            ssl.set_curves_list("P-384")?;
        }
        Ok(())
    };
    configure(hello.ssl_mut()).map_err(|_| SelectCertError::ERROR)
}

/// A private key that signs immediately, and returns the signature when the progress allows it.
struct HeldKey {
    identities: Arc<Vec<Identity>>,
    progress: SharedProgress,
    signature: Index<Ssl, Vec<u8>>,
}

impl HeldKey {
    fn hand_out(signature: &[u8], output: &mut [u8]) -> Result<usize, PrivateKeyMethodError> {
        let room = output
            .get_mut(..signature.len())
            .ok_or(PrivateKeyMethodError::FAILURE)?;
        room.copy_from_slice(signature);
        Ok(signature.len())
    }
}

impl PrivateKeyMethod for HeldKey {
    fn sign(
        &self,
        ssl: &mut SslRef,
        input: &[u8],
        algorithm: SslSignatureAlgorithm,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        // These two match the keys of the leaves (lab/hosts/certificates.py).
        let pss = algorithm == SslSignatureAlgorithm::RSA_PSS_RSAE_SHA256;
        if !pss && algorithm != SslSignatureAlgorithm::ECDSA_SECP256R1_SHA256 {
            return Err(PrivateKeyMethodError::FAILURE);
        }
        let progress = self.progress.lock();
        let identity = self
            .identities
            .get(progress.certificate)
            .ok_or(PrivateKeyMethodError::FAILURE)?;
        let signature = Signer::new(MessageDigest::sha256(), &identity.key)
            .and_then(|mut signer| {
                if pss {
                    signer.set_rsa_padding(Padding::PKCS1_PSS)?;
                    signer.set_rsa_pss_saltlen(RsaPssSaltlen::DIGEST_LENGTH)?;
                }
                signer.sign_oneshot_to_vec(input)
            })
            .map_err(|_| PrivateKeyMethodError::FAILURE)?;
        if progress.allowed == Allowed::All {
            return Self::hand_out(&signature, output);
        }
        ssl.set_ex_data(self.signature, signature);
        Err(PrivateKeyMethodError::RETRY)
    }

    fn decrypt(
        &self,
        _: &mut SslRef,
        _: &[u8],
        _: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        // Only for RSA key exchange, which does not exist in TLS 1.3.
        Err(PrivateKeyMethodError::FAILURE)
    }

    fn complete(
        &self,
        ssl: &mut SslRef,
        output: &mut [u8],
    ) -> Result<usize, PrivateKeyMethodError> {
        if self.progress.lock().allowed != Allowed::All {
            return Err(PrivateKeyMethodError::RETRY);
        }
        let signature = ssl
            .ex_data(self.signature)
            .ok_or(PrivateKeyMethodError::FAILURE)?;
        Self::hand_out(signature, output)
    }
}
