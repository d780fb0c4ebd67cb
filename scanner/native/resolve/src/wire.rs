//! DNS messages: writes questions and reads answers. No I/O, no clock.
//!
//! Messages may be hostile. Reading never panics, follows a bounded number of pointers per name, and allocates no
//! more than the size of the message.

pub mod edns;
pub mod https;
pub mod message;
pub mod name;
pub mod query;
pub mod record;
pub mod types;

/// A defect in a message, as a phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Reads integers and bytes from the start of a slice.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        self.0
            .split_off(..count)
            .ok_or(Malformed("a field is cut off"))
    }

    /// Reads an 8-bit integer.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// Reads a 16-bit integer.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Returns whether all bytes are read.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
