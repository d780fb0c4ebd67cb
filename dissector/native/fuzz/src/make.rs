//! Well-formed captures from arbitrary bytes, so that the code after the parsers is reached.

/// Reads bytes from the front. After the last byte, it returns zeros.
pub struct Bytes<'a>(pub &'a [u8]);

impl<'a> Bytes<'a> {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn u8(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else {
            return 0;
        };
        self.0 = rest;
        first
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_be_bytes([self.u8(), self.u8()])
    }

    pub fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

/// A pcap file with nanoseconds, built frame by frame.
pub struct Pcap {
    bytes: Vec<u8>,
    ns: u64,
}

impl Pcap {
    pub fn new(link: u32) -> Pcap {
        Pcap::marked(link, 0)
    }

    /// Creates a file with `mark` in the `sigfigs` field.
    pub fn marked(link: u32, mark: u32) -> Pcap {
        let words = [0xa1b2_3c4d, 0x0004_0002, 0, mark, 65_535, link];
        Pcap {
            bytes: words.iter().flat_map(|w: &u32| w.to_le_bytes()).collect(),
            ns: 0,
        }
    }

    /// Adds a frame, `after_ns` after the previous one.
    pub fn frame(&mut self, after_ns: u64, data: &[u8]) {
        self.record(after_ns, data, data.len());
    }

    /// Adds a frame of `length` bytes with only `data` captured.
    pub fn record(&mut self, after_ns: u64, data: &[u8], length: usize) {
        self.ns += after_ns;
        let captured = data.len() as u32;
        let seconds = 1_700_000_000 + (self.ns / 1_000_000_000) as u32;
        let rest = (self.ns % 1_000_000_000) as u32;
        for word in [seconds, rest, captured, length as u32] {
            self.bytes.extend(word.to_le_bytes());
        }
        self.bytes.extend(data);
    }

    pub fn bytes(self) -> Vec<u8> {
        self.bytes
    }
}

/// An IPv4 packet without options between two hosts. `place` is the field with flags and fragment offset.
pub fn ipv4(from_client: bool, protocol: u8, id: u16, place: u16, payload: &[u8]) -> Vec<u8> {
    let hosts = [[192, 0, 2, 1], [198, 51, 100, 1]];
    let length = (payload.len() + 20) as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(length.to_be_bytes());
    packet.extend(id.to_be_bytes());
    packet.extend(place.to_be_bytes());
    packet.extend([57, protocol, 0, 0]);
    packet.extend(hosts[usize::from(!from_client)]);
    packet.extend(hosts[usize::from(from_client)]);
    packet.extend(payload);
    packet
}

/// An IPv6 packet from one host to another, with `next` in the header.
pub fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((payload.len() as u16).to_be_bytes());
    packet.extend([next, 57]);
    packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    packet.extend([0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    packet.extend(payload);
    packet
}

/// A UDP datagram in IPv4, between port 40000 of the client and 443 of the server.
pub fn udp(from_client: bool, payload: &[u8]) -> Vec<u8> {
    let ports = if from_client {
        [40_000u16, 443]
    } else {
        [443, 40_000]
    };
    let mut datagram: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
    datagram.extend((payload.len() as u16 + 8).to_be_bytes());
    datagram.extend([0, 0]);
    datagram.extend(payload);
    ipv4(from_client, 17, 0, 0x4000, &datagram)
}

/// Segments in a TCP connection. The input has a byte per segment for side, time and port, and bytes for flags,
/// distances of the numbers, window and sizes.
pub fn tcp_conversation(data: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(data);
    let mut pcap = Pcap::new(101);
    let mut next = [u32::MAX - 3000, 7];
    while !bytes.is_empty() {
        let what = bytes.u8();
        let from_client = what & 1 == 0;
        let (own, other) = (usize::from(!from_client), usize::from(from_client));
        let flags = bytes.u8();
        let seq = next[own].wrapping_add_signed(i32::from(bytes.u16() as i16));
        let ack = next[other].wrapping_add_signed(i32::from(bytes.u16() as i16));
        let window = bytes.u16();
        let size = bytes.u16() % 1500;
        let options = bytes.take(usize::from(what >> 3 & 7) * 4);
        let offset = (5 + options.len().div_ceil(4)) as u8;
        let ports = if from_client {
            [40_000u16, 443]
        } else {
            [443, 40_000]
        };
        let mut segment: Vec<u8> = ports.iter().flat_map(|port| port.to_be_bytes()).collect();
        segment.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
        segment.extend([offset << 4, flags]);
        segment.extend(window.to_be_bytes());
        segment.extend([0; 4]);
        segment.extend(options);
        segment.resize(usize::from(offset) * 4 + usize::from(size), 0);
        next[own] = seq.wrapping_add(u32::from(size) + u32::from(flags & 3 != 0));
        let after_ns = [1000, 400_000, 30_000_000, 400_000_000_000][usize::from(what >> 6)];
        pcap.frame(after_ns, &ipv4(from_client, 6, 0, 0x4000, &segment));
    }
    pcap.bytes()
}

/// IP fragments of both families. The input has three bytes per fragment: for family and identification, for the
/// offset, and for the size.
pub fn fragments(data: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(data);
    let mut pcap = Pcap::new(101);
    while !bytes.is_empty() {
        let what = bytes.u8();
        let (place, size) = (bytes.u16(), usize::from(bytes.u8()));
        let payload = bytes.take(size);
        let id = u16::from(what >> 4);
        let protocol = [17, 6, 1, 17][usize::from(what >> 1 & 3)];
        let packet = if what & 1 == 0 {
            ipv4(true, protocol, id, place, payload)
        } else {
            let mut extension = vec![protocol, 0];
            extension.extend((place << 3 | place >> 15).to_be_bytes());
            extension.extend(u32::from(id).to_be_bytes());
            extension.extend(payload);
            ipv6(44, &extension)
        };
        pcap.frame(if what & 8 == 0 { 1000 } else { 9_000_000_000 }, &packet);
    }
    pcap.bytes()
}

/// Blocks of pcapng with valid lengths. The input has a byte per block for the type and two for the size.
pub fn pcapng(data: &[u8]) -> Vec<u8> {
    let mut bytes = Bytes(data);
    let mut file = Vec::new();
    block(&mut file, 0x0a0d_0d0a, &section());
    block(&mut file, 1, &[101, 0, 0, 0, 0, 0, 4, 0]);
    while !bytes.is_empty() {
        let kind = bytes.u8();
        let size = usize::from(bytes.u16() % 2000);
        let body = bytes.take(size);
        match kind % 8 {
            0 => block(&mut file, 0x0a0d_0d0a, &section()),
            1 => block(&mut file, 1, body),
            2 => block(&mut file, 3, body),
            3 => block(&mut file, 10, body),
            4 => {
                let log = [&b"KSLT"[..], &(body.len() as u32).to_le_bytes(), body].concat();
                block(&mut file, 10, &log);
            }
            5 => block(&mut file, u32::from(kind), body),
            _ => {
                let length = (body.len() as u32).to_le_bytes();
                let head = [&[0; 4][..], &[0, 1, 2, 3], &[9; 4], &length, &length].concat();
                block(&mut file, 6, &[&head, body].concat());
            }
        }
    }
    file
}

fn section() -> Vec<u8> {
    [&[0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0][..], &[0xff; 8]].concat()
}

fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
    let padded = body.len().next_multiple_of(4);
    let length = (padded as u32 + 12).to_le_bytes();
    file.extend(kind.to_le_bytes());
    file.extend(length);
    file.extend(body);
    file.resize(file.len() + padded - body.len(), 0);
    file.extend(length);
}
