//! A JSON list of flat objects, written as text at once: a value for each frame would cost more than its packet's
//! decryption.

/// Most packets' frames fit.
const ROOM: usize = 256;

/// The list while it is written. Names of fields are plain words, so they need no escape.
pub(super) struct Objects {
    text: Vec<u8>,
}

/// A text from a packet.
pub(super) enum Quoted<'a> {
    /// Shown as hex digits.
    Hex(&'a [u8]),
    /// UTF-8; what is not is replaced.
    Words(&'a [u8]),
}

impl Objects {
    pub(super) fn new() -> Objects {
        let mut text = Vec::with_capacity(ROOM);
        text.push(b'[');
        Objects { text }
    }

    /// Begins an object.
    pub(super) fn begin(&mut self) {
        if self.text.len() > 1 {
            self.text.push(b',');
        }
        self.text.push(b'{');
    }

    /// Ends the object.
    pub(super) fn end(&mut self) {
        self.text.push(b'}');
    }

    pub(super) fn number(&mut self, name: &str, number: u64) {
        self.name(name);
        self.digits(number);
    }

    pub(super) fn flag(&mut self, name: &str, flag: bool) {
        self.name(name);
        self.text
            .extend_from_slice(if flag { b"true" } else { b"false" });
    }

    pub(super) fn text(&mut self, name: &str, text: Quoted<'_>) {
        self.name(name);
        match text {
            Quoted::Hex(bytes) => {
                self.text.push(b'"');
                let start = self.text.len();
                self.text.resize(start + 2 * bytes.len(), 0);
                // There is room for just as many.
                let _ = const_hex::encode_to_slice(bytes, &mut self.text[start..]);
                self.text.push(b'"');
            }
            // A string always has a JSON form, and a vector takes it.
            Quoted::Words(bytes) => {
                let _ = serde_json::to_writer(&mut self.text, &String::from_utf8_lossy(bytes));
            }
        }
    }

    pub(super) fn numbers(&mut self, name: &str, numbers: impl Iterator<Item = u64>) {
        self.name(name);
        self.text.push(b'[');
        for (i, number) in numbers.enumerate() {
            if i > 0 {
                self.text.push(b',');
            }
            self.digits(number);
        }
        self.text.push(b']');
    }

    pub(super) fn finish(mut self) -> String {
        self.text.push(b']');
        // All of it is UTF-8.
        String::from_utf8(self.text).unwrap_or_default()
    }

    fn name(&mut self, name: &str) {
        if self.text.last() != Some(&b'{') {
            self.text.push(b',');
        }
        self.text.push(b'"');
        self.text.extend_from_slice(name.as_bytes());
        self.text.extend_from_slice(b"\":");
    }

    fn digits(&mut self, number: u64) {
        self.text
            .extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
    }
}
