//! Acknowledgements of made-up packets.

use firstflight_wire::{Writer, write_ack, write_ping};

use super::*;

const MS: i64 = 1_000_000;

/// Feeds a connection's packets; each has a header of 10 bytes.
#[derive(Default)]
struct Fed {
    acks: Acks,
    numbers: [u64; 2],
}

impl Fed {
    fn packet(&mut self, ms: i64, from_client: bool, number: u64, space: Space, payload: &[u8]) {
        let packet = AckPacket {
            space,
            ns: ms * MS,
            number,
            size: 10 + payload.len() + TAG_LEN,
            payload,
            max_ack_delay_ms: 25,
            exponent: 3,
        };
        self.acks.packet(from_client, &packet);
        self.acks.datagram(from_client, 1, 100 + payload.len());
    }

    /// The server sends an ack-eliciting packet.
    fn ping(&mut self, ms: i64, number: u64) {
        self.packet(ms, false, number, Space::Application, &[1]);
    }

    /// The client acknowledges ranges of (largest, smallest), with these additional frames.
    fn ack(&mut self, ms: i64, ranges: &[(u64, u64)], besides: &[u8]) {
        let mut out = [0; 200];
        let mut w = Writer::new(&mut out);
        write_ack(&mut w, ranges[0].0, 10, ranges).unwrap();
        w.bytes(besides).unwrap();
        let number = self.numbers[0];
        self.numbers[0] += 1;
        self.packet(ms, true, number, Space::Application, w.written());
    }

    fn client(&self) -> &Side {
        &self.acks.client
    }
}

#[test]
fn an_ack_counts_what_it_acknowledges_for_the_first_time() {
    let mut fed = Fed::default();
    (0..4).for_each(|n| fed.ping(n as i64, n));
    fed.ack(5, &[(1, 0)], &[]);
    fed.ack(6, &[(3, 0)], &[]);
    fed.ack(7, &[(3, 0)], &[]);
    let side = fed.client();
    assert_eq!((side.ratio.acks, side.ratio.packets), (3, 4));
    assert_eq!(
        side.per_ack.quantiles([0.0, 0.5, 1.0]),
        [Some(0), Some(2), Some(2)]
    );
    assert_eq!(side.ratio.share(), Some(4.0 / 3.0));
    assert_eq!((side.received.packets, side.received.eliciting), (4, 4));
    assert_eq!(side.received.eliciting_acknowledged, 4);
    // The third ACK acknowledges nothing new, so it has no wait.
    assert_eq!(side.waits.count(), 2);
    assert_eq!(
        (side.waits.min(), side.waits.max()),
        (Some(4 * MS), Some(5 * MS))
    );
    assert_eq!((side.packets, side.eliciting), (3, 0));
    assert_eq!((fed.acks.server.packets, fed.acks.server.eliciting), (4, 4));
    assert!(side.acknowledges() && !fed.acks.server.acknowledges());
}

#[test]
fn packets_that_elicit_no_acknowledgement_are_not_counted_in_one() {
    let mut fed = Fed::default();
    fed.packet(0, false, 0, Space::Application, &[0, 0]);
    fed.ping(1, 1);
    fed.ack(2, &[(1, 0)], &[]);
    let side = fed.client();
    assert_eq!((side.received.packets, side.received.eliciting), (2, 1));
    assert_eq!(side.per_ack.max(), Some(1));
    assert_eq!(side.waits.max(), Some(MS));
}

#[test]
fn causes_are_order_then_time_then_number() {
    let mut fed = Fed::default();
    fed.ping(0, 0);
    fed.ack(23, &[(0, 0)], &[]);
    fed.ping(30, 1);
    fed.ack(54, &[(1, 0)], &[]);
    fed.ping(60, 2);
    fed.ack(86, &[(2, 0)], &[]);
    // A gap, then the missing packet.
    fed.ping(90, 4);
    fed.ack(90, &[(4, 4), (2, 0)], &[]);
    fed.ping(91, 3);
    fed.ack(91, &[(4, 0)], &[]);
    let side = fed.client();
    let causes = (side.causes.count, side.causes.timer, side.causes.reordering);
    assert_eq!(causes, (1, 2, 2));
    assert_eq!(side.waits_over, 1);
    assert_eq!((side.received.reordered, side.received.missing()), (1, 0));
    assert_eq!((side.ranges_max, side.ranges_mean()), (Some(2), Some(1.2)));
}

