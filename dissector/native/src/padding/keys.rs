//! A cache of Initial keys, by connection ID.

use firstflight_wire::{
    ConnectionId, InitialSecret, KeyCache, KeyMaterial, Keys, SuiteMaterial, Version,
};

/// Number of connections with cached keys: a tenth of a second at 20,000 new connections a second.
const SLOTS: usize = 2048;

struct Slot {
    version: Version,
    cid: ConnectionId,
    client: Option<KeyMaterial>,
    server: Option<KeyMaterial>,
}

impl Slot {
    fn of(&mut self, from_client: bool) -> &mut Option<KeyMaterial> {
        if from_client {
            &mut self.client
        } else {
            &mut self.server
        }
    }
}

/// A source of Initial keys.
pub(super) trait KeySource {
    /// A side's keys; `None` for an unknown version.
    fn keys(&mut self, version: Version, cid: &ConnectionId, from_client: bool) -> Option<&Keys>;
}

/// Keys of Initials, derived on first use.
#[derive(Default)]
pub(super) struct InitialKeys {
    /// Connection IDs are random, so their first bytes are the index. Empty until the first use.
    slots: Vec<Option<Slot>>,
    schedules: KeyCache,
}

impl KeySource for InitialKeys {
    fn keys(&mut self, version: Version, cid: &ConnectionId, from_client: bool) -> Option<&Keys> {
        let slot = self.slot(version, cid).of(from_client);
        let material = match *slot {
            Some(material) => material,
            None => {
                let secret = InitialSecret::new(version, cid)?;
                let made = if from_client {
                    secret.client()
                } else {
                    secret.server()
                };
                *slot.insert(made)
            }
        };
        Some(self.schedules.keys(&SuiteMaterial::from(material)))
    }
}

impl InitialKeys {
    fn slot(&mut self, version: Version, cid: &ConnectionId) -> &mut Slot {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let first = cid.as_slice().first_chunk().copied().unwrap_or_default();
        let place = &mut self.slots[usize::from(u16::from_ne_bytes(first)) % SLOTS];
        let is_other = |slot: &mut Slot| slot.cid != *cid || slot.version != version;
        place.take_if(is_other);
        place.get_or_insert(Slot {
            version,
            cid: *cid,
            client: None,
            server: None,
        })
    }
}
