//! Blocks of pcapng (draft-ietf-opsawg-pcapng): frames carry the number of an interface, which gives link type and clock.

use pcap_parser::{Block, InterfaceDescriptionBlock, OptionCode, SecretsType};

use super::{Captured, Found};

/// The interfaces of the section in force.
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
    /// What matters in a block; other blocks are taken note of or skipped.
    pub(super) fn block<'a>(&mut self, block: Block<'a>) -> Result<Option<Found<'a>>, String> {
        match block {
            Block::SectionHeader(header) => {
                self.list.clear();
                self.is_big_endian = header.big_endian();
            }
            Block::InterfaceDescription(interface) => {
                // A capture of more interfaces than frames could come from is broken; this also bounds memory.
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
                let interface = usize::try_from(packet.if_id)
                    .ok()
                    .and_then(|i| self.list.get(i));
                let interface = interface.ok_or("expected a frame of a declared interface")?;
                let ticks = u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low);
                let nanos = i128::from(ticks) * 1_000_000_000
                    / i128::from(interface.units_per_second)
                    + i128::from(interface.offset_s) * 1_000_000_000;
                let time_ns =
                    i64::try_from(nanos).map_err(|_| "expected a time before the year 2262")?;
                let data = packet
                    .data
                    .get(..packet.caplen as usize)
                    .unwrap_or(packet.data);
                return Ok(Some(Found::Frame(Captured {
                    time_ns,
                    link: interface.link,
                    data,
                    length: packet.origlen,
                })));
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
}

/// if_tsoffset: seconds, in the byte order of the section, which the library does not heed.
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
