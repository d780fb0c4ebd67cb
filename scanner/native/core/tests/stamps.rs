//! Every datagram that arrives at a port has the kernel's receive stamp, from the first datagram on.
//!
//! This test needs a separate process: other sockets that request stamps make the kernel stamp all datagrams
//! on the machine.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

use std::net::UdpSocket;

use firstflight_core::clock::{Clock, SECOND};
use firstflight_core::egress::Ports;
use firstflight_core::receive::{Event, Receiver};

/// Binds ports, immediately sends a datagram to one port, and returns whether the datagram has a stamp.
fn first_is_stamped() -> bool {
    let source = ["127.0.16.1".parse().unwrap()];
    let ports = Ports::bind(&source, None, [true, false], 7).unwrap();
    let mut receiver = Receiver::new(&ports, Clock::start()).unwrap();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    sender.send_to(b"first", ports.locals()[0]).unwrap();
    let mut stamped = None;
    while stamped.is_none() {
        receiver.wait(SECOND);
        receiver.read_all(|_, event| {
            if let Event::Datagram { control, .. } = event {
                stamped = Some(control.stamp.is_some());
            }
        });
    }
    stamped.unwrap()
}

#[test]
fn the_first_datagram_has_a_stamp() {
    // After each round, the kernel may stop stamping.
    for round in 0..20 {
        assert!(first_is_stamped(), "round {round}");
    }
}
