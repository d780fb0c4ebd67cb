//! What clients share whose stack brings TLS of its own: roots, and the file that SSLKEYLOGFILE names.

use crate::contract::Request;
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// A stack that adds the machine's own roots to those of a request finds none from now on.
///
/// # Safety
///
/// No other thread may run.
pub unsafe fn trust_no_others() {
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        // SAFETY: the caller's.
        unsafe { std::env::set_var(name, "/dev/null") };
    }
}

/// The file of the roots that certificates are verified by. An error is one sentence.
pub fn roots(request: &Request) -> Result<&str, String> {
    request.verifies()?;
    match Path::new(&request.roots).is_file() {
        true => Ok(&request.roots),
        false => Err(format!("{}: there is no such file", request.roots)),
    }
}

/// A file that secrets are added to; None: the environment names none. An error is one sentence.
pub fn key_log() -> Result<Option<File>, String> {
    let Some(path) = std::env::var_os("SSLKEYLOGFILE").map(PathBuf::from) else {
        return Ok(None);
    };
    match OpenOptions::new().append(true).create(true).open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Bytes as key logs and logs of connections have them.
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        // Writing to a string never fails.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_two_digits_each() {
        assert_eq!(hex(&[0, 0x0a, 0xff]), "000aff");
        assert_eq!(hex(&[]), "");
    }
}
