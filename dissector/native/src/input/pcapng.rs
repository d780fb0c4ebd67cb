//! Blocks of pcapng (draft-ietf-opsawg-pcapng). Each frame has the number of an interface, which determines link type
//! and clock.

use firstflight_wire::{Error, Reader};
use pcap_parser::{Block, InterfaceDescriptionBlock, OptionCode, SecretsType, UnknownBlock};

use super::{Captured, Found};

/// The obsolete Packet Block, which the library does not support. Enhanced Packet Blocks replace it.
const PACKET_BLOCK: u32 = 2;

/// The interfaces of the current section.
#[derive(Default)]
pub(super) struct Interfaces {
    list: Vec<Interface>,
    is_big_endian: bool,
}

struct Interface {
    link: i32,
    units_per_second: u64,
    offset_s: i64,
}

impl Interfaces {
    /// Returns a block's relevant content. Records interfaces, and skips other blocks.
    pub(super) fn block<'a>(&mut self, block: Block<'a>) -> Result<Option<Found<'a>>, String> {
        match block {
            Block::SectionHeader(header) => {
                self.list.clear();
                self.is_big_endian = header.big_endian();
            }
            Block::InterfaceDescription(interface) => {
                // More interfaces than a frame can refer to are a fault. The limit also bounds memory.
                if self.list.len() >= 1 << 16 {
                    return Err("expected at most 65536 interfaces".into());
                }
                self.list.push(Interface {
                    link: interface.linktype.0,
                    units_per_second: units_per_second(interface.if_tsresol)
                        .ok_or("expected a time resolution that fits 64 bits")?,
                    offset_s: offset_s(&interface, self.is_big_endian),
                });
            }
            Block::EnhancedPacket(packet) => {
                return self
                    .frame(&Timed {
                        interface: packet.if_id,
                        ticks: u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                        length: packet.origlen,
                        data: packet
                            .data
                            .get(..packet.caplen as usize)
                            .unwrap_or(packet.data),
                    })
                    .map(Some);
            }
            Block::Unknown(block) if self.kind(&block) == PACKET_BLOCK => {
                let packet = packet_block(block.data, self.is_big_endian)
                    .map_err(|_| "expected a whole Packet Block")?;
                return self.frame(&packet).map(Some);
            }
            Block::DecryptionSecrets(block) if block.secrets_type == SecretsType::TlsKeyLog => {
                let length = block.secrets_len as usize;
                return Ok(Some(Found::KeyLog(
                    block.data.get(..length).unwrap_or(block.data),
                )));
            }
            Block::SimplePacket(_) => return Ok(Some(Found::Untimed)),
            _ => {}
        }
        Ok(None)
    }

    /// The type of a block that the library does not support. The library always reads it as little-endian.
    fn kind(&self, block: &UnknownBlock<'_>) -> u32 {
        match self.is_big_endian {
            true => block.block_type.swap_bytes(),
            false => block.block_type,
        }
    }

    fn frame<'a>(&self, packet: &Timed<'a>) -> Result<Found<'a>, String> {
        let interface = usize::try_from(packet.interface)
            .ok()
            .and_then(|i| self.list.get(i));
        let interface = interface.ok_or("expected a frame of a declared interface")?;
        let nanos = i128::from(packet.ticks) * 1_000_000_000
            / i128::from(interface.units_per_second)
            + i128::from(interface.offset_s) * 1_000_000_000;
        let time_ns = i64::try_from(nanos).map_err(|_| "expected a time before the year 2262")?;
        Ok(Found::Frame(Captured {
            time_ns,
            link: interface.link,
            data: packet.data,
            length: packet.length,
        }))
    }
}

/// A frame in a block.
struct Timed<'a> {
    interface: u32,
    ticks: u64,
    /// On the wire.
    length: u32,
    data: &'a [u8],
}

/// Parses a Packet Block's body: interface, drop count, time, captured and original length, data, possibly
/// options.
fn packet_block(body: &[u8], is_big_endian: bool) -> Result<Timed<'_>, Error> {
    let mut r = Reader::new(body);
    let interface = r.array::<2>()?;
    r.bytes(2)?;
    let mut number = || {
        let bytes = r.array::<4>()?;
        Ok(match is_big_endian {
            true => u32::from_be_bytes(bytes),
            false => u32::from_le_bytes(bytes),
        })
    };
    let (high, low, captured, length) = (number()?, number()?, number()?, number()?);
    Ok(Timed {
        interface: u32::from(match is_big_endian {
            true => u16::from_be_bytes(interface),
            false => u16::from_le_bytes(interface),
        }),
        ticks: u64::from(high) << 32 | u64::from(low),
        length,
        data: r.bytes(captured as usize)?,
    })
}

/// if_tsoffset in seconds, in the byte order of the section, which the library ignores.
fn offset_s(interface: &InterfaceDescriptionBlock<'_>, is_big_endian: bool) -> i64 {
    let mut options = interface.options.iter();
    let option = options.find(|option| option.code == OptionCode::IfTsoffset);
    let bytes = option.and_then(|option| option.value.first_chunk::<8>());
    bytes.map_or(0, |bytes| match is_big_endian {
        true => i64::from_be_bytes(*bytes),
        false => i64::from_le_bytes(*bytes),
    })
}

/// if_tsresol: a power of 10, or of 2 if the top bit is set.
fn units_per_second(resolution: u8) -> Option<u64> {
    let exponent = u32::from(resolution & 0x7f);
    if resolution & 0x80 != 0 {
        1u64.checked_shl(exponent)
    } else {
        10u64.checked_pow(exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::units_per_second;

    #[test]
    fn resolutions() {
        assert_eq!(units_per_second(6), Some(1_000_000));
        assert_eq!(units_per_second(9), Some(1_000_000_000));
        assert_eq!(units_per_second(0x80 | 10), Some(1024));
        assert_eq!(units_per_second(20), None);
        assert_eq!(units_per_second(0xff), None);
    }
}
