//! What leaves and what arrives: datagrams and TCP connections.

pub mod connected;
pub mod connects;
pub mod egress;
mod epoll;
mod messages;
pub mod receive;
