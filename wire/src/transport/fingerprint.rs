//! A short text of the transport parameters that is equal for connections with the same implementation.

use std::fmt::Write;

use super::{TransportParameters, id};
use crate::Reader;

/// Parameters with values chosen by implementations, not by applications. min_ack_delay is another such parameter.
const WITH_VALUES: [u64; 4] = [
    id::MAX_UDP_PAYLOAD_SIZE,
    id::ACK_DELAY_EXPONENT,
    id::MAX_ACK_DELAY,
    id::ACTIVE_CONNECTION_ID_LIMIT,
];

impl TransportParameters<'_> {
    /// Returns the parameters in wire order, joined by commas: `g,05,06,03=1452,0b=26`. Returns `None` if the
    /// extension is malformed.
    ///
    /// Each parameter is the identifier in at least two hex digits. Parameters that RFC 9000 18.1 reserves are `g`.
    /// max_udp_payload_size, ack_delay_exponent, max_ack_delay, active_connection_id_limit and min_ack_delay are
    /// followed by `=` and their decimal value, or `=?` if the value is not an integer. Values of connection IDs,
    /// tokens, flow control limits and timeouts are not included. retry_source_connection_id is omitted, because it
    /// only indicates a Retry. After `most` parameters, `+COUNT` replaces the rest.
    pub fn fingerprint(self, most: usize) -> Option<String> {
        let mut out = String::new();
        let mut more = 0_usize;
        let mut shown = 0_usize;
        for parameter in self {
            let (id, value) = parameter.ok()?;
            if id == id::RETRY_SOURCE_CONNECTION_ID {
                continue;
            }
            if shown == most {
                more += 1;
                continue;
            }
            if shown > 0 {
                out.push(',');
            }
            shown += 1;
            push_parameter(&mut out, id, value);
        }
        if more > 0 {
            let _ = write!(out, ",+{more}");
        }
        Some(out)
    }
}

fn push_parameter(out: &mut String, id: u64, value: &[u8]) {
    // Writing to a String does not fail. This also applies above.
    let _ = if super::is_reserved(id) {
        write!(out, "g")
    } else {
        write!(out, "{id:02x}")
    };
    if WITH_VALUES.contains(&id) || id::MIN_ACK_DELAY.contains(&id) {
        let mut r = Reader::new(value);
        let _ = match r.varint() {
            Ok(number) if r.is_empty() => write!(out, "={number}"),
            _ => write!(out, "=?"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Writer;
    use crate::transport::{write_integer_parameter, write_parameter};

    fn fingerprint(parameters: &[(u64, &[u8])], most: usize) -> Option<String> {
        let mut out = vec![0; 32_768];
        let mut w = Writer::new(&mut out);
        for (id, value) in parameters {
            write_parameter(&mut w, *id, value).unwrap();
        }
        let n = w.position();
        TransportParameters::new(&out[..n]).fingerprint(most)
    }

    #[test]
    fn order_and_fitting_values_enter() {
        type Case<'a> = (&'a [(u64, &'a [u8])], &'a str);
        let cases: [Case; 9] = [
            (&[], ""),
            // 27 + 31 n (RFC 9000 18.1), and adjacent numbers.
            (
                &[(27, &[]), (26, &[]), (28, &[]), (58, &[9; 9])],
                "g,1a,1c,g",
            ),
            (&[(4, &[1]), (0x0f, &[7; 8]), (0, &[1])], "04,0f,00"),
            (
                &[
                    (3, &[0x45, 0xac]),
                    (0x0a, &[3]),
                    (0x0b, &[25]),
                    (0x0e, &[8]),
                ],
                "03=1452,0a=3,0b=25,0e=8",
            ),
            (&[(0x0e, &[2]), (0x0b, &[0x40])], "0e=2,0b=?"),
            (&[(3, &[])], "03=?"),
            (&[(3, &[1, 1])], "03=?"),
            (&[(0xff02_de1a, &[5]), (0xde1a, &[6])], "ff02de1a=5,de1a=6"),
            // A Retry has no effect. A repeated parameter appears twice.
            (
                &[(0x0f, &[]), (0x10, &[3]), (0x2ab2, &[]), (0x2ab2, &[])],
                "0f,2ab2,2ab2",
            ),
        ];
        for (parameters, expected) in cases {
            assert_eq!(fingerprint(parameters, 64).unwrap(), expected);
        }
    }

    #[test]
    fn values_of_sessions_do_not_enter() {
        let session = [
            0x00, 0x01, 0x02, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0c, 0x0d, 0x0f, 0x11, 0x20,
        ];
        for id in session {
            assert_eq!(
                fingerprint(&[(id, &[1])], 64),
                fingerprint(&[(id, &[2])], 64),
                "{id:#x}"
            );
        }
        for id in WITH_VALUES {
            assert_ne!(
                fingerprint(&[(id, &[1])], 64),
                fingerprint(&[(id, &[2])], 64),
                "{id:#x}"
            );
        }
    }

    #[test]
    fn hostile_extensions_are_bounded() {
        let largest = (1 << 62) - 1;
        let many = vec![(largest, [0xff; 8].as_slice()); 1_000];
        let found = fingerprint(&many, 64).unwrap();
        assert!(found.ends_with(",3fffffffffffffff,+936"), "{found}");
        assert!(found.len() < 64 * 20, "{}", found.len());
        assert_eq!(
            fingerprint(&many[..64], 64).unwrap().matches('+').count(),
            0
        );
        let giant = [1; 12_000];
        assert_eq!(
            fingerprint(&[(3, &giant), (9, &giant[..4_000])], 64).unwrap(),
            "03=?,09"
        );
    }

    #[test]
    fn what_does_not_parse_has_none() {
        let mut out = [0; 16];
        let mut w = Writer::new(&mut out);
        write_integer_parameter(&mut w, 4, 1 << 20).unwrap();
        let n = w.position();
        let whole = TransportParameters::new(&out[..n]);
        assert_eq!(whole.fingerprint(64).unwrap(), "04");
        let cut = TransportParameters::new(&out[..n - 1]);
        assert_eq!(cut.fingerprint(64), None);
        assert_eq!(cut.fingerprint(0), None);
    }
}
