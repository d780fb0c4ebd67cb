//! What is fuzzed: reading a message as the answer to a question, and everything in it.

use firstflight_resolve::answer::{Asked, MOST_ALIASES, Reading, read};
use firstflight_resolve::wire::message::Sections;
use firstflight_resolve::wire::name::Name;
use firstflight_resolve::wire::types::QType;

/// The first byte chooses the type, the rest is the message. What is kept is no larger than a few times the
/// message.
pub fn answer(input: &[u8]) {
    let Some((choice, message)) = input.split_first() else {
        return;
    };
    let qtype = QType::ALL[usize::from(*choice) % QType::ALL.len()];
    // The name that the message repeats, if it can be read, so that most inputs get past the question.
    let name = Name::read(message, 12)
        .map(|(name, _)| name)
        .ok()
        .or(Name::from_text("a.test"));
    let Some(name) = name else { return };
    let mut sections = Sections::default();
    for (exact, tcp) in [(true, false), (false, true)] {
        let asked = Asked {
            name: &name,
            qtype,
            exact,
            tcp,
        };
        if let Reading::Answer(answer) = read(message, asked, &mut sections) {
            assert!(answer.aliases.len() <= MOST_ALIASES + 1);
            assert!(answer.records.len() * 11 <= message.len());
            assert!(answer.detail.is_none_or(|detail| detail.len() <= 16_384));
        }
    }
}
