//! HTTPS records (RFC 9460 2.2, 7, 14.3.2) and the configurations in their ECH parameter (RFC 9849 4).

use std::net::{Ipv4Addr, Ipv6Addr};

use firstflight_wire::tls::{ascii, ech_configs};

use super::name::Name;
use super::{Malformed, Reader};

/// A record's priority in AliasMode.
const ALIAS_MODE: u16 = 0;

// Parameter keys (RFC 9460 14.3.2).
const MANDATORY: u16 = 0;
const ALPN: u16 = 1;
const NO_DEFAULT_ALPN: u16 = 2;
const PORT: u16 = 3;
const IPV4HINT: u16 = 4;
const ECH: u16 = 5;
const IPV6HINT: u16 = 6;

/// One HTTPS record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Https {
    /// 0 is AliasMode.
    pub priority: u16,
    /// `.` for the owner name itself.
    pub target: String,
    pub port: Option<u16>,
    pub alpn: Vec<String>,
    pub ipv4hint: Vec<String>,
    pub ipv6hint: Vec<String>,
    pub ech: bool,
    /// Config id and public name of each ECH configuration with a known version.
    pub ech_configs: Vec<(u8, String)>,
}

impl Https {
    /// Reads the record's data at `at..end` of `message`.
    pub fn read(message: &[u8], at: usize, end: usize) -> Result<Https, Malformed> {
        let cut = Malformed("an HTTPS record is cut off");
        let priority = Reader(message.get(at..end).ok_or(cut)?).u16()?;
        let (target, after) = Name::read(message, at + 2)?;
        let mut https = Https {
            priority,
            target: target.text(),
            ..Https::default()
        };
        if priority == ALIAS_MODE {
            // In AliasMode, recipients ignore all parameters (RFC 9460 2.4.2).
            return if after <= end { Ok(https) } else { Err(cut) };
        }
        let mut rest = Reader(message.get(after..end).ok_or(cut)?);
        let (mut last, mut mandatory, mut keys) = (None, Vec::new(), Vec::new());
        while !rest.is_empty() {
            let (key, length) = (rest.u16()?, rest.u16()?);
            if last.replace(key).is_some_and(|last| last >= key) {
                return Err(Malformed(
                    "the parameters of an HTTPS record are not in order",
                ));
            }
            keys.push(key);
            let value = Reader(rest.take(usize::from(length))?);
            if key == MANDATORY {
                mandatory = numbers(value)?;
            } else {
                https.parameter(key, value)?;
            }
        }
        // A record without a parameter that it lists as mandatory is malformed (RFC 9460 8). So is no-default-alpn
        // without alpn (7.1.1).
        let complete = mandatory
            .iter()
            .all(|key| *key != MANDATORY && keys.contains(key));
        if !complete || keys.contains(&NO_DEFAULT_ALPN) && !keys.contains(&ALPN) {
            return Err(Malformed("an HTTPS record lacks a mandatory parameter"));
        }
        Ok(https)
    }

    fn parameter(&mut self, key: u16, mut value: Reader<'_>) -> Result<(), Malformed> {
        let empty = Malformed("a parameter of an HTTPS record is empty");
        match key {
            ALPN => {
                while !value.is_empty() {
                    let length = value.u8()?;
                    self.alpn.push(ascii(value.take(usize::from(length))?));
                }
            }
            NO_DEFAULT_ALPN if !value.is_empty() => {
                return Err(Malformed("no-default-alpn of an HTTPS record has a value"));
            }
            PORT => {
                self.port = Some(value.u16()?);
                if !value.is_empty() {
                    return Err(Malformed(
                        "the port of an HTTPS record is longer than 16 bits",
                    ));
                }
            }
            IPV4HINT | IPV6HINT if value.is_empty() => return Err(empty),
            IPV4HINT => {
                while !value.is_empty() {
                    let address = value
                        .take(4)?
                        .first_chunk::<4>()
                        .copied()
                        .unwrap_or_default();
                    self.ipv4hint.push(Ipv4Addr::from(address).to_string());
                }
            }
            IPV6HINT => {
                while !value.is_empty() {
                    let address = value
                        .take(16)?
                        .first_chunk::<16>()
                        .copied()
                        .unwrap_or_default();
                    self.ipv6hint.push(Ipv6Addr::from(address).to_string());
                }
            }
            ECH => {
                self.ech = true;
                // An unreadable list has an unknown format. Its presence is still recorded.
                self.ech_configs = ech_configs(value.0)
                    .unwrap_or_default()
                    .iter()
                    .map(|config| (config.config_id, ascii(config.public_name)))
                    .collect();
            }
            _ => {}
        }
        Ok(())
    }
}

