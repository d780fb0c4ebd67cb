//! A connection's secrets, as a key log (NSS's format), in the file that SSLKEYLOGFILE names.

use firstflight_testbed_clients::own_tls::{self, hex};
use msquic::ffi::QUIC_TLS_SECRETS;
use std::fmt::Write as _;
use std::io::Write as _;

/// Memory that msquic fills in until a connection is closed; it must outlive the connection.
pub struct Secrets(*mut QUIC_TLS_SECRETS);

impl Secrets {
    /// Allocates zeroed memory.
    pub fn new() -> Self {
        // SAFETY: all fields are numbers, for which zero is valid.
        Self(Box::into_raw(Box::new(unsafe { std::mem::zeroed() })))
    }

    /// The memory that msquic writes to.
    pub fn room(&self) -> *mut QUIC_TLS_SECRETS {
        self.0
    }

    /// Appends the known secrets to the file in SSLKEYLOGFILE, if set. The connection must be closed.
    pub fn write(&self) -> Result<(), String> {
        let Some(mut file) = own_tls::key_log()? else {
            return Ok(());
        };
        // SAFETY: the connection is closed, so msquic no longer writes to it.
        let text = lines(unsafe { &*self.0 });
        file.write_all(text.as_bytes())
            .map_err(|error| format!("SSLKEYLOGFILE: {error}"))
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        // SAFETY: `new` allocated it, and it is dropped once.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

fn lines(secrets: &QUIC_TLS_SECRETS) -> String {
    let (known, length) = (&secrets.IsSet, usize::from(secrets.SecretLength));
    let mut text = String::new();
    for (is_known, label, secret) in [
        (
            known.ClientHandshakeTrafficSecret(),
            "CLIENT_HANDSHAKE_TRAFFIC_SECRET",
            &secrets.ClientHandshakeTrafficSecret,
        ),
        (
            known.ServerHandshakeTrafficSecret(),
            "SERVER_HANDSHAKE_TRAFFIC_SECRET",
            &secrets.ServerHandshakeTrafficSecret,
        ),
        (
            known.ClientTrafficSecret0(),
            "CLIENT_TRAFFIC_SECRET_0",
            &secrets.ClientTrafficSecret0,
        ),
        (
            known.ServerTrafficSecret0(),
            "SERVER_TRAFFIC_SECRET_0",
            &secrets.ServerTrafficSecret0,
        ),
    ] {
        if is_known != 0 && known.ClientRandom() != 0 {
            let random = hex(&secrets.ClientRandom);
            let secret = hex(&secret[..length.min(secret.len())]);
            // Writing to a string never fails.
            let _ = writeln!(text, "{label} {random} {secret}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_secret_that_is_known() {
        let made = Secrets::new();
        // SAFETY: there is no other reference to it.
        let secrets = unsafe { &mut *made.room() };
        assert_eq!(lines(secrets), "");
        secrets.SecretLength = 2;
        secrets.ClientRandom = [0xab; 32];
        secrets.ClientTrafficSecret0[..3].copy_from_slice(&[1, 2, 3]);
        secrets.IsSet.set_ClientTrafficSecret0(1);
        assert_eq!(lines(secrets), "", "of no known connection");
        secrets.IsSet.set_ClientRandom(1);
        let random = "ab".repeat(32);
        assert_eq!(
            lines(secrets),
            format!("CLIENT_TRAFFIC_SECRET_0 {random} 0102\n")
        );
        secrets.SecretLength = 255;
        assert_eq!(lines(secrets).len(), 24 + 64 + 1 + 128 + 1);
    }
}
