//! Transport parameters: ours, and the checks of the server's parameters (RFC 9000 7.3, 18).

use firstflight_core::clock::Mono;
use firstflight_wire::transport::{
    TransportParameters, id, write_integer_parameter, write_parameter, write_version_information,
};
use firstflight_wire::{ConnectionId, Error, Version, Writer};

/// Maximum number of bytes that a server may send on a stream that we opened, on a stream that it opened, and on all
/// streams together. The limits bound a connection's memory and are never raised. A response with a larger header
/// section is incomplete.
pub const MOST_RESPONSE: u64 = 64 << 10;
pub const MOST_CONTROL: u64 = 16 << 10;
const MOST_DATA: u64 = 96 << 10;

/// Number of streams that a server may open: control, QPACK encoder and decoder, and some of reserved types (RFC 9114
/// 6.2.3).
pub const MOST_STREAMS: u64 = 6;

/// Our idle timeout in ms. Connections are shorter, unless a longer time limit is configured.
const IDLE_MS: u64 = 30_000;

/// Returns our parameters for a connection from `client_cid`; the ClientHello has this `version`. Unless only version 1
/// is `offered`, the parameters contain version_information. It lists the newest version first, since servers may
/// choose the first version that they support.
pub fn ours(client_cid: [u8; 8], version: Version, offered: &[Version]) -> Vec<u8> {
    let mut out = [0; 128];
    let mut w = Writer::new(&mut out);
    let mut write = || -> Result<(), Error> {
        write_integer_parameter(&mut w, id::MAX_IDLE_TIMEOUT, IDLE_MS)?;
        write_integer_parameter(&mut w, id::INITIAL_MAX_DATA, MOST_DATA)?;
        write_integer_parameter(
            &mut w,
            id::INITIAL_MAX_STREAM_DATA_BIDI_LOCAL,
            MOST_RESPONSE,
        )?;
        write_integer_parameter(&mut w, id::INITIAL_MAX_STREAM_DATA_UNI, MOST_CONTROL)?;
        write_integer_parameter(&mut w, id::INITIAL_MAX_STREAMS_UNI, MOST_STREAMS)?;
        write_parameter(&mut w, id::INITIAL_SOURCE_CONNECTION_ID, &client_cid)?;
        if offered == [Version::V1] {
            return Ok(());
        }
        let mut available = offered.to_vec();
        available.sort_unstable_by(|a, b| b.cmp(a));
        write_version_information(&mut w, version, &available)
    };
    write().expect("the buffer has room for seven short parameters");
    w.written().to_vec()
}

/// Flow control and stream limits of the server, from its parameters and frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Credit {
    pub data: u64,
    /// Limits of the request stream and of our control stream.
    pub request: u64,
    pub control: u64,
    pub streams: u64,
    pub control_streams: u64,
}

impl Credit {
    /// Reads the limits from the server's parameters.
    pub fn of(parameters: TransportParameters<'_>) -> Result<Credit, Error> {
        let integer = |id| Ok(parameters.integer(id)?.unwrap_or(0));
        Ok(Credit {
            data: integer(id::INITIAL_MAX_DATA)?,
            request: integer(id::INITIAL_MAX_STREAM_DATA_BIDI_REMOTE)?,
            control: integer(id::INITIAL_MAX_STREAM_DATA_UNI)?,
            streams: integer(id::INITIAL_MAX_STREAMS_BIDI)?,
            control_streams: integer(id::INITIAL_MAX_STREAMS_UNI)?,
        })
    }
}

/// Returns the idle timeout of both endpoints, from the server's parameters (RFC 9000 10.1).
pub fn idle_timeout(parameters: TransportParameters<'_>) -> Mono {
    let theirs = parameters.integer(id::MAX_IDLE_TIMEOUT).ok().flatten();
    // 0 disables the server's timeout.
    let theirs = theirs.filter(|milliseconds| *milliseconds > 0);
    theirs.map_or(IDLE_MS, |milliseconds| milliseconds.min(IDLE_MS)) * 1_000_000
}

/// The connection IDs in a handshake that the client has seen.
#[derive(Clone, Copy, Debug)]
pub struct Ids {
    /// Destination of the very first Initial.
    pub original: ConnectionId,
    /// Source of the Retry, if there was one.
    pub retry: Option<ConnectionId>,
    /// Source of the server's packets.
    pub server: ConnectionId,
}

