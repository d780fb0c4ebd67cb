//! Reading ahead of what is done with it: state of connections that was long not used is far away in memory,
//! and reads that stand together wait for it together.

use std::hint::black_box;

use super::Connection;

impl Connection {
    /// Reads from the front what every datagram needs. What it gives means nothing.
    pub(super) fn prefetch(&self) -> usize {
        self.last_ns as usize ^ self.server_cids.count()
    }

    /// Reads a little of all that a row is made of.
    pub(super) fn prefetch_row(&self) {
        let first = |bytes: Option<&[u8]>| bytes.and_then(|b| b.first()).copied().unwrap_or(0);
        let text = |text: Option<&str>| first(text.map(str::as_bytes));
        let (t, r) = (&self.timeline, &self.recovery);
        let boxed = [
            text(self.hello.sni.as_deref()),
            text(self.hello.alpn.as_deref()),
            first(self.hello.transport_parameters.as_deref()),
            text(t.attempt.ack.as_ref().map(|ack| &*ack.frames)),
        ];
        let inline = [
            t.start_ns,
            t.attempt.handshake_ns.unwrap_or(0),
            i64::from(t.attempt.bytes_sent),
            t.first_ack_ns.unwrap_or(0),
            t.exchange.client_bytes as i64,
            r.samples.first().map_or(0, |sample| sample.ns),
            r.rtt.smoothed_ns,
            self.volume.last_ns,
            self.volume.server.ip_bytes as i64,
            i64::from(self.datagrams.server),
            i64::from(self.version_in_use.0),
        ];
        black_box((boxed, inline));
    }
}
