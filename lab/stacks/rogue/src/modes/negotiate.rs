//! Servers that do not support this version, or send nothing.

use crate::script::Script;
use crate::session::Session;
use firstflight_wire::{Error, Version, write_version_negotiation};
use std::time::Duration;

/// A reserved version of the form 0x?a?a?a?a (RFC 9000, 15).
const RESERVED: Version = Version(0x1a2a_3a4a);

/// Version Negotiation that repeats both connection IDs and does not list the client's version.
pub fn version(session: &Session, _: Duration) -> Result<Script, Error> {
    listing(session, &[Version::V2, Version::DRAFT_29, RESERVED])
}

/// Version Negotiation that also lists the client's version. A client must discard it (RFC 9000, 6.2).
pub fn own_version(session: &Session, _: Duration) -> Result<Script, Error> {
    listing(session, &[Version::V2, session.version, RESERVED])
}

fn listing(session: &Session, versions: &[Version]) -> Result<Script, Error> {
    let mut out = vec![0_u8; 128];
    let size = write_version_negotiation(
        &mut out,
        &session.client_cid,
        &session.odcid,
        versions,
        0x40,
    )?;
    out.truncate(size);
    Ok(Script::once(out))
}

pub fn silent(_: &Session, _: Duration) -> Result<Script, Error> {
    Ok(Script::nothing())
}
