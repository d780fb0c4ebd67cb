//! Reads the headers of the server's TLS messages, and records when messages arrived (RFC 8446 4, RFC 8879).

use firstflight_core::clock::Stamp;
use firstflight_wire::Reader;
use firstflight_wire::tls::{
    self, EncryptedExtensions, HelloKind, ascii, ech_configs, number, read_message,
};

use super::observed::{Observed, RetryConfigs};
use super::space::Level;

/// NewSessionTicket (RFC 8446 4.6.1) and its extension early_data.
const NEW_SESSION_TICKET: u8 = 4;
const EARLY_DATA: u16 = 42;

/// Maximum number of ECH configurations that are kept.
const MOST_ECH_CONFIGS: usize = 16;

/// Size of a message's header.
const HEADER: usize = 4;

/// Sizes and compression of the Certificate message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateMessage {
    /// Size on the wire, with the header.
    pub bytes: u32,
    /// Size without compression, with the header.
    pub uncompressed_bytes: u32,
    /// Algorithm (RFC 8879). `None`: the message is not compressed.
    pub compression: Option<u16>,
}

impl CertificateMessage {
    /// Returns the algorithm's name.
    pub fn compression_name(&self) -> Option<&'static str> {
        match self.compression? {
            1 => Some("zlib"),
            2 => Some("brotli"),
            3 => Some("zstd"),
            _ => Some("unknown"),
        }
    }
}

/// Finds the messages in the CRYPTO streams.
#[derive(Debug, Default)]
pub struct Messages {
    /// Number of bytes before the first incomplete message, for each level.
    passed: [usize; 3],
    /// When the message's first byte arrived, if it has arrived.
    begun: [Option<(Stamp, u16)>; 3],
    /// The server sent other bytes than complete and valid tickets after the handshake.
    beside_tickets: bool,
    pub certificate: Option<CertificateMessage>,
}

impl Messages {
    /// Returns whether the first `length` bytes after the handshake are complete tickets.
    pub fn are_tickets(&self, length: usize) -> bool {
        !self.beside_tickets && self.passed[Level::Data as usize] == length
    }

    /// Processes `bytes`, the start of a level's stream without a gap, after some bytes arrived at `at` in datagram
    /// number `datagram`. Records milestones in `observed`.
    pub fn look(
        &mut self,
        level: Level,
        bytes: &[u8],
        (at, datagram): (Stamp, u16),
        observed: &mut Observed,
    ) {
        let place = level as usize;
        while let Some(rest) = bytes
            .get(self.passed[place]..)
            .filter(|rest| !rest.is_empty())
        {
            let begun = *self.begun[place].get_or_insert((at, datagram));
            let mut reader = Reader::new(rest);
            let Ok((kind, body)) = read_message(&mut reader) else {
                // The message is incomplete. A hello's first bytes are enough to tell which kind it is.
                if level == Level::Initial && tls::hello_kind(rest) == Ok(HelloKind::ServerHello) {
                    observed.hello.get_or_insert(begun);
                }
                return;
            };
            self.passed[place] += HEADER + body.len();
            self.begun[place] = None;
            match (level, kind) {
                (Level::Initial, number::SERVER_HELLO) => match tls::hello_kind(rest) {
                    Ok(HelloKind::ServerHello) => {
                        observed.hello.get_or_insert(begun);
                    }
                    Ok(HelloKind::HelloRetryRequest) => observed.hello_retry = true,
                    Err(_) => {}
                },
                (Level::Handshake, number::ENCRYPTED_EXTENSIONS) if observed.ech.is_some() => {
                    observed.ech_retry_configs = retry_configs(body);
                }
                (Level::Handshake, number::CERTIFICATE | number::COMPRESSED_CERTIFICATE) => {
                    observed.certificate.get_or_insert((at, datagram));
                    self.certificate = certificate(kind, body);
                }
                (Level::Data, NEW_SESSION_TICKET) => {
                    observed.tickets = observed.tickets.saturating_add(1);
                    let early_data = permits_early_data(body);
                    observed.early_data |= early_data.unwrap_or(false);
                    self.beside_tickets |= early_data.is_none();
                }
                (Level::Data, _) => self.beside_tickets = true,
                _ => {}
            }
        }
    }
}

