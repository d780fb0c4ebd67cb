//! A connection's packet numbers, by packet number space and side.

use super::duplicates::Duplicates;
use crate::quic::recovery::Space;

/// Numbers of the client and the server.
type Pair = [Duplicates; 2];

/// Seen packet numbers. Handshake and 1-RTT numbers are boxed, because they are only known with keys.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    initial: Pair,
    later: Option<Box<[Pair; 2]>>,
}

impl Numbers {
    /// The largest seen number.
    pub(super) fn largest(&self, space: Space, from_client: bool) -> Option<u64> {
        let later = self.later.as_ref();
        let pair = match space {
            Space::Initial => &self.initial,
            Space::Handshake => &later?[0],
            Space::Application => &later?[1],
        };
        pair[side(from_client)].largest()
    }

    /// A side's seen numbers, to add to.
    pub(super) fn of(&mut self, space: Space, from_client: bool) -> &mut Duplicates {
        let pair = match space {
            Space::Initial => &mut self.initial,
            Space::Handshake => &mut self.later.get_or_insert_default()[0],
            Space::Application => &mut self.later.get_or_insert_default()[1],
        };
        &mut pair[side(from_client)]
    }
}

fn side(from_client: bool) -> usize {
    usize::from(!from_client)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides_and_spaces_have_numbers_of_their_own() {
        let mut numbers = Numbers::default();
        let places = Space::ALL.map(|space| [(space, true), (space, false)]);
        for (number, (space, from_client)) in places.into_iter().flatten().enumerate() {
            assert_eq!(numbers.largest(space, from_client), None);
            assert!(!numbers.of(space, from_client).is_repeat(number as u64));
            assert!(numbers.of(space, from_client).is_repeat(number as u64));
        }
        for (number, (space, from_client)) in places.into_iter().flatten().enumerate() {
            assert_eq!(numbers.largest(space, from_client), Some(number as u64));
        }
    }

    #[test]
    fn asking_takes_no_room() {
        let mut numbers = Numbers::default();
        numbers.of(Space::Initial, true).is_repeat(1);
        assert_eq!(numbers.largest(Space::Handshake, true), None);
        assert!(numbers.later.is_none());
    }
}
