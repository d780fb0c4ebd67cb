//! The columns for a second connection: whether the server accepted the ticket, the token and the request, and when.

use firstflight_core::clock::Stamp;

use super::{Second, micros, records_name, text};
use crate::connection::observed::Observed;
use crate::connection::{Again, Connection};
use crate::row::{HandshakeRow, Text};

/// A server that has not validated the client's address may send this multiple of the bytes received (RFC 9000 8.1).
const AMPLIFICATION: u32 = 3;

impl Second {
    /// Fills the columns of the second connection. `first`: observations of the first connection.
    pub fn fill<'a>(&'a self, row: &mut HandshakeRow<'a>, first: &Observed) {
        row.second_outcome = Some(records_name(self.outcome).into());
        row.second_detail = self.why.as_deref().map(Text::from);
        if let Some(sent) = &self.sent {
            fill(row, &sent.connection, first);
        }
    }
}

fn fill<'a>(row: &mut HandshakeRow<'a>, connection: &'a Connection, first: &Observed) {
    let (observed, again) = (&connection.observed, &connection.again);
    let sent_at = connection.sent_at();
    let since = |milestone: Option<(Stamp, u16)>| micros(sent_at, milestone.map(|(at, _)| at));
    row.second_stage = Some(observed.stage().name().into());
    row.second_detail = observed.detail.as_deref().map(Text::from);
    row.second_sent_at = sent_at;
    row.second_ticket = Some(again.ticket);
    row.second_resumed = again.resumed;
    row.second_early_data = again.early_data.map(|accepted| match accepted {
        true => "accepted".into(),
        false => "rejected".into(),
    });
    row.second_token = Some(again.token);
    row.second_token_honoured = token_honoured(again, observed, first);
    row.second_retry = Some(observed.retry);
    row.second_first_answer = observed.first_answer().map(Text::from);
    [
        row.second_ack_us,
        row.second_sh_us,
        row.second_handshake_us,
        row.second_confirmed_us,
        row.second_response_us,
    ] = [
        observed.ack,
        observed.hello,
        observed.handshake,
        observed.confirmed,
        observed.response,
    ]
    .map(since);
    row.second_rtt_first_us = observed.rtt.map(|(first, ..)| first / 1000);
    row.second_bytes_sent = Some(observed.sent.bytes);
    row.second_bytes_received = Some(observed.received.bytes);
    row.second_datagrams_sent = Some(observed.sent.datagrams);
    row.second_datagrams_received = Some(observed.received.datagrams);
    row.second_bytes_sent_unvalidated = Some(observed.sent_unvalidated.bytes);
    row.second_bytes_received_unvalidated = Some(observed.received_unvalidated.bytes);
    if observed.handshake.is_some() {
        row.second_http = text(connection.http().name());
        let response = connection.streams().response.response();
        row.second_status = response.map(|response| response.status);
    }
}

/// Returns whether the server accepted the token as a proof of the address. `None`: unknown, or no token was sent.
fn token_honoured(again: &Again, observed: &Observed, first: &Observed) -> Option<bool> {
    let answered = observed.received.datagrams > 0;
    if !again.token || !answered {
        return None;
    }
    if observed.retry {
        return Some(false);
    }
    let (sent, received) = (
        observed.sent_unvalidated.bytes,
        observed.received_unvalidated.bytes,
    );
    (first.retry || received > AMPLIFICATION * sent).then_some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::observed::Volume;

    #[test]
    fn a_token_is_honoured_by_what_would_need_a_proof_without_it() {
        for (token, first_retry, retry, received, expected) in [
            (false, true, false, 900, None),
            (true, true, false, 0, None),
            (true, true, false, 900, Some(true)),
            (true, false, false, 3600, None),
            (true, false, false, 3601, Some(true)),
            (true, false, true, 900, Some(false)),
            (true, true, true, 3601, Some(false)),
        ] {
            let volume = |bytes| Volume {
                datagrams: u16::from(bytes > 0),
                bytes,
            };
            let first = Observed {
                retry: first_retry,
                ..Observed::default()
            };
            let observed = Observed {
                retry,
                received: volume(received),
                sent_unvalidated: volume(1200),
                received_unvalidated: volume(received),
                ..Observed::default()
            };
            let again = Again {
                token,
                ..Again::default()
            };
            let found = token_honoured(&again, &observed, &first);
            assert_eq!(found, expected, "{token} {first_retry} {retry} {received}");
        }
    }
}
