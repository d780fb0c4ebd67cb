//! QUIC: connections, the keys that decrypt their packets, loss recovery, acknowledgements, the timeline of the
//! handshake, the packet log.

pub mod acks;
pub mod connection;
pub mod keylog;
pub mod packet_log;
pub mod recovery;
pub mod timeline;
