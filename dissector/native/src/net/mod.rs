//! From a frame to the datagram or segment in it: link types, IP headers, fragments.

pub mod fragments;
pub mod ip;
pub mod link;
mod tunnel;
pub mod unread;
