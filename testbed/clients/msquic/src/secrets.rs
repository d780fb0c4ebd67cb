//! The secrets of a connection, as a key log (NSS's format), in the file that SSLKEYLOGFILE names.

use firstflight_testbed_clients::own_tls::{self, hex};
use msquic::ffi::QUIC_TLS_SECRETS;
use std::fmt::Write as _;
use std::io::Write as _;

/// What msquic fills in until a connection is closed, which has to be before this is dropped.
pub struct Secrets(*mut QUIC_TLS_SECRETS);

impl Secrets {
    /// Room for them.
    pub fn new() -> Self {
        // SAFETY: all of it are numbers, which may be zero.
        Self(Box::into_raw(Box::new(unsafe { std::mem::zeroed() })))
    }

    /// Where msquic writes.
    pub fn room(&self) -> *mut QUIC_TLS_SECRETS {
        self.0
    }

    /// Appends what is known to the file, if the environment names one; the connection is closed. An error is one sentence.
    pub fn write(&self) -> Result<(), String> {
        let Some(mut file) = own_tls::key_log()? else {
            return Ok(());
        };
        // SAFETY: nothing else writes to it any more.
        let text = lines(unsafe { &*self.0 });
        file.write_all(text.as_bytes())
            .map_err(|error| format!("SSLKEYLOGFILE: {error}"))
    }
}

impl Drop for Secrets {
    fn drop(&mut self) {
        // SAFETY: it is of `new`, and dropped once.
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
        // SAFETY: nothing else has it.
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
