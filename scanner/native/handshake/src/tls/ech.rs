//! Encrypted ClientHello (RFC 9849): a GREASE extension, or real ECH if the name has a configuration.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;

use firstflight_core::Failure;
use rustls::client::{ClientConfig, EchConfig, EchGreaseConfig, EchMode};
use rustls::crypto::aws_lc_rs::hpke::{ALL_SUPPORTED_SUITES, DH_KEM_X25519_HKDF_SHA256_AES_128};
use rustls::pki_types::EchConfigListBytes;

/// Maximum number of distinct configurations in a file. Servers of the same operator share a configuration.
const MOST_CONFIGS: usize = 10_000;

/// A ClientHello's ECH extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EchOffer {
    Grease,
    /// Real ECH: the name is encrypted for the server.
    Config,
}

impl EchOffer {
    /// Returns the name used in records.
    pub fn name(self) -> &'static str {
        match self {
            EchOffer::Grease => "grease",
            EchOffer::Config => "config",
        }
    }
}

/// Lower-case names and their ECH configurations.
#[derive(Default)]
pub struct EchConfigs(HashMap<String, Arc<[u8]>>);

impl EchConfigs {
    /// Reads a CSV file with the header `domain,ech`: a name, and the ech parameter of the name's HTTPS record
    /// (base64). Fails at the first invalid line; the error describes the line.
    pub fn read(path: &Path) -> Result<EchConfigs, Failure> {
        let shown = path.display();
        let failure =
            |why: String| Failure::Input(format!("--ech-configs {shown}: {why}; nothing was sent"));
        let text = std::fs::read_to_string(path).map_err(|e| failure(e.to_string()))?;
        Self::parse(&text).map_err(failure)
    }

    fn parse(text: &str) -> Result<EchConfigs, String> {
        let mut lines = text.lines().zip(1..);
        if lines.next().map(|(head, _)| head.trim()) != Some("domain,ech") {
            return Err("the first line must be the header domain,ech".into());
        }
        let mut by_name = HashMap::new();
        let mut distinct: HashSet<Arc<[u8]>> = HashSet::new();
        for (line, number) in lines.filter(|(line, _)| !line.trim().is_empty()) {
            let (name, encoded) = line
                .trim()
                .split_once(',')
                .ok_or_else(|| format!("line {number}: expected a name, a comma and base64"))?;
            let bytes: Arc<[u8]> = base64(encoded)
                .ok_or_else(|| format!("line {number}: the configuration is not base64"))?
                .into();
            EchConfig::new(EchConfigListBytes::from(&*bytes), ALL_SUPPORTED_SUITES)
                .map_err(|e| format!("line {number}: this ECH configuration is not usable: {e}"))?;
            let shared = match distinct.get(&bytes) {
                Some(known) => known.clone(),
                None if distinct.len() >= MOST_CONFIGS => {
                    return Err(format!("more than {MOST_CONFIGS} distinct configurations"));
                }
                None => bytes,
            };
            distinct.insert(shared.clone());
            by_name.insert(name.to_ascii_lowercase(), shared);
        }
        Ok(EchConfigs(by_name))
    }

    /// Returns a TLS configuration for each name. Names with the same ECH configuration share a TLS configuration.
    pub fn of_names(
        self,
        make: impl Fn(EchMode) -> Result<ClientConfig, Failure>,
    ) -> Result<HashMap<String, Arc<ClientConfig>>, Failure> {
        let mut made: HashMap<Arc<[u8]>, Arc<ClientConfig>> = HashMap::new();
        let mut found = HashMap::new();
        for (name, bytes) in self.0 {
            let config = match made.get(&bytes) {
                Some(config) => config.clone(),
                None => {
                    let list = EchConfigListBytes::from(&*bytes);
                    let config = EchConfig::new(list, ALL_SUPPORTED_SUITES)
                        .map_err(|e| Failure::Input(format!("--ech-configs: {name}: {e}")))?;
                    let config = Arc::new(make(EchMode::Enable(config))?);
                    made.insert(bytes, config.clone());
                    config
                }
            };
            found.insert(name, config);
        }
        Ok(found)
    }
}

/// Returns the mode of a GREASE extension (RFC 9849 6.2), with a public key whose private key is discarded.
pub fn grease() -> Result<EchMode, Failure> {
    let suite = DH_KEM_X25519_HKDF_SHA256_AES_128;
    let (key, _) = rustls::crypto::hpke::Hpke::generate_key_pair(suite)
        .map_err(|e| Failure::Usage(format!("cannot make a key for --ech grease: {e}")))?;
    Ok(EchMode::Grease(EchGreaseConfig::new(suite, key)))
}

/// Decodes base64 with padding (RFC 4648 4).
fn base64(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let padding = text.len() - digits.len();
    if text.is_empty() || !text.len().is_multiple_of(4) || padding > 2 {
        return None;
    }
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0);
    for digit in digits {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A configuration of `public.test` for X25519 and AES-128, with an arbitrary key.
    fn list() -> String {
        // 2 + 4 + contents: id, kem, key, suites, maximum length, name, extensions.
        let mut contents = vec![7, 0, 0x20, 0, 32];
        contents.extend([9; 32]);
        contents.extend([0, 4, 0, 1, 0, 1, 0, 11]);
        contents.extend(b"public.test\0\0");
        let mut bytes = vec![
            0,
            4 + contents.len() as u8,
            0xfe,
            0x0d,
            0,
            contents.len() as u8,
        ];
        bytes.extend(contents);
        encoded(&bytes)
    }

    fn encoded(bytes: &[u8]) -> String {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut out = String::new();
        for chunk in bytes.chunks(3) {
            let mut word = [0; 4];
            word[1..=chunk.len()].copy_from_slice(chunk);
            let word = u32::from_be_bytes(word);
            for place in 0..4 {
                let digit = DIGITS[(word >> (18 - 6 * place) & 63) as usize];
                out.push(if place > chunk.len() {
                    '='
                } else {
                    char::from(digit)
                });
            }
        }
        out
    }

    #[test]
    fn base64_is_read() {
        for bytes in [&b"\0"[..], b"ab", b"\xff\xfe\xfd", b"abcdefg"] {
            assert_eq!(base64(&encoded(bytes)).as_deref(), Some(bytes));
        }
        for text in ["", "A", "AA=", "A===", "AA-=", "====", "AAAAA"] {
            assert_eq!(base64(text), None, "{text}");
        }
    }

    #[test]
    fn names_with_one_configuration_share_it() {
        let list = list();
        let text = format!("domain,ech\nA.test,{list}\nb.test,{list}\n\n");
        let configs = EchConfigs::parse(&text).unwrap();
        let [a, b] = ["a.test", "b.test"].map(|name| configs.0[name].clone());
        assert!(Arc::ptr_eq(&a, &b));
    }

    #[test]
    fn wrong_files_are_refused() {
        for (text, why) in [
            ("", "header"),
            ("name,ech\n", "header"),
            ("domain,ech\na.test\n", "line 2: expected a name"),
            ("domain,ech\n\na.test,***\n", "line 3: the configuration"),
            (
                "domain,ech\na.test,AAAA\n",
                "line 2: this ECH configuration",
            ),
        ] {
            let found = EchConfigs::parse(text).err().unwrap();
            assert!(found.contains(why), "{text} {found}");
        }
    }
}
