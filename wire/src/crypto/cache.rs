//! A cache of recently used key schedules.

use super::{Keys, SuiteMaterial};

/// Number of cached schedules, enough for about forty connections. The packets in a flight arrive close together.
const SLOTS: usize = 256;

/// Maps key material to key schedules. A connection stores only the material ([`SuiteMaterial`]). A schedule
/// needs ten times as much memory, and expanding it is hardly slower than loading it from distant memory.
pub struct KeyCache {
    /// Indexed by the first byte of the key, which is random.
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
    /// Returns the keys of `material`. Expands them if they are not in the cache.
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
