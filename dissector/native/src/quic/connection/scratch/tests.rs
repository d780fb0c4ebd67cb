//! Which datagrams count as repeated.

use super::*;

#[test]
fn a_datagram_is_repeated_unless_it_was_forgotten() {
    let mut scratch = Scratch::default();
    scratch.forget_newest();
    assert!(!scratch.is_repeat(b"first"));
    assert!(scratch.is_repeat(b"first"));
    assert!(!scratch.is_repeat(b"second"));
    scratch.forget_newest();
    assert!(!scratch.is_repeat(b"second"));
    assert!(scratch.is_repeat(b"first"));
}
