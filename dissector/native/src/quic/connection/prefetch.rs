//! Prefetching. Connections that were idle for long are not in the cache. Adjacent reads wait for memory concurrently.

use std::hint::black_box;

use super::Connection;

impl Connection {
    /// Reads the fields at the start that every datagram needs. The returned value has no meaning.
    pub(super) fn prefetch(&self) -> usize {
        self.last_ns as usize ^ self.server_cids.count()
    }

    /// Reads a few bytes of each part in a row.
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
