//! TCP headers and options (RFC 9293 3.1, 3.2; RFC 7323; RFC 2018; RFC 3168).

use crate::{Error, Reader};

/// Control bits in a header, including the ECN bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub const FIN: u8 = 0x01;
    pub const SYN: u8 = 0x02;
    pub const RST: u8 = 0x04;
    pub const PSH: u8 = 0x08;
    pub const ACK: u8 = 0x10;
    pub const URG: u8 = 0x20;
    pub const ECE: u8 = 0x40;
    pub const CWR: u8 = 0x80;

    /// Returns whether any of `bits` is set.
    pub fn any(self, bits: u8) -> bool {
        self.0 & bits != 0
    }

    /// Returns whether all of `bits` are set.
    pub fn all(self, bits: u8) -> bool {
        self.0 & bits == bits
    }

    /// Returns whether this is a SYN without ACK.
    pub fn is_syn(self) -> bool {
        self.all(Self::SYN) && !self.any(Self::ACK)
    }

    /// Returns whether this is a SYN-ACK.
    pub fn is_syn_ack(self) -> bool {
        self.all(Self::SYN | Self::ACK)
    }
}

/// A TCP header. `options` may be shorter than in the header if the capture truncated it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: u32,
    pub ack: u32,
    pub flags: Flags,
    /// The unscaled value on the wire.
    pub window: u16,
    pub checksum: u16,
    pub urgent: u16,
    /// Length of the header with the options in bytes: a multiple of 4, at least 20.
    pub length: usize,
    pub options: &'a [u8],
}

impl<'a> Header<'a> {
    /// Parses the header at the start of `segment`. Returns [`Error::Malformed`] if the data offset is below five
    /// words.
    pub fn parse(segment: &'a [u8]) -> Result<Header<'a>, Error> {
        let mut r = Reader::new(segment);
        let (src_port, dst_port) = (r.u16()?, r.u16()?);
        let (seq, ack) = (r.u32()?, r.u32()?);
        let (offset, flags) = (r.u8()?, Flags(r.u8()?));
        let (window, checksum, urgent) = (r.u16()?, r.u16()?, r.u16()?);
        let length = usize::from(offset >> 4) * 4;
        let options = length
            .checked_sub(20)
            .ok_or(Error::Malformed("TCP data offset"))?;
        Ok(Header {
            src_port,
            dst_port,
            seq,
            ack,
            flags,
            window,
            checksum,
            urgent,
            length,
            options: &r.rest()[..options.min(r.len())],
        })
    }

    /// Returns whether the capture truncated the options.
    pub fn is_cut(&self) -> bool {
        20 + self.options.len() < self.length
    }

    /// Returns the options, in order. If the capture truncated them, the last item is [`Error::Truncated`].
    pub fn options(&self) -> Options<'a> {
        Options {
            rest: Reader::new(self.options),
            is_cut: self.is_cut(),
        }
    }
}

/// An option in a TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Kind 0: the rest of the header is padding.
    End,
    NoOperation,
    /// In bytes.
    MaximumSegmentSize(u16),
    /// Shift count of the window; values above 14 count as 14 (RFC 7323 2.3).
    WindowScale(u8),
    SackPermitted,
    Sack(SackBlocks<'a>),
    Timestamps {
        value: u32,
        echo: u32,
    },
    /// An unknown kind, or a known kind with a wrong length.
    Other {
        kind: u8,
        data: &'a [u8],
    },
}

/// Blocks in a SACK option. Each has its first sequence number and the one after its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SackBlocks<'a>(&'a [u8]);

impl SackBlocks<'_> {
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.0.as_chunks::<8>().0.iter().map(|b| {
            let [a, b, c, d, e, f, g, h] = *b;
            (
                u32::from_be_bytes([a, b, c, d]),
                u32::from_be_bytes([e, f, g, h]),
            )
        })
    }
}

/// Iterates over options. Stops after kind 0, at the end of the bytes, and after an error.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: Reader<'a>,
    is_cut: bool,
}

