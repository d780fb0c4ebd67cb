//! Throughput, with the same rules for QUIC and TCP (docs/definitions.md, "From a capture").

/// A packet's properties that volumes need.
#[derive(Clone, Copy, Debug)]
pub struct Carried {
    pub ns: i64,
    pub from_client: bool,
    /// Total length of the IP packet.
    pub ip_bytes: u64,
    /// `ip_bytes` is the captured length, because the header has no length.
    pub is_guessed: bool,
    /// It is a retransmission.
    pub is_again: bool,
    /// It carries application data.
    pub has_payload: bool,
    /// Bytes of application data that were not seen before.
    pub new_payload: u64,
}

/// Packets and bytes from one side.
#[derive(Clone, Debug, Default)]
pub struct SideVolume {
    pub packets: u64,
    pub ip_bytes: u64,
    /// Boxed, because a QUIC connection's content is only known with keys.
    content: Option<Box<Content>>,
}

/// The content of the bytes from one side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Content {
    /// IP packets' bytes in retransmissions.
    pub ip_bytes_again: u64,
    /// Application data, each byte once.
    pub payload_bytes: u64,
    /// Time of the last packet with application data, and `ip_bytes` up to and including it.
    until_payload: Option<(i64, u64)>,
}

impl SideVolume {
    /// The content of the bytes; zeros if it is unknown.
    pub fn content(&self) -> Content {
        self.content.as_deref().copied().unwrap_or_default()
    }
}

/// A connection's packets and bytes.
#[derive(Clone, Debug)]
pub struct Volume {
    pub start_ns: i64,
    pub last_ns: i64,
    pub client: SideVolume,
    pub server: SideVolume,
    /// Some lengths are derived from the captured bytes.
    pub is_guessed: bool,
}

impl Volume {
    pub fn new(start_ns: i64) -> Volume {
        Volume {
            start_ns,
            last_ns: start_ns,
            client: SideVolume::default(),
            server: SideVolume::default(),
            is_guessed: false,
        }
    }

    pub fn packet(&mut self, carried: &Carried) {
        self.last_ns = self.last_ns.max(carried.ns);
        self.is_guessed |= carried.is_guessed;
        let side = if carried.from_client {
            &mut self.client
        } else {
            &mut self.server
        };
        side.packets += 1;
        side.ip_bytes += carried.ip_bytes;
        if !carried.is_again && !carried.has_payload && carried.new_payload == 0 {
            return;
        }
        let content = side.content.get_or_insert_default();
        if carried.is_again {
            content.ip_bytes_again += carried.ip_bytes;
        }
        content.payload_bytes += carried.new_payload;
        if carried.has_payload {
            content.until_payload = Some((carried.ns, side.ip_bytes));
        }
    }

    /// Adds packets with unknown content that a side sent.
    pub fn sealed(&mut self, from_client: bool, packets: u64, ip_bytes: u64) {
        let side = if from_client {
            &mut self.client
        } else {
            &mut self.server
        };
        side.packets += packets;
        side.ip_bytes += ip_bytes;
    }

    /// Both directions' IP total lengths over the time from the first to the last packet.
    pub fn anrw_throughput_bps(&self) -> Option<i64> {
        let bytes = self.client.ip_bytes + self.server.ip_bytes;
        bits_per_second(bytes, self.last_ns - self.start_ns)
    }

    /// As [`Volume::anrw_throughput_bps`], without retransmissions.
    pub fn anrw_goodput_bps(&self) -> Option<i64> {
        let once = |side: &SideVolume| side.ip_bytes - side.content().ip_bytes_again;
        let bytes = once(&self.client) + once(&self.server);
        bits_per_second(bytes, self.last_ns - self.start_ns)
    }

    /// IP total lengths from the server, over the time from the first packet to the server's last packet with
    /// application data.
    pub fn download_throughput_bps(&self) -> Option<i64> {
        self.throughput_bps(&self.server)
    }

    /// As [`Volume::download_throughput_bps`], from the client.
    pub fn upload_throughput_bps(&self) -> Option<i64> {
        self.throughput_bps(&self.client)
    }

    /// The server's application data, each byte once, over the time of [`Volume::download_throughput_bps`].
    pub fn application_goodput_bps(&self) -> Option<i64> {
        let content = self.server.content();
        let (ns, _) = content.until_payload?;
        bits_per_second(content.payload_bytes, ns - self.start_ns)
    }

    /// Share of all bytes that are in retransmissions; `None` without bytes.
    pub fn retransmission_rate(&self) -> Option<f64> {
        let all = self.client.ip_bytes + self.server.ip_bytes;
        let again = self.client.content().ip_bytes_again + self.server.content().ip_bytes_again;
        (all > 0).then(|| again as f64 / all as f64)
    }

    fn throughput_bps(&self, side: &SideVolume) -> Option<i64> {
        let (ns, bytes) = side.content().until_payload?;
        bits_per_second(bytes, ns - self.start_ns)
    }
}

/// Bits per second of `bytes` in `ns` nanoseconds, rounded down; `None` if no time passed.
pub fn bits_per_second(bytes: u64, ns: i64) -> Option<i64> {
    if ns <= 0 {
        return None;
    }
    let ns = ns.unsigned_abs();
    // A 128-bit division takes many times as long as a 64-bit one.
    match bytes.checked_mul(8_000_000_000) {
        Some(bits) => i64::try_from(bits / ns).ok(),
        None => i64::try_from(u128::from(bytes) * 8_000_000_000 / u128::from(ns)).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_rates() {
        let mut volume = Volume::new(0);
        for (ns, from_client, ip_bytes, is_again, new_payload) in [
            (0, true, 60, false, 0),
            (500_000_000, false, 1040, false, 1000),
            (700_000_000, false, 1040, true, 0),
            (1_000_000_000, false, 540, false, 500),
            (2_000_000_000, false, 40, false, 0),
        ] {
            volume.packet(&Carried {
                ns,
                from_client,
                ip_bytes,
                is_guessed: false,
                is_again,
                has_payload: ip_bytes > 100,
                new_payload,
            });
        }
        assert_eq!(volume.anrw_throughput_bps(), Some(2720 * 4));
        assert_eq!(volume.anrw_goodput_bps(), Some(1680 * 4));
        assert_eq!(volume.download_throughput_bps(), Some(2620 * 8));
        assert_eq!(volume.application_goodput_bps(), Some(1500 * 8));
        assert_eq!(volume.upload_throughput_bps(), None);
        assert_eq!(volume.retransmission_rate(), Some(1040.0 / 2720.0));
        assert_eq!(Volume::new(3).anrw_throughput_bps(), None);
    }
}
