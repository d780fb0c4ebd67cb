//! TLS 1.3 by rustls with ring, with one certificate and no tickets.

use crate::behaviour::PROTOCOL;
use firstflight_listener::CertificateFiles;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::sync::Arc;

/// Reads the certificate; errors are one sentence.
pub fn config(files: &CertificateFiles) -> Result<ServerConfig, String> {
    let unreadable = |file: &std::path::Path, error: &dyn std::fmt::Display| {
        format!("{}: {error}", file.display())
    };
    let chain = CertificateDer::pem_file_iter(&files.chain)
        .and_then(Iterator::collect)
        .map_err(|error| unreadable(&files.chain, &error))?;
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unreadable(&files.key, &error))?;
    let mut made = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| unreadable(&files.chain, &error))?;
    made.alpn_protocols = vec![PROTOCOL.as_bytes().to_vec()];
    made.send_tls13_tickets = 0;
    // No compression, so that the chain has the cell's length, whatever features other programs enable in rustls.
    made.cert_compressors = Vec::new();
    made.cert_decompressors = Vec::new();
    Ok(made)
}