fn numbers(mut value: Reader<'_>) -> Result<Vec<u16>, Malformed> {
    let mut numbers = Vec::new();
    while !value.is_empty() {
        numbers.push(value.u16()?);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(data: &[u8]) -> Result<Https, Malformed> {
        Https::read(data, 0, data.len())
    }

    /// An ECHConfigList with two configurations: one with an unknown version, one with the known version.
    const ECH_LIST: &[u8] =
        b"\0\x20\xfe\x0a\0\x01x\xfe\x0d\0\x17\x2a\0\x20\0\x02kk\0\x04\0\x01\0\x01\
        \0\x06a.test\0\0";

    #[test]
    fn every_parameter() {
        let mut data =
            b"\0\x01\0\0\0\0\x04\0\x01\0\x03\0\x01\0\x06\x02h3\x02h2\0\x03\0\x02\x20\xfb".to_vec();
        data.extend(b"\0\x04\0\x08\xc6\x12\0\x01\xc6\x12\0\x02\0\x05\0");
        data.push(ECH_LIST.len() as u8);
        data.extend(ECH_LIST);
        data.extend(b"\0\x06\0\x10\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x12\x34\0\x01x");
        let expected = Https {
            priority: 1,
            target: ".".into(),
            port: Some(8443),
            alpn: vec!["h3".into(), "h2".into()],
            ipv4hint: vec!["198.18.0.1".into(), "198.18.0.2".into()],
            ipv6hint: vec!["2001:db8::1".into()],
            ech: true,
            ech_configs: vec![(42, "a.test".into())],
        };
        assert_eq!(read(&data), Ok(expected));
        for length in 0..data.len() - 5 {
            let cut = read(&data[..length]);
            assert!(
                cut.as_ref().map_or(true, |https| https.ipv6hint.is_empty()),
                "{length}: {cut:?}"
            );
        }
    }

    #[test]
    fn what_breaks_a_rule_is_malformed() {
        for (parameters, good) in [
            (&b""[..], true),
            (b"\0\x03\0\x02\0\x01\0\x01\0\x03\x02h3", false),
            (b"\0\x03\0\x02\0\x01\0\x03\0\x02\0\x01", false),
            (b"\0\0\0\x02\0\x01", false),
            (b"\0\0\0\x02\0\0", false),
            (b"\0\x02\0\0", false),
            (b"\0\x01\0\x03\x02h3\0\x02\0\0", true),
            (b"\0\x01\0\x03\x03h3", false),
            (b"\0\x04\0\x03\x01\x01\x01", false),
            (b"\0\x04\0\0", false),
            (b"\0\x03\0\x03\0\0\0", false),
            (b"\0\x05\0\x01x", true),
        ] {
            let data = [b"\0\x01\0", parameters].concat();
            assert_eq!(read(&data).is_ok(), good, "{parameters:?}");
        }
    }

    #[test]
    fn alias_mode_names_its_target() {
        let alias = read(b"\0\0\x04Edge\x04test\0").unwrap();
        assert_eq!(
            (alias.priority, alias.target.as_str(), alias.ech),
            (0, "edge.test", false)
        );
        for parameters in [
            &b"\0\x01\0\x03\x02h3"[..],
            b"\0\0\0\x02\0\x01",
            b"\0\x03\0\x02\0\x01\0\x01\0\x03\x02h3",
            b"\0\x04\0\x01x",
            b"\0\x05\xff",
            b"x",
        ] {
            let with = [b"\0\0\x04edge\x04test\0", parameters].concat();
            assert_eq!(read(&with).as_ref(), Ok(&alias), "{parameters:?}");
        }
        assert!(Https::read(b"\0\0\x04edge\0", 0, 7).is_err());
        assert_eq!(ascii(b"h3\xff"), "h3\\xff");
    }
}
