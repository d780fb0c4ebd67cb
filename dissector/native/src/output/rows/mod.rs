//! One module for each record kind: the values of a row, and where they come from.

pub mod pacing;
pub mod quic_ack;
pub mod quic_connection;
pub mod quic_packet;
pub mod tcp_flow;
pub mod tcp_packet;
