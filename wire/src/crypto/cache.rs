//! Key schedules of the directions that were read last.

use super::{Keys, SuiteMaterial};

/// Schedules kept: those of some forty connections. Packets of one flight follow each other closely.
const SLOTS: usize = 256;

/// Key schedules by what they are made of. A connection keeps only the bytes ([`SuiteMaterial`]): schedules
/// take ten times the room, and hardly more time to be made again than to be fetched from far memory.
pub struct KeyCache {
    /// A key is random, so its first byte chooses the place.
    slots: Box<[Option<(SuiteMaterial, Keys)>]>,
}

impl Default for KeyCache {
    fn default() -> Self {
        KeyCache {
            slots: (0..SLOTS).map(|_| None).collect(),
        }
    }
}

impl KeyCache {
    /// The keys of `material`, made now unless they are still there.
    pub fn keys(&mut self, material: &SuiteMaterial) -> &Keys {
        let slot = &mut self.slots[usize::from(material.key[0]) % SLOTS];
        if slot.as_ref().is_some_and(|(of, _)| of != material) {
            *slot = None;
        }
        let (_, keys) = slot.get_or_insert_with(|| (*material, Keys::of_suite(material)));
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::KeyMaterial;
    use crate::parse_packet;

    #[test]
    fn directions_in_one_place_do_not_take_each_others_keys() {
        let material = |last: u8| {
            let mut key = [9; 16];
            key[15] = last;
            SuiteMaterial::from(KeyMaterial {
                key,
                iv: [last; 12],
                hp: [last; 16],
            })
        };
        let mut cache = KeyCache::default();
        let mut opens = |sealed_by: u8, opened_by: u8| {
            let mut bytes = [0; 40];
            bytes[0] = 0x43;
            let keys = Keys::of_suite(&material(sealed_by));
            keys.seal(&mut bytes, 1, 4, 0).unwrap();
            let packet = parse_packet(&bytes, 0, 0).unwrap();
            let keys = cache.keys(&material(opened_by));
            keys.open(&mut bytes, &packet, None).is_ok()
        };
        for (sealed_by, opened_by) in [(1, 1), (1, 2), (2, 2), (2, 1), (1, 1), (1, 1)] {
            assert_eq!(opens(sealed_by, opened_by), sealed_by == opened_by);
        }
    }
}
