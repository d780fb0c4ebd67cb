//! Roots and key log for clients of stacks that include TLS.

use firstflight_contract::Request;
use std::fmt::Write;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// Makes sure that a stack adds no root of the machine to a request's roots.
///
/// # Safety
///
/// No other thread may run.
pub unsafe fn trust_no_others() {
    for name in ["SSL_CERT_FILE", "SSL_CERT_DIR"] {
        // SAFETY: the caller guarantees it.
        unsafe { std::env::set_var(name, "/dev/null") };
    }
}

/// Returns the file with the roots that verify certificates. Errors are one sentence.
pub fn roots(request: &Request) -> Result<&str, String> {
    crate::verifies(request)?;
    match Path::new(&request.roots).is_file() {
        true => Ok(&request.roots),
        false => Err(format!("{}: there is no such file", request.roots)),
    }
}

/// Opens the file in SSLKEYLOGFILE to append secrets; `None` if it is not set. Errors are one sentence.
pub fn key_log() -> Result<Option<File>, String> {
    let Some(path) = std::env::var_os("SSLKEYLOGFILE").map(PathBuf::from) else {
        return Ok(None);
    };
    match OpenOptions::new().append(true).create(true).open(&path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

/// Formats bytes in hexadecimal, as in key logs and qlog files.
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
