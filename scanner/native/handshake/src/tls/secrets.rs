//! Secrets as the TLS library makes them: into a key log, and to the connection that needs other keys of them.

use std::fs::File;
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::KeyLog;

/// Traffic secrets of one connection, each of the client and of the server; empty: not made yet.
#[derive(Clone, Default)]
pub struct TrafficSecrets {
    pub handshake: [Vec<u8>; 2],
    pub data: [Vec<u8>; 2],
}

impl TrafficSecrets {
    /// Takes what was made since.
    pub fn add(&mut self, newer: TrafficSecrets) {
        let old = self.handshake.iter_mut().chain(&mut self.data);
        for (old, new) in old.zip(newer.handshake.into_iter().chain(newer.data)) {
            if !new.is_empty() {
                *old = new;
            }
        }
    }
}

/// Where secrets go.
pub struct SecretLog {
    /// A file in the NSS key log format, a line each.
    file: Option<Mutex<File>>,
    /// Secrets of the connection whose handshake bytes are read now; `None`: nobody takes them.
    newest: Option<Mutex<TrafficSecrets>>,
}

impl SecretLog {
    /// Writes secrets to `file`, and keeps the newest if they are `taken`.
    pub fn new(file: Option<File>, taken: bool) -> SecretLog {
        SecretLog {
            file: file.map(Mutex::new),
            newest: taken.then(Mutex::default),
        }
    }

    /// Returns the secrets made since the last call: handshake bytes of one connection are read at a time.
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
        // A full disk costs keys, not records: the summary's readers see it by the file.
        let _ = lock(file).write_all(line.as_bytes());
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