#[test]
fn a_requested_delay_replaces_the_advertised_one() {
    let mut fed = Fed::default();
    // ACK_FREQUENCY: sequence 1, threshold 9, 50 ms, reordering 4; then an older one.
    let asked = [0x40, 0xaf, 1, 9, 0x80, 0, 0xc3, 0x50, 4];
    fed.packet(0, false, 0, Space::Application, &asked);
    fed.packet(0, false, 1, Space::Application, &[0x40, 0xaf, 0, 1, 1, 1]);
    fed.packet(0, false, 2, Space::Application, &[0x1f]);
    fed.ack(40, &[(2, 0)], &[]);
    let side = fed.client();
    let requested = side.requested.unwrap();
    assert_eq!(
        (
            requested.threshold,
            requested.max_ack_delay_us,
            requested.reordering
        ),
        (9, 50_000, 4)
    );
    assert_eq!(
        (side.ack_frequency_frames, side.immediate_ack_frames),
        (2, 1)
    );
    assert_eq!(
        (side.causes.count, side.causes.timer, side.waits_over),
        (1, 0, 0)
    );
}

#[test]
fn what_was_acknowledged_and_not_seen_is_counted() {
    let mut fed = Fed::default();
    fed.ping(0, 0);
    fed.ping(1, 5);
    fed.ack(2, &[(5, 3), (0, 0)], &[]);
    let received = &fed.client().received;
    assert_eq!((received.missing(), received.acknowledged_unseen()), (4, 2));
    // The packet arrives after its acknowledgement.
    fed.ping(3, 4);
    let received = &fed.client().received;
    assert_eq!((received.missing(), received.acknowledged_unseen()), (3, 1));
    assert_eq!(
        (received.eliciting, received.eliciting_acknowledged),
        (3, 3)
    );
}

#[test]
fn bare_acknowledgements_are_distinguished_from_bundled_ones() {
    let mut fed = Fed::default();
    fed.ping(0, 0);
    fed.ack(1, &[(0, 0)], &[]);
    fed.ack(2, &[(0, 0)], &[0, 0, 0]);
    fed.ack(3, &[(0, 0)], &[1]);
    let mut out = [0; 20];
    let mut w = Writer::new(&mut out);
    write_ack(&mut w, 0, 0, &[(0, 0)]).unwrap();
    write_ping(&mut w).unwrap();
    fed.packet(4, true, 0, Space::Initial, w.written());
    fed.packet(4, true, 0, Space::Handshake, &w.written()[..5]);
    let side = fed.client();
    let counts = side.ack_packets.map(|packets| (packets.all, packets.only));
    assert_eq!(counts, [(1, 0), (1, 1), (3, 2)]);
    // ACK frames of five bytes.
    assert_eq!(side.ack_frame_bytes, 15);
    assert_eq!(side.only_bytes_sum, 105 + 108);
    assert_eq!(side.only_bytes.max(), Some(108));
    let expected = Composition {
        headers: 50,
        tags: 80,
        ack: 25,
        padding: 3,
        other: 2,
        ..Composition::default()
    };
    assert_eq!(side.composition, expected);
    assert_eq!(side.delays.max(), Some(80));
}

#[test]
fn a_datagram_with_another_packet_is_no_bare_acknowledgement() {
    let mut acks = Acks::default();
    let packet = AckPacket {
        space: Space::Application,
        ns: 0,
        number: 0,
        size: 30,
        payload: &[2, 0, 0, 0, 0],
        max_ack_delay_ms: 25,
        exponent: 3,
    };
    acks.packet(true, &packet);
    acks.datagram(true, 2, 500);
    acks.packet(true, &packet);
    acks.datagram(true, 1, 60);
    assert_eq!(
        (acks.client.only_bytes_sum, acks.client.only_bytes.count()),
        (60, 1)
    );
}

#[test]
fn the_first_hundred_packets_are_counted_apart() {
    let mut fed = Fed::default();
    for number in 0..100 {
        fed.ping(0, number);
        if number % 2 == 1 {
            fed.ack(0, &[(number, 0)], &[]);
        }
    }
    for number in 100..200 {
        fed.ping(0, number);
        if number % 10 == 9 {
            fed.ack(0, &[(number, 0)], &[]);
        }
    }
    let side = fed.client();
    assert_eq!(
        (side.ratio_first.share(), side.ratio_after.share()),
        (Some(2.0), Some(10.0))
    );
    assert_eq!(Ratio::default().share(), None);
}

#[test]
fn counts_of_ecn_are_the_last_ones() {
    let mut fed = Fed::default();
    fed.ping(0, 0);
    for marked in [1, 2] {
        fed.packet(
            1,
            true,
            marked,
            Space::Application,
            &[3, 0, 0, 0, 0, 7, 0, marked as u8],
        );
    }
    fed.ack(2, &[(0, 0)], &[]);
    let side = fed.client();
    assert_eq!((side.ecn_acks, side.ecn), (2, Some([7, 0, 2])));
}

#[test]
fn a_large_delay_does_not_overflow() {
    assert_eq!(scaled(5, 3), 40);
    assert_eq!(scaled(1 << 61, 20), u64::MAX);
    assert_eq!((scaled(1, 64), scaled(1, 1 << 40)), (u64::MAX, u64::MAX));
}
