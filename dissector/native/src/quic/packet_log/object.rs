//! Writes a JSON list of flat objects directly as text. Building a JSON value for each frame would cost more than the
//! packet's decryption.

use firstflight_records::write_inside;

/// Most packets' frames fit.
const ROOM: usize = 320;

/// The list while it is written. `INSIDE`: written as the content of a JSON string. Field names are plain words, so
/// only quotes need an escape.
pub(super) struct Objects<const INSIDE: bool> {
    out: Vec<u8>,
}

/// A text from a packet.
pub(super) enum Quoted<'a> {
    /// Shown as hex digits.
    Hex(&'a [u8]),
    /// As UTF-8; invalid bytes are replaced.
    Words(&'a [u8]),
}

impl<const INSIDE: bool> Objects<INSIDE> {
    const QUOTE: &'static [u8] = if INSIDE { b"\\\"" } else { b"\"" };
    const AFTER_NAME: &'static [u8] = if INSIDE { b"\\\":" } else { b"\":" };

    pub(super) fn new() -> Objects<INSIDE> {
        let mut out = Vec::with_capacity(ROOM);
        out.push(b'[');
        Objects { out }
    }

    /// Starts an object.
    pub(super) fn begin(&mut self) {
        if self.out.len() > 1 {
            self.out.push(b',');
        }
        self.out.push(b'{');
    }

    /// Finishes the object.
    pub(super) fn end(&mut self) {
        self.out.push(b'}');
    }

    pub(super) fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        self.digits(number);
    }

    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        self.name(name);
        self.out
            .extend_from_slice(if flag { b"true" } else { b"false" });
    }

    pub(super) fn text(&mut self, name: &str, text: Quoted<'_>) {
        self.name(name);
        match text {
            Quoted::Hex(bytes) => {
                self.out.extend_from_slice(Self::QUOTE);
                let start = self.out.len();
                self.out.resize(start + 2 * bytes.len(), 0);
                // The room is exactly sufficient.
                let _ = const_hex::encode_to_slice(bytes, &mut self.out[start..]);
                self.out.extend_from_slice(Self::QUOTE);
            }
            Quoted::Words(bytes) => self.words(&String::from_utf8_lossy(bytes)),
        }
    }

    pub(super) fn numbers(&mut self, name: &str, numbers: impl Iterator<Item = u64>) {
        self.name(name);
        self.out.push(b'[');
        for (i, number) in numbers.enumerate() {
            if i > 0 {
                self.out.push(b',');
            }
            self.digits(number);
        }
        self.out.push(b']');
    }

    pub(super) fn finish(mut self) -> String {
        self.out.push(b']');
        // The text is always UTF-8.
        String::from_utf8(self.out).unwrap_or_default()
    }

    fn name(&mut self, name: &str) {
        if self.out.last() != Some(&b'{') {
            self.out.push(b',');
        }
        self.out.extend_from_slice(Self::QUOTE);
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(Self::AFTER_NAME);
    }

    fn digits(&mut self, number: u64) {
        self.out
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends a string. Every string has a JSON form, and writing to a vector cannot fail.
    fn words(&mut self, words: &str) {
        if INSIDE {
            write_inside(
                &mut self.out,
                &serde_json::to_string(words).unwrap_or_default(),
            );
        } else {
            let _ = serde_json::to_writer(&mut self.out, words);
        }
    }
}
