//! Frames of extensions: RESET_STREAM_AT (draft-ietf-quic-reliable-stream-reset), multipath
//! (draft-ietf-quic-multipath: the code points since version 4, and the final ones), TIME_STAMP
//! (draft-huitema-quic-ts), BDP (draft-kuhn-quic-bdpframe-extension, in picoquic's format), OBSERVED_ADDRESS
//! (draft-ietf-quic-address-discovery).
//!
//! PATH_ABANDON and PATH_CIDS_BLOCKED of the drafts are not supported: their fields changed between drafts, but
//! their code points did not, so the length of such a frame is unknown.

use super::{Ack, Frame};
use crate::{ConnectionId, Error, Reader};

/// Parses the fields of the frame of type `kind`. Returns `UnknownFrame` for an unknown type.
pub(super) fn parse<'a>(kind: u64, r: &mut Reader<'a>) -> Result<Frame<'a>, Error> {
    Ok(match kind {
        0x24 => Frame::ResetStreamAt {
            id: r.varint()?,
            code: r.varint()?,
            final_size: r.varint()?,
            reliable_size: r.varint()?,
        },
        0x3e | 0x3f | 0x1522_8c00 | 0x1522_8c01 | 0x00ba_ba00 | 0x00ba_ba01 => Frame::PathAck {
            path: r.varint()?,
            ack: Ack::parse(r, kind & 1 != 0)?,
        },
        0x3e75 => varints(r, "path_abandon", 2)?,
        0x3e76 | 0x1522_8c07 => varints(r, "path_status_backup", 2)?,
        0x3e77 | 0x1522_8c08 => varints(r, "path_status_available", 2)?,
        0x1522_8c06 => varints(r, "path_status", 3)?,
        0x3e78 | 0x1522_8c09 => {
            let (path, sequence, retire_prior_to) = (r.varint()?, r.varint()?, r.varint()?);
            let cid = r.vec8()?;
            if cid.is_empty() || retire_prior_to > sequence {
                return Err(Error::Malformed("PATH_NEW_CONNECTION_ID"));
            }
            Frame::PathNewConnectionId {
                path,
                sequence,
                retire_prior_to,
                cid: ConnectionId::new(cid)?,
                reset_token: r.array()?,
            }
        }
        0x3e79 | 0x1522_8c0a => varints(r, "path_retire_connection_id", 2)?,
        0x1522_8c0b => varints(r, "max_paths", 1)?,
        0x3e7a | 0x1522_8c0c => varints(r, "max_path_id", 1)?,
        0x3e7b | 0x1522_8c0d => varints(r, "paths_blocked", 1)?,
        0x3e7c => varints(r, "path_cids_blocked", 2)?,
        0x02f5 => Frame::TimeStamp(r.varint()?),
        0xebd9 => {
            let bdp = varints(r, "bdp", 3)?;
            r.varint_bytes()?;
            bdp
        }
        0x009f_81a6 | 0x009f_81a7 => {
            let address_and_port = if kind & 1 == 0 { 4 + 2 } else { 16 + 2 };
            let observed = varints(r, "observed_address", 1)?;
            r.bytes(address_and_port)?;
            observed
        }
        _ => return Err(Error::UnknownFrame(kind)),
    })
}

/// Reads a frame that starts with `count` integers, and ignores their values.
fn varints<'a>(r: &mut Reader<'a>, name: &'static str, count: u8) -> Result<Frame<'a>, Error> {
    for _ in 0..count {
        r.varint()?;
    }
    Ok(Frame::Extension { name })
}

#[cfg(test)]
mod tests {
    use crate::{Error, Frame, Frames, Writer};

    /// Parses a frame of type `kind` with the fields `rest`, followed by PING.
    fn names(kind: u64, rest: &[u8]) -> Result<Vec<&'static str>, Error> {
        let mut out = [0; 64];
        let mut w = Writer::new(&mut out);
        w.varint(kind).unwrap();
        w.bytes(rest).unwrap();
        w.bytes(&[1]).unwrap();
        let frames: Result<Vec<Frame<'_>>, Error> = Frames::new(w.written()).collect();
        Ok(frames?.iter().map(Frame::name).collect())
    }

    #[test]
    fn each_extension_frame_ends_where_its_draft_says() {
        let cid: &[u8] = &[&[2, 1, 0, 2, 7, 7][..], &[9; 16]].concat();
        for (kind, rest, name) in [
            (0x24, &[4, 1, 10, 5][..], "reset_stream_at"),
            (0x3e, &[0, 9, 3, 0, 1], "path_ack"),
            (0x3f, &[0, 9, 3, 0, 1, 4, 5, 6], "path_ack"),
            (0x1522_8c00, &[1, 9, 3, 1, 1, 2, 3], "path_ack"),
            (0x1522_8c01, &[1, 9, 3, 0, 1, 4, 5, 6], "path_ack"),
            (0x3e75, &[1, 2], "path_abandon"),
            (0x3e76, &[1, 2], "path_status_backup"),
            (0x1522_8c08, &[1, 2], "path_status_available"),
            (0x1522_8c06, &[1, 2, 3], "path_status"),
            (0x3e78, cid, "path_new_connection_id"),
            (0x1522_8c09, cid, "path_new_connection_id"),
            (0x3e79, &[1, 2], "path_retire_connection_id"),
            (0x1522_8c0c, &[7], "max_path_id"),
            (0x3e7b, &[7], "paths_blocked"),
            (0x3e7c, &[7, 1], "path_cids_blocked"),
            (0x02f5, &[0x80, 0, 0, 9], "time_stamp"),
            (0xebd9, &[1, 2, 3, 4, 192, 0, 2, 1], "bdp"),
            (0x9f_81a6, &[1, 192, 0, 2, 1, 1, 187], "observed_address"),
        ] {
            assert_eq!(names(kind, rest), Ok(vec![name, "ping"]), "{kind:#x}");
        }
        for kind in [0x21, 0x02f6, 0x1522_8c05, 0x1522_8c0e, 0x3fff_ffff_ffff] {
            assert_eq!(names(kind, &[1]), Err(Error::UnknownFrame(kind)));
        }
    }
}
