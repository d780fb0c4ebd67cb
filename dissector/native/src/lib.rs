//! Captures in, records out. One pass over each capture; memory is bounded by the connections that are live
//! at a time.
//!
//! | module | does | uses |
//! | --- | --- | --- |
//! | `net` | finds the UDP datagrams and TCP segments in frames: link types, IP, fragments | |
//! | `padding` | leaves the padding of Initials out of records, and puts it back | |
//! | `input` | reads frames from pcap and pcapng, plain or compressed | `net`, `padding` |
//! | `writer`, `restore` | write pcap; restore standard captures from captures without padding | `input` |
//! | `flow` | provides components for flows of any protocol: tables, volume, pacing, quantiles | `net` |
//! | `tcp` | attributes segments to flows, and classifies them | `flow`, `net` |
//! | `quic` | attributes datagrams to connections, decrypts packets, names the first answer | `flow`, `net`, `padding` |
//! | `output` | writes the rows | `flow`, `net`, `quic`, `tcp` |
//! | `trim` | writes copies of captures without undecryptable bytes and without padding | `input`, `padding`, `writer` |
//! | `args`, `flow_rows`, `capture`, `dissect` | options; rows of flows; one capture; all captures | all |
//!
//! `temporary` creates unnamed files for `quic` and `output`. Calls only go down this list: tests/layers.rs fails if a
//! module uses another module than those listed for it.

#![warn(clippy::print_stderr)]
#![forbid(unsafe_code)]

pub mod args;
pub mod capture;
pub mod dissect;
pub mod flow;
pub mod flow_rows;
pub mod input;
pub mod net;
pub mod output;
pub mod padding;
pub mod quic;
pub mod restore;
pub mod tcp;
pub mod temporary;
pub mod trim;
pub mod writer;
