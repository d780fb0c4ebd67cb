//! Patterns with stars, and the attributes of distinguished names that they are compared with.

/// Maximum number of characters in a value that are compared.
pub const MOST_VALUE: usize = 4096;

/// Characters that may surround a value (RFC 9110 5.6.3). Other spaces belong to the value, because libraries disagree
/// about them.
pub const BLANKS: [char; 2] = [' ', '\t'];

/// A pattern in which `*` matches any text. Comparisons ignore case.
pub struct Pattern {
    first: String,
    between: Vec<String>,
    /// `None`: the pattern has no star.
    last: Option<String>,
}

impl Pattern {
    pub fn new(text: &str) -> Pattern {
        let lower = text.to_lowercase();
        let mut pieces = lower.split('*').map(str::to_owned);
        let first = pieces.next().unwrap_or_default();
        let mut between: Vec<String> = pieces.collect();
        let last = between.pop();
        Pattern {
            first,
            between,
            last,
        }
    }

    /// Returns whether all of `given` fits. Compares only the first [`MOST_VALUE`] characters.
    pub fn fits(&self, given: &str) -> bool {
        let cut = given
            .char_indices()
            .nth(MOST_VALUE)
            .map_or(given.len(), |(end, _)| end);
        let text = given[..cut].trim_matches(BLANKS).to_lowercase();
        let Some(last) = &self.last else {
            return text == self.first;
        };
        let rest = text
            .strip_prefix(self.first.as_str())
            .and_then(|rest| rest.strip_suffix(last.as_str()));
        let Some(mut rest) = rest else {
            return false;
        };
        for piece in &self.between {
            match rest.find(piece.as_str()) {
                Some(at) => rest = &rest[at + piece.len()..],
                None => return false,
            }
        }
        true
    }
}

/// Returns (type, value) of each attribute in a distinguished name (RFC 4514), without escapes. Skips parts that are
/// not attributes. Reads only the first [`MOST_VALUE`] characters.
pub fn attributes(name: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let (mut part, mut escaped) = (String::new(), false);
    for character in name.chars().take(MOST_VALUE).chain([',']) {
        if !escaped && matches!(character, ',' | '+') {
            if let Some((kind, value)) = part.split_once('=') {
                let trimmed = |text: &str| text.trim_matches(BLANKS).to_owned();
                found.push((trimmed(kind), unescaped(&trimmed(value))));
            }
            part.clear();
            continue;
        }
        escaped = !escaped && character == '\\';
        part.push(character);
    }
    found
}

/// Replaces each `\XX` by the byte, and any other `\` with the next character by that character.
fn unescaped(value: &str) -> String {
    let mut out = String::new();
    let mut rest = value.chars();
    while let Some(character) = rest.next() {
        if character != '\\' {
            out.push(character);
            continue;
        }
        let hex = rest.as_str().get(..2);
        let byte = hex
            .filter(|hex| hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        match byte {
            Some(byte) => {
                out.push(char::from(byte));
                rest = rest.as_str()[2..].chars();
            }
            None => out.push(rest.next().unwrap_or('\\')),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::Numbers;

    #[test]
    fn a_star_is_any_text() {
        for (pattern, text, fits) in [
            ("a", "a", true),
            ("a", "ab", false),
            ("A*", "a", true),
            ("a*", "ba", false),
            ("*a", "bA", true),
            ("a*a", "a", false),
            ("a*a", "aa", true),
            ("a*b*c", "a-b-c", true),
            ("a*b*c", "a-c-b", false),
            ("a*bc*c", "abc", false),
            ("**a", "xa", true),
            ("[a]", "a", false),
        ] {
            assert_eq!(Pattern::new(pattern).fits(text), fits, "{pattern} {text}");
        }
        let long = "\u{e4}".repeat(MOST_VALUE) + "b";
        assert!(!Pattern::new("*b").fits(&long) && Pattern::new("\u{e4}*").fits(&long));
    }

    #[test]
    fn no_name_makes_it_panic() {
        let mut numbers = Numbers(5);
        let pieces = [
            "CN",
            "=",
            ",",
            "+",
            "\\",
            "\\C3",
            "\\4",
            " ",
            "*",
            "\u{e4}",
            "\u{1f600}",
            "\0",
            "A",
            "0",
        ];
        for _ in 0..20_000 {
            let name: String = (0..numbers.next(30))
                .map(|_| pieces[numbers.next(pieces.len())])
                .collect();
            let found = attributes(&name);
            let characters = |text: &str| text.chars().count();
            let read: usize = found
                .iter()
                .map(|(k, v)| characters(k) + characters(v))
                .sum();
            assert!(read <= characters(&name), "{name:?}");
            for (_, value) in &found {
                Pattern::new(&name).fits(value);
            }
        }
        let long = format!("CN={}", "\u{e4}".repeat(2 * MOST_VALUE));
        assert_eq!(attributes(&long)[0].1.chars().count(), MOST_VALUE - 3);
    }

    #[test]
    fn attributes_of_a_name() {
        let found = attributes("CN=a\\+b+OU=c\\\\,O=\\C3\\BC, x ,C=,L=\\\u{e4}\\");
        let expected = [
            ("CN", "a+b"),
            ("OU", "c\\"),
            ("O", "\u{c3}\u{bc}"),
            ("C", ""),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(found, expected);
    }
}
