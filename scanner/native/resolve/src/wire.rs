//! DNS messages: what a question looks like, what an answer holds. No sockets, no clock.
//!
//! Everything read here may come from somebody hostile: reading never fails by a panic, follows a bounded
//! number of pointers of each name, and keeps no more than the message's size.

pub mod edns;
pub mod https;
pub mod message;
pub mod name;
pub mod query;
pub mod record;
pub mod types;

/// What is wrong with a message, as one phrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed(pub &'static str);

/// Reads integers and bytes from the start of a slice.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        self.0
            .split_off(..count)
            .ok_or(Malformed("a field is cut off"))
    }

    /// Takes an integer of 8 bits.
    pub fn u8(&mut self) -> Result<u8, Malformed> {
        Ok(self.take(1)?[0])
    }

    /// Takes an integer of 16 bits.
    pub fn u16(&mut self) -> Result<u16, Malformed> {
        let bytes = self.take(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    /// Returns whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
