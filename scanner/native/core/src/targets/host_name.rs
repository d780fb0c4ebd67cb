//! Names of hosts, in lists and in the feed.

/// Returns whether `text` is a host name: labels of 1 to 63 letters, digits, `-` and `_`, at most 253
/// characters, with or without the root's dot.
pub fn is_host_name(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    let good = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
    name.len() <= 253
        && name
            .split('.')
            .all(|l| (1..=63).contains(&l.len()) && l.bytes().all(good))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names() {
        assert!(
            is_host_name("xn--bcher-kva.example") && is_host_name("_x.a") && is_host_name("a.")
        );
        let long = "a.".repeat(127);
        assert!(
            !is_host_name("")
                && !is_host_name("a..b")
                && !is_host_name("bücher.example")
                && !is_host_name("*.a")
        );
        assert!(is_host_name(&long[..253]) && !is_host_name(&format!("{}bb", &long[..253])));
        assert!(!is_host_name(&"a".repeat(64)));
    }
}
