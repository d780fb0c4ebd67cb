//! A key log's lines: a label, the client's random and a secret, the latter two in hex.

/// Longest line in a TLS 1.3 key log: the longest label, 32 bytes of random and 48 of secret in hex, spaces,
/// CR LF, a byte order mark.
pub(super) const LONGEST: usize = 32 + 64 + 96 + 4 + BOM.len();
/// UTF-8's byte order mark, which some editors write at the start of a file.
const BOM: &[u8] = b"\xef\xbb\xbf";
/// Longest traffic secret (SHA-384).
const MAX_SECRET: usize = 48;

/// A traffic secret.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret {
    bytes: [u8; MAX_SECRET],
    length: u8,
}

impl Secret {
    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// The traffic secrets that protect a connection's QUIC packets.
#[derive(Clone, Copy, Default)]
pub struct Secrets {
    pub client_early: Option<Secret>,
    pub client_handshake: Option<Secret>,
    pub server_handshake: Option<Secret>,
    pub client_application: Option<Secret>,
    pub server_application: Option<Secret>,
}

impl Secrets {
    /// Whether there is nothing more to find.
    pub fn is_whole(&self) -> bool {
        self.client_handshake.is_some()
            && self.server_handshake.is_some()
            && self.client_application.is_some()
            && self.server_application.is_some()
    }

    /// Stores the secret of `line`. The first secret for a purpose wins.
    pub(super) fn take(&mut self, line: &Line) {
        let place = match line.label {
            Label::ClientEarly => &mut self.client_early,
            Label::ClientHandshake => &mut self.client_handshake,
            Label::ServerHandshake => &mut self.server_handshake,
            Label::ClientApplication => &mut self.client_application,
            Label::ServerApplication => &mut self.server_application,
        };
        place.get_or_insert(line.secret);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    ClientEarly,
    ClientHandshake,
    ServerHandshake,
    ClientApplication,
    ServerApplication,
}

/// A line with a QUIC traffic secret.
pub(super) struct Line {
    label: Label,
    pub(super) random: [u8; 32],
    secret: Secret,
}

/// The random of a line in hex, if the line has the usual form: one space after the label and one after the random.
pub(super) fn random_text(text: &[u8]) -> Option<&[u8; 64]> {
    let after_label = memchr::memchr(b' ', text)? + 1;
    let random = text.get(after_label..)?.first_chunk()?;
    (text.get(after_label + random.len()) == Some(&b' ')).then_some(random)
}

impl Line {
    /// Parses a line, with or without the line end. Returns `None` for a line without a QUIC traffic secret.
    pub(super) fn parse(text: &[u8]) -> Option<Line> {
        let mut rest = text.strip_prefix(BOM).unwrap_or(text);
        let mut words = std::iter::from_fn(|| {
            rest = rest.trim_ascii_start();
            let end = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            rest = after;
            Some(word.trim_ascii_end()).filter(|word| !word.is_empty())
        });
        let label = match words.next()? {
            b"CLIENT_EARLY_TRAFFIC_SECRET" => Label::ClientEarly,
            b"CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Label::ClientHandshake,
            b"SERVER_HANDSHAKE_TRAFFIC_SECRET" => Label::ServerHandshake,
            b"CLIENT_TRAFFIC_SECRET_0" => Label::ClientApplication,
            b"SERVER_TRAFFIC_SECRET_0" => Label::ServerApplication,
            _ => return None,
        };
        let mut random = [0; 32];
        if unhex(words.next()?, &mut random)? != random.len() {
            return None;
        }
        let mut bytes = [0; MAX_SECRET];
        let length = unhex(words.next()?, &mut bytes)?;
        if !matches!(length, 32 | 48) {
            return None;
        }
        let secret = Secret {
            bytes,
            length: length as u8,
        };
        Some(Line {
            label,
            random,
            secret,
        })
    }
}

/// Decodes hex digits to the start of `out` and returns the number of bytes; `None` if they are invalid or do not fit.
fn unhex(digits: &[u8], out: &mut [u8]) -> Option<usize> {
    let place = out.get_mut(..digits.len() / 2)?;
    const_hex::decode_to_slice(digits, place).ok()?;
    Some(place.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_quic_are_told_from_others() {
        let random = "0a".repeat(32);
        for (label, secret, is_one) in [
            ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", 32, true),
            ("SERVER_TRAFFIC_SECRET_0", 48, true),
            ("CLIENT_EARLY_TRAFFIC_SECRET", 33, false),
            ("SERVER_TRAFFIC_SECRET_0", 64, false),
            ("EXPORTER_SECRET", 32, false),
            ("CLIENT_RANDOM", 48, false),
            ("# comment", 32, false),
        ] {
            let text = format!("{label} {random} {}\r\n", "Fe".repeat(secret));
            assert!(text.len() <= LONGEST || !is_one);
            let line = Line::parse(text.as_bytes());
            assert_eq!(line.is_some(), is_one, "{text}");
            if let Some(line) = line {
                assert_eq!(line.random, [0x0a; 32]);
                assert_eq!(line.secret.as_slice(), vec![0xfe; secret]);
            }
        }
        for broken in [
            "",
            "SERVER_TRAFFIC_SECRET_0",
            "SERVER_TRAFFIC_SECRET_0 0a 0b",
        ] {
            assert!(Line::parse(broken.as_bytes()).is_none());
        }
    }
}
