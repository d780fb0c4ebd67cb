//! Secrets of the TLS library. They go to the key log, and to a connection that derives other keys from them.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::KeyLog;

/// A connection's traffic secrets: the client's and the server's. They are empty until TLS makes them.
#[derive(Clone, Default)]
pub struct TrafficSecrets {
    pub handshake: [Vec<u8>; 2],
    pub data: [Vec<u8>; 2],
}

impl TrafficSecrets {
    /// Replaces the secrets that `newer` has.
    pub fn add(&mut self, newer: TrafficSecrets) {
        let old = self.handshake.iter_mut().chain(&mut self.data);
        for (old, new) in old.zip(newer.handshake.into_iter().chain(newer.data)) {
            if !new.is_empty() {
                *old = new;
            }
        }
    }
}

/// Receives secrets from the TLS library.
pub struct SecretLog {
    /// A file in the NSS key log format, one secret per line.
    file: Option<Mutex<File>>,
    /// Newest secrets of the connection that reads handshake bytes now. `None` if the secrets are not needed.
    newest: Option<Mutex<TrafficSecrets>>,
}

impl SecretLog {
    /// Writes secrets to `file`. If `taken` is true, keeps the newest ones for [`Self::take`].
    pub fn new(file: Option<File>, taken: bool) -> SecretLog {
        SecretLog {
            file: file.map(Mutex::new),
            newest: taken.then(Mutex::default),
        }
    }

    /// Returns the secrets made since the last call. Only one connection at a time reads handshake bytes.
    pub fn take(&self) -> Option<TrafficSecrets> {
        let newest = self.newest.as_ref()?;
        Some(std::mem::take(&mut *lock(newest)))
    }
}

impl std::fmt::Debug for SecretLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SecretLog")
    }
}

impl KeyLog for SecretLog {
    fn log(&self, label: &str, client_random: &[u8], secret: &[u8]) {
        if let Some(newest) = &self.newest {
            let mut newest = lock(newest);
            let place = match label {
                "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Some(&mut newest.handshake[0]),
                "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Some(&mut newest.handshake[1]),
                "CLIENT_TRAFFIC_SECRET_0" => Some(&mut newest.data[0]),
                "SERVER_TRAFFIC_SECRET_0" => Some(&mut newest.data[1]),
                _ => None,
            };
            if let Some(place) = place {
                *place = secret.to_vec();
            }
        }
        let Some(file) = &self.file else {
            return;
        };
        let hex = |bytes: &[u8]| -> String { bytes.iter().map(|b| format!("{b:02x}")).collect() };
        let line = format!("{label} {} {}\n", hex(client_random), hex(secret));
        // A write error, such as a full disk, loses keys but no records. Only the file shows the loss.
        let _ = lock(file).write_all(line.as_bytes());
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