/// Checks that the server's parameters authenticate the connection IDs (RFC 9000 7.3). The error names the parameter.
pub fn check(parameters: TransportParameters<'_>, ids: &Ids) -> Result<(), String> {
    for (name, id, expected) in [
        (
            "original_destination_connection_id",
            id::ORIGINAL_DESTINATION_CONNECTION_ID,
            Some(ids.original),
        ),
        (
            "initial_source_connection_id",
            id::INITIAL_SOURCE_CONNECTION_ID,
            Some(ids.server),
        ),
        (
            "retry_source_connection_id",
            id::RETRY_SOURCE_CONNECTION_ID,
            ids.retry,
        ),
    ] {
        let found = parameters
            .connection_id(id)
            .map_err(|e| format!("transport parameters: {e}"))?;
        if found != expected {
            let shown = |cid: Option<ConnectionId>| {
                cid.map_or("missing".to_owned(), |cid| format!("0x{cid}"))
            };
            return Err(format!(
                "transport parameter {name} is {}, which must be {}",
                shown(found),
                shown(expected)
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Parameter<'a> = (u64, &'a [u8]);

    fn written(parameters: &[Parameter]) -> Vec<u8> {
        let mut out = [0; 200];
        let mut w = Writer::new(&mut out);
        for (id, value) in parameters {
            write_parameter(&mut w, *id, value).unwrap();
        }
        w.written().to_vec()
    }

    #[test]
    fn ours_are_read_back() {
        let bytes = ours([7; 8], Version::V1, &[Version::V1]);
        let parameters = TransportParameters::new(&bytes);
        assert_eq!(parameters.integer(id::INITIAL_MAX_DATA), Ok(Some(98304)));
        assert_eq!(parameters.integer(id::INITIAL_MAX_STREAMS_BIDI), Ok(None));
        assert_eq!(
            parameters.connection_id(id::INITIAL_SOURCE_CONNECTION_ID),
            Ok(Some([7; 8].into()))
        );
        let credit = Credit::of(parameters).unwrap();
        assert_eq!((credit.data, credit.control_streams), (98304, 6));
        assert_eq!(
            (credit.streams, credit.request, credit.control),
            (0, 0, 16384)
        );
    }

    #[test]
    fn the_shorter_idle_timeout_holds() {
        let cases: [(&[Parameter], Mono); 6] = [
            (&[], 30),
            (&[(0x01, &[0])], 30),
            (&[(0x01, &[0x53, 0x88])], 5),
            (&[(0x01, &[0x80, 0, 0xea, 0x60])], 30),
            (&[(0x01, &[0xff; 8])], 30),
            // Not an integer.
            (&[(0x01, &[0x53])], 30),
        ];
        for (parameters, seconds) in cases {
            let bytes = written(parameters);
            let found = idle_timeout(TransportParameters::new(&bytes));
            assert_eq!(found, seconds * 1_000_000_000, "{parameters:?}");
        }
    }

    #[test]
    fn connection_ids_are_authenticated() {
        let ids = |retry: Option<u8>| Ids {
            original: [1; 8].into(),
            retry: retry.map(|byte| [byte; 8].into()),
            server: [2; 8].into(),
        };
        let [one, two, three] = [[1; 8], [2; 8], [3; 8]];
        for (parameters, retry, wrong) in [
            (vec![(0x00, &one[..]), (0x0f, &two)], None, None),
            (
                vec![(0x0f, &two), (0x00, &one), (0x10, &three)],
                Some(3),
                None,
            ),
            (
                vec![(0x0f, &two)],
                None,
                Some("original_destination_connection_id is missing"),
            ),
            (
                vec![(0x00, &one), (0x0f, &one)],
                None,
                Some("initial_source_connection_id is 0x0101"),
            ),
            (
                vec![(0x00, &one), (0x0f, &two)],
                Some(3),
                Some("retry_source_connection_id is missing"),
            ),
            (
                vec![(0x00, &one), (0x0f, &two), (0x10, &three)],
                None,
                Some("must be missing"),
            ),
            (vec![(0x00, &[9; 21])], None, Some("transport parameters: ")),
        ] {
            let bytes = written(&parameters);
            let result = check(TransportParameters::new(&bytes), &ids(retry));
            match wrong {
                None => assert_eq!(result, Ok(())),
                Some(text) => assert!(result.unwrap_err().contains(text), "{text}"),
            }
        }
    }
}
