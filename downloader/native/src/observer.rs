//! What another program does with each connection. An error is one sentence, and the end of the download.

/// Looks at the connections of downloads.
pub trait Observer {
    /// A connection is made, and has sent nothing yet.
    fn opened(&mut self, quic: &mut quiche::Connection) -> Result<(), String>;
    /// The connection is over.
    fn over(&mut self) -> Result<(), String>;
}

/// Looks at none.
pub struct Nothing;

impl Observer for Nothing {
    fn opened(&mut self, _: &mut quiche::Connection) -> Result<(), String> {
        Ok(())
    }

    fn over(&mut self) -> Result<(), String> {
        Ok(())
    }
}
