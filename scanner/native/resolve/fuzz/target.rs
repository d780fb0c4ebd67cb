//! The fuzz target: reads a message and the records as the answer to a question.

use firstflight_resolve::answer::{Asked, MOST_ALIASES, Reading, read};
use firstflight_resolve::wire::message::Sections;
use firstflight_resolve::wire::name::Name;
use firstflight_resolve::wire::types::QType;

/// Uses the first byte to choose the type and the rest as the message. The result is at most a few times
/// larger than the message.
pub fn answer(input: &[u8]) {
    let Some((choice, message)) = input.split_first() else {
        return;
    };
    let qtype = QType::ALL[usize::from(*choice) % QType::ALL.len()];
    // The name in the message's question, if it is readable, so that most inputs get past the check of the
    // question.
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