impl<'a> Options<'a> {
    fn read(&mut self) -> Result<TcpOption<'a>, Error> {
        let kind = self.rest.u8()?;
        if kind < 2 {
            return Ok(if kind == 0 {
                TcpOption::End
            } else {
                TcpOption::NoOperation
            });
        }
        let size = usize::from(self.rest.u8()?)
            .checked_sub(2)
            .ok_or(Error::Malformed("TCP option length"))?;
        let data = self.rest.bytes(size)?;
        Ok(match (kind, data) {
            (2, &[a, b]) => TcpOption::MaximumSegmentSize(u16::from_be_bytes([a, b])),
            (3, &[shift]) => TcpOption::WindowScale(shift),
            (4, []) => TcpOption::SackPermitted,
            (5, _) if size % 8 == 0 && size > 0 => TcpOption::Sack(SackBlocks(data)),
            (8, &[a, b, c, d, e, f, g, h]) => TcpOption::Timestamps {
                value: u32::from_be_bytes([a, b, c, d]),
                echo: u32::from_be_bytes([e, f, g, h]),
            },
            _ => TcpOption::Other { kind, data },
        })
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<TcpOption<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() && !self.is_cut {
            return None;
        }
        let option = self.read();
        if matches!(option, Ok(TcpOption::End) | Err(_)) {
            self.rest = Reader::new(&[]);
            self.is_cut = false;
        }
        Some(option)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// A SYN from Linux.
    const SYN: &str = "9c40 01bb 11223344 00000000 a0c2 fa f0 0000 0000
                       0204 05b4 0402 080a 00000001 00000000 01 030307";

    fn walk(bytes: &[u8]) -> Options<'_> {
        Options {
            rest: Reader::new(bytes),
            is_cut: false,
        }
    }

    #[test]
    fn options_of_a_syn_in_order() {
        let bytes = hex(SYN);
        let header = Header::parse(&bytes).unwrap();
        assert_eq!((header.src_port, header.dst_port), (40000, 443));
        assert_eq!((header.seq, header.length), (0x1122_3344, 40));
        assert!(header.flags.is_syn() && header.flags.all(Flags::ECE | Flags::CWR));
        let options: Result<Vec<_>, _> = header.options().collect();
        assert_eq!(
            options.unwrap(),
            [
                TcpOption::MaximumSegmentSize(1460),
                TcpOption::SackPermitted,
                TcpOption::Timestamps { value: 1, echo: 0 },
                TcpOption::NoOperation,
                TcpOption::WindowScale(7),
            ]
        );
    }

    #[test]
    fn sack_blocks_and_unknown_options() {
        let options = hex("050a 00000001 00000009 fd04 abcd 00 ff");
        let seen: Vec<_> = walk(&options).collect();
        let Ok(TcpOption::Sack(blocks)) = seen[0] else {
            panic!("no SACK")
        };
        assert_eq!(blocks.iter().collect::<Vec<_>>(), [(1, 9)]);
        assert_eq!(
            seen[1],
            Ok(TcpOption::Other {
                kind: 253,
                data: &[0xab, 0xcd]
            })
        );
        assert_eq!((seen[2], seen.len()), (Ok(TcpOption::End), 3));
    }

    #[test]
    fn broken_options_end_the_walk() {
        for (bytes, error) in [
            (&[2, 1, 0][..], Error::Malformed("TCP option length")),
            (&[2, 4, 5], Error::Truncated),
            (&[8], Error::Truncated),
        ] {
            let seen: Vec<_> = walk(bytes).collect();
            assert_eq!(seen, [Err(error)]);
        }
    }

    #[test]
    fn headers_cut_or_too_short() {
        let bytes = hex(SYN);
        for n in 0..20 {
            assert_eq!(Header::parse(&bytes[..n]), Err(Error::Truncated));
        }
        let cut = Header::parse(&bytes[..30]).unwrap();
        assert_eq!((cut.length, cut.options.len()), (40, 10));
        assert_eq!(cut.options().last(), Some(Err(Error::Truncated)));
        // Truncated between two options.
        let cut = Header::parse(&bytes[..24]).unwrap();
        let options: Vec<_> = cut.options().collect();
        let mss = TcpOption::MaximumSegmentSize(1460);
        assert_eq!(options, [Ok(mss), Err(Error::Truncated)]);
        let mut short = bytes;
        short[12] = 0x40;
        assert_eq!(
            Header::parse(&short),
            Err(Error::Malformed("TCP data offset"))
        );
    }
}
