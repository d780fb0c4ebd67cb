//! Keys of Initials by the connection ID that they come from: those that were used last.

use firstflight_wire::{
    ConnectionId, InitialSecret, KeyCache, KeyMaterial, Keys, SuiteMaterial, Version,
};

/// Connections whose keys are kept: those of a tenth of a second at 20,000 new ones in a second.
const SLOTS: usize = 2048;

struct Slot {
    version: Version,
    cid: ConnectionId,
    secret: InitialSecret,
    client: Option<KeyMaterial>,
    server: Option<KeyMaterial>,
}

/// Keys of Initials, made when they are needed.
#[derive(Default)]
pub(super) struct InitialKeys {
    /// Connection IDs are random: their first bytes choose the place. None before the first one.
    slots: Vec<Option<Slot>>,
    schedules: KeyCache,
}

impl InitialKeys {
    /// The keys of a side; `None` for a version that is not known.
    pub(super) fn keys(
        &mut self,
        version: Version,
        cid: &ConnectionId,
        from_client: bool,
    ) -> Option<&Keys> {
        if self.slots.is_empty() {
            self.slots.resize_with(SLOTS, || None);
        }
        let first = cid.as_slice().first_chunk().copied().unwrap_or_default();
        let place = &mut self.slots[usize::from(u16::from_ne_bytes(first)) % SLOTS];
        if place
            .as_ref()
            .is_none_or(|slot| slot.cid != *cid || slot.version != version)
        {
            *place = Some(Slot {
                version,
                cid: *cid,
                secret: InitialSecret::new(version, cid)?,
                client: None,
                server: None,
            });
        }
        let slot = place.as_mut()?;
        let material = if from_client {
            slot.client.get_or_insert_with(|| slot.secret.client())
        } else {
            slot.server.get_or_insert_with(|| slot.secret.server())
        };
        Some(self.schedules.keys(&SuiteMaterial::from(*material)))
    }
}
