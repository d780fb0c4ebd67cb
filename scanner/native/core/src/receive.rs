//! Receiving: which ports have something to read, and what the kernel says about each datagram.

pub mod cmsg;
pub mod poll;
