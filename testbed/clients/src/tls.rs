//! TLS 1.3 by rustls with ring, and the secrets of each connection in the file that SSLKEYLOGFILE names.

use crate::http::ALPN;
use firstflight_contract::Request;
use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, KeyLogFile, RootCertStore};
use std::sync::Arc;

/// The configuration of one connection, without resumption; errors are one sentence.
pub fn config(request: &Request) -> Result<ClientConfig, String> {
    crate::verifies(request)?;
    let unreadable = |error: &dyn std::fmt::Display| format!("{}: {error}", request.roots);
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_file_iter(&request.roots).map_err(|error| unreadable(&error))? {
        let root = root.map_err(|error| unreadable(&error))?;
        roots.add(root).map_err(|error| unreadable(&error))?;
    }
    let mut made = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    made.alpn_protocols = vec![ALPN.to_vec()];
    made.key_log = Arc::new(KeyLogFile::new());
    made.resumption = Resumption::disabled();
    // The default of rustls; another program of the workspace enables its compression feature.
    made.cert_compressors = Vec::new();
    made.cert_decompressors = Vec::new();
    Ok(made)
}
