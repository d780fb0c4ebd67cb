//! JSON that is exact for programs and harmless on a terminal.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::Serializer;
use serde_json::ser::Formatter;

/// Writes `value` as compact JSON, with escapes for characters that a terminal interprets: controls (C0, DEL, C1), line
/// and paragraph separators, marks and overrides of direction. firstflight/system/terminal.py has the same list.
/// External text may contain any such character; a JSON parser returns the original text. Returns the errors of `out`.
pub fn write_json(
    out: impl Write,
    value: &(impl Serialize + ?Sized),
) -> std::result::Result<(), serde_json::Error> {
    value.serialize(&mut Serializer::with_formatter(out, Harmless))
}

/// Appends `text` as the inside of a JSON string with these escapes.
pub fn write_inside(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    // Cannot fail: every string has a JSON form, and a vector accepts all writes.
    let _ = write_json(&mut *out, text);
    out.pop();
    out.remove(start);
}

struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: Write + ?Sized>(&mut self, out: &mut W, text: &str) -> Result<()> {
        // The serializer has already escaped the characters below DEL that need it.
        if text.bytes().all(|byte| byte < 0x7f) {
            return out.write_all(text.as_bytes());
        }
        let mut from = 0;
        for (at, character) in text.char_indices().filter(|(_, c)| is_interpreted(*c)) {
            out.write_all(&text.as_bytes()[from..at])?;
            write!(out, "\\u{:04x}", u32::from(character))?;
            from = at + character.len_utf8();
        }
        out.write_all(&text.as_bytes()[from..])
    }
}

fn is_interpreted(character: char) -> bool {
    matches!(
        character,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_interprets_is_escaped() {
        for (plain, written) in [
            ("", ""),
            ("a\"b\\c\n\u{1}~", r#"a\"b\\c\n\u0001~"#),
            (
                "\u{7f}\u{80}a\u{9b}31m\u{9f}\u{a0}",
                "\\u007f\\u0080a\\u009b31m\\u009f\u{a0}",
            ),
            (
                "\u{61b}\u{61c}\u{200d}\u{200e}\u{200f}",
                "\u{61b}\\u061c\u{200d}\\u200e\\u200f",
            ),
            (
                "\u{2027}\u{2028}\u{202e}\u{202f}",
                "\u{2027}\\u2028\\u202e\u{202f}",
            ),
            (
                "\u{2065}\u{2066}\u{2069}\u{206a}é香",
                "\u{2065}\\u2066\\u2069\u{206a}é香",
            ),
        ] {
            let mut out = Vec::new();
            write_json(&mut out, plain).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text, format!("\"{written}\""));
            let back: String = serde_json::from_str(&text).unwrap();
            assert_eq!(back, plain);
            let mut behind = b"before".to_vec();
            write_inside(&mut behind, plain);
            assert_eq!(behind, format!("before{written}").as_bytes());
        }
    }
}