fn certificate(kind: u8, body: &[u8]) -> Option<CertificateMessage> {
    let size = |bytes: usize| (HEADER + bytes) as u32;
    if kind == number::CERTIFICATE {
        return Some(CertificateMessage {
            bytes: size(body.len()),
            uncompressed_bytes: size(body.len()),
            compression: None,
        });
    }
    let mut reader = Reader::new(body);
    let compression = reader.u16().ok()?;
    Some(CertificateMessage {
        bytes: size(body.len()),
        uncompressed_bytes: size(reader.u24().ok()? as usize),
        compression: Some(compression),
    })
}

/// Returns the ECH configurations in EncryptedExtensions, or `None` if they are missing or malformed.
fn retry_configs(body: &[u8]) -> Option<Box<RetryConfigs>> {
    let list = EncryptedExtensions::parse(body).ok()?.ech_retry_configs?;
    let configs = ech_configs(list).ok()?;
    let mut found = RetryConfigs::default();
    for config in configs.iter().take(MOST_ECH_CONFIGS) {
        found.ids.push(u32::from(config.config_id));
        found.public_names.push(ascii(config.public_name));
    }
    Some(Box::new(found))
}

/// Returns whether a NewSessionTicket permits 0-RTT data, or `None` if it is malformed.
fn permits_early_data(body: &[u8]) -> Option<bool> {
    let mut reader = Reader::new(body);
    // Lifetime and age_add.
    reader.bytes(8).ok()?;
    reader.vec8().ok()?;
    reader.vec16().ok()?;
    let mut extensions = Reader::new(reader.vec16().ok()?);
    while !extensions.is_empty() {
        let kind = extensions.u16().ok()?;
        let data = extensions.vec16().ok()?;
        if kind == EARLY_DATA {
            return Some(!data.iter().all(|byte| *byte == 0));
        }
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;
    use crate::tls::EchOffer;
    use firstflight_wire::Writer;
    use firstflight_wire::tls::{write_hello_retry_request, write_server_hello};

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(&(body.len() as u32).to_be_bytes()[1..]);
        bytes.extend(body);
        bytes
    }

    fn hello(retry: bool) -> Vec<u8> {
        let mut out = [0; 200];
        let mut w = Writer::new(&mut out);
        let suite = number::TLS_AES_128_GCM_SHA256;
        if retry {
            write_hello_retry_request(&mut w, &[], suite, number::SECP384R1).unwrap();
        } else {
            write_server_hello(&mut w, &[3; 32], &[], suite, number::X25519, &[4; 32]).unwrap();
        }
        w.written().to_vec()
    }

    #[test]
    fn the_hello_counts_from_its_first_byte_and_a_retry_request_is_none() {
        let whole = [hello(true), hello(false)].concat();
        let retry = hello(true).len();
        for cut in 1..whole.len() {
            let (mut messages, mut observed) = (Messages::default(), Observed::default());
            messages.look(Level::Initial, &whole[..cut], (10, 1), &mut observed);
            messages.look(Level::Initial, &whole, (20, 2), &mut observed);
            let expected = if cut > retry { (10, 1) } else { (20, 2) };
            assert_eq!(
                (observed.hello, observed.hello_retry),
                (Some(expected), true),
                "{cut}"
            );
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let mut numbers = Numbers(4);
        let ticket = [
            &[0; 8][..],
            &[1, 9, 0, 2, 7, 7, 0, 8],
            &[0, 42, 0, 4, 9, 9, 9, 9],
        ]
        .concat();
        let good = [
            hello(true),
            hello(false),
            message(
                number::ENCRYPTED_EXTENSIONS,
                &[0, 8, 0xfe, 0x0d, 0, 4, 0, 2, 0xfe, 0x0d],
            ),
            message(number::CERTIFICATE, &[0, 0, 0, 4, 0, 0, 1, 7, 0, 0]),
            message(number::COMPRESSED_CERTIFICATE, &[0, 2, 0, 1, 0, 0, 0, 1, 7]),
            message(NEW_SESSION_TICKET, &ticket),
        ];
        for _ in 0..20_000 {
            let (mut messages, mut observed) = (Messages::default(), Observed::default());
            observed.ech = Some(EchOffer::Grease);
            let mut bytes: Vec<u8> = (0..=numbers.next(3))
                .flat_map(|_| good[numbers.next(good.len())].clone())
                .collect();
            for _ in 0..numbers.next(4) {
                let place = numbers.next(bytes.len());
                bytes[place] = numbers.next(256) as u8;
            }
            let cut = numbers.next(bytes.len());
            for level in Level::ALL {
                messages.look(level, &bytes[..cut], (10, 1), &mut observed);
                messages.look(level, &bytes, (20, 2), &mut observed);
                assert!(messages.passed[level as usize] <= bytes.len());
            }
            if let Some(certificate) = messages.certificate {
                assert!(certificate.bytes as usize <= bytes.len());
            }
            let kept = observed
                .ech_retry_configs
                .map_or(0, |configs| configs.ids.len());
            assert!(kept <= MOST_ECH_CONFIGS);
        }
    }

    #[test]
    fn certificates_are_complete_with_their_last_byte() {
        let plain = message(number::CERTIFICATE, &[0; 900]);
        let mut body = vec![0, 2, 0, 1, 0];
        body.extend([0; 100]);
        let compressed = message(number::COMPRESSED_CERTIFICATE, &body);
        for (message, bytes, uncompressed_bytes, name) in [
            (plain, 904, 904, None),
            (compressed, 109, 260, Some("brotli")),
        ] {
            let (mut messages, mut observed) = (Messages::default(), Observed::default());
            let most = message.len() - 1;
            messages.look(Level::Handshake, &message[..most], (10, 1), &mut observed);
            assert_eq!(observed.certificate, None);
            messages.look(Level::Handshake, &message, (20, 2), &mut observed);
            assert_eq!(observed.certificate, Some((20, 2)));
            let found = messages.certificate.unwrap();
            assert_eq!(
                (found.bytes, found.uncompressed_bytes),
                (bytes, uncompressed_bytes)
            );
            assert_eq!(found.compression_name(), name);
        }
    }

    #[test]
    fn every_compression_has_a_name_that_the_column_may_hold() {
        let columns = include_str!("../../../../../schemas/records/quic_handshake.yaml");
        let column = columns
            .lines()
            .find(|line| line.contains("{name: certificate_compression,"));
        let (_, rest) = column.unwrap().split_once("values: [").unwrap();
        let values: Vec<&str> = rest.split_once(']').unwrap().0.split(", ").collect();
        for algorithm in 0..=u16::MAX {
            let message = CertificateMessage {
                bytes: 9,
                uncompressed_bytes: 9,
                compression: Some(algorithm),
            };
            let name = message.compression_name().unwrap();
            assert!(values.contains(&name), "{algorithm}: {name}");
        }
    }

    #[test]
    fn whole_and_readable_tickets_are_told_from_everything_else() {
        let ticket = message(
            NEW_SESSION_TICKET,
            &[&[0; 8][..], &[1, 9, 0, 2, 7, 7, 0, 0]].concat(),
        );
        let unreadable = message(NEW_SESSION_TICKET, &[1; 3]);
        let key_update = message(24, &[0]);
        for (bytes, expected) in [
            (ticket.clone(), true),
            ([&ticket[..], &ticket].concat(), true),
            (ticket[..ticket.len() - 1].to_vec(), false),
            (unreadable, false),
            ([ticket, key_update].concat(), false),
        ] {
            let (mut messages, mut observed) = (Messages::default(), Observed::default());
            assert!(messages.are_tickets(0));
            messages.look(Level::Data, &bytes, (10, 1), &mut observed);
            assert_eq!(messages.are_tickets(bytes.len()), expected, "{bytes:?}");
        }
    }

    #[test]
    fn tickets_are_counted_and_those_with_early_data_told_apart() {
        let ticket = |extensions: &[u8]| {
            let mut body = vec![0; 8];
            body.extend([1, 9, 0, 2, 7, 7, 0, extensions.len() as u8]);
            body.extend(extensions);
            message(NEW_SESSION_TICKET, &body)
        };
        for (tickets, early_data) in [
            (vec![ticket(&[])], false),
            (
                vec![ticket(&[]), ticket(&[0, 42, 0, 4, 255, 255, 255, 255])],
                true,
            ),
            (vec![ticket(&[0, 42, 0, 4, 0, 0, 0, 0])], false),
            (vec![ticket(&[0, 1, 0, 1, 9])], false),
            (vec![message(NEW_SESSION_TICKET, &[1; 3])], false),
        ] {
            let (mut messages, mut observed) = (Messages::default(), Observed::default());
            messages.look(Level::Data, &tickets.concat(), (10, 1), &mut observed);
            assert_eq!(
                (usize::from(observed.tickets), observed.early_data),
                (tickets.len(), early_data)
            );
        }
    }
}
