//! Configurations of Encrypted ClientHello (RFC 9849 4) in HTTPS records and EncryptedExtensions.

use crate::{Error, Reader};

/// The version of ECHConfig in RFC 9849 4.
const VERSION: u16 = 0xfe0d;

/// One configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EchConfig<'a> {
    pub config_id: u8,
    /// The server name for the outer ClientHello.
    pub public_name: &'a [u8],
}

/// Reads an ECHConfigList. Skips configurations with another version.
pub fn ech_configs(list: &[u8]) -> Result<Vec<EchConfig<'_>>, Error> {
    let mut r = Reader::new(list);
    let mut list = Reader::new(r.vec16()?);
    let mut configs = Vec::new();
    while !list.is_empty() {
        let version = list.u16()?;
        let mut contents = Reader::new(list.vec16()?);
        if version != VERSION {
            continue;
        }
        let config_id = contents.u8()?;
        contents.u16()?; // kem_id
        contents.vec16()?; // public_key
        contents.vec16()?; // cipher_suites
        contents.u8()?; // maximum_name_length
        configs.push(EchConfig {
            config_id,
            public_name: contents.vec8()?,
        });
    }
    Ok(configs)
}

/// Returns the bytes as text, with bytes beyond ASCII as `\xff`.
pub fn ascii(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        if byte.is_ascii() {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two configurations: one with an unknown version, one with the known version.
    const LIST: &[u8] = b"\0\x20\xfe\x0a\0\x01x\xfe\x0d\0\x17\x2a\0\x20\0\x02kk\0\x04\0\x01\0\x01\
        \0\x06a.test\0\0";

    #[test]
    fn configurations_have_an_id_and_a_name() {
        let expected = EchConfig {
            config_id: 42,
            public_name: b"a.test",
        };
        assert_eq!(ech_configs(LIST), Ok(vec![expected]));
        assert_eq!(ech_configs(b"\0\0"), Ok(vec![]));
        for cut in 0..LIST.len() {
            assert!(ech_configs(&LIST[..cut]).is_err(), "{cut}");
        }
    }

    #[test]
    fn text_of_bytes() {
        assert_eq!(ascii(b"h3\xff"), "h3\\xff");
    }
}
