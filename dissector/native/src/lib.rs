//! Captures in, records out.
//!
//! `input` reads frames from pcap and pcapng, `link` and `ip` find the UDP datagrams in them, `connection` tells which connection
//! a datagram belongs to and opens what can be opened, `timeline` keeps when what was seen and names the first answer, `seen` what each
//! packet looked like, `flows` what is asked about flows of any kind (`pacing`, `tcp`), `output` writes the rows. `capture` leads one capture
//! through all of these, `dissect` several. One pass over each capture; memory is bounded by the connections that are live at a time.

#![forbid(unsafe_code)]

pub mod args;
pub mod capture;
pub mod dissect;
pub mod flow;
pub mod flow_rows;
pub mod input;
pub mod net;
pub mod output;
pub mod quic;
pub mod tcp;
pub mod temporary;
