//! Frames of RFC 9000 19, RFC 9221, draft-ietf-quic-ack-frequency and the extensions in `extension`.

mod ack;
mod extension;
mod parse;
mod write;

pub use ack::{Ack, AckRanges};
pub use parse::Frames;
pub use write::{
    write_ack, write_application_close, write_connection_close, write_crypto, write_path_response,
    write_ping, write_retire_connection_id, write_stream,
};

/// One frame. Byte strings borrow from the packet's payload.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Frame<'a> {
    /// A run of `length` PADDING frames.
    Padding {
        length: usize,
    },
    Ping,
    Ack(Ack<'a>),
    ResetStream {
        id: u64,
        code: u64,
        final_size: u64,
    },
    StopSending {
        id: u64,
        code: u64,
    },
    Crypto {
        offset: u64,
        data: &'a [u8],
    },
    NewToken {
        token: &'a [u8],
    },
    Stream {
        id: u64,
        offset: u64,
        fin: bool,
        data: &'a [u8],
    },
    MaxData(u64),
    MaxStreamData {
        id: u64,
        max: u64,
    },
    MaxStreams {
        bidirectional: bool,
        max: u64,
    },
    DataBlocked(u64),
    StreamDataBlocked {
        id: u64,
        limit: u64,
    },
    StreamsBlocked {
        bidirectional: bool,
        limit: u64,
    },
    NewConnectionId {
        sequence: u64,
        retire_prior_to: u64,
        cid: crate::ConnectionId,
        reset_token: [u8; 16],
    },
    RetireConnectionId {
        sequence: u64,
    },
    PathChallenge([u8; 8]),
    PathResponse([u8; 8]),
    /// 0x1c: a transport error, with the type of the frame that caused it (0: unknown).
    ConnectionClose {
        code: u64,
        frame_type: u64,
        reason: &'a [u8],
    },
    /// 0x1d: closed by the application.
    ApplicationClose {
        code: u64,
        reason: &'a [u8],
    },
    HandshakeDone,
    ImmediateAck,
    AckFrequency {
        sequence: u64,
        ack_eliciting_threshold: u64,
        max_ack_delay_us: u64,
        reordering_threshold: u64,
    },
    Datagram {
        data: &'a [u8],
    },
    ResetStreamAt {
        id: u64,
        code: u64,
        final_size: u64,
        reliable_size: u64,
    },
    /// Acknowledges packets on one of several paths. The handshake uses path 0.
    PathAck {
        path: u64,
        ack: Ack<'a>,
    },
    PathNewConnectionId {
        path: u64,
        sequence: u64,
        retire_prior_to: u64,
        cid: crate::ConnectionId,
        reset_token: [u8; 16],
    },
    TimeStamp(u64),
    /// A frame of another extension; the fields are ignored.
    Extension {
        name: &'static str,
    },
}

impl Frame<'_> {
    /// Returns the name of RFC 9000 19 in lower case, for messages and records.
    pub fn name(&self) -> &'static str {
        match self {
            Frame::Padding { .. } => "padding",
            Frame::Ping => "ping",
            Frame::Ack(_) => "ack",
            Frame::ResetStream { .. } => "reset_stream",
            Frame::StopSending { .. } => "stop_sending",
            Frame::Crypto { .. } => "crypto",
            Frame::NewToken { .. } => "new_token",
            Frame::Stream { .. } => "stream",
            Frame::MaxData(_) => "max_data",
            Frame::MaxStreamData { .. } => "max_stream_data",
            Frame::MaxStreams { .. } => "max_streams",
            Frame::DataBlocked(_) => "data_blocked",
            Frame::StreamDataBlocked { .. } => "stream_data_blocked",
            Frame::StreamsBlocked { .. } => "streams_blocked",
            Frame::NewConnectionId { .. } => "new_connection_id",
            Frame::RetireConnectionId { .. } => "retire_connection_id",
            Frame::PathChallenge(_) => "path_challenge",
            Frame::PathResponse(_) => "path_response",
            Frame::ConnectionClose { .. } => "connection_close",
            Frame::ApplicationClose { .. } => "application_close",
            Frame::HandshakeDone => "handshake_done",
            Frame::ImmediateAck => "immediate_ack",
            Frame::AckFrequency { .. } => "ack_frequency",
            Frame::Datagram { .. } => "datagram",
            Frame::ResetStreamAt { .. } => "reset_stream_at",
            Frame::PathAck { .. } => "path_ack",
            Frame::PathNewConnectionId { .. } => "path_new_connection_id",
            Frame::TimeStamp(_) => "time_stamp",
            Frame::Extension { name } => name,
        }
    }

    /// Returns whether a packet with this frame elicits an acknowledgement (RFC 9002 2). TIME_STAMP never does
    /// (draft-huitema-quic-ts 3).
    pub fn is_ack_eliciting(&self) -> bool {
        !matches!(
            self,
            Frame::Padding { .. }
                | Frame::Ack(_)
                | Frame::PathAck { .. }
                | Frame::TimeStamp(_)
                | Frame::ConnectionClose { .. }
                | Frame::ApplicationClose { .. }
        )
    }

    /// Returns whether Initial and Handshake packets may carry the frame (RFC 9000 12.4, table 3; 12.5).
    pub fn allowed_in_initial(&self) -> bool {
        matches!(
            self,
            Frame::Padding { .. }
                | Frame::Ping
                | Frame::Ack(_)
                | Frame::Crypto { .. }
                | Frame::ConnectionClose { .. }
        )
    }
}
