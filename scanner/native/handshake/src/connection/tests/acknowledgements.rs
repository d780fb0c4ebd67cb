//! Times of ACKs of 1-RTT packets.

use super::paths::waiting_client;
use super::*;

#[test]
fn a_packet_waits_20_ms_for_its_ack() {
    let (mut client, world) = waiting_client();
    let (came, mut room) = (world.now, [0; 2048]);
    let wanted = client.spaces[Level::Data as usize].ack_wanted;
    assert_eq!(wanted, Some(came));
    assert_eq!(client.next_at(), Some(came + 20 * MS));
    for (after, leaves) in [(0, false), (19, false), (20, true), (21, false)] {
        let now = came + after * MS;
        client.expire(now);
        let sent = client.transmit(now, &mut room).unwrap();
        assert_eq!(sent.is_some(), leaves, "after {after} ms");
    }
    let wanted = client.spaces[Level::Data as usize].ack_wanted;
    assert_eq!(wanted, None);
}
