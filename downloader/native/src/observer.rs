//! Access to each connection for another program. An error is one sentence, and stops the download.

/// Observes the connections of downloads.
pub trait Observer {
    /// Called when a connection exists and has sent no packet.
    fn opened(&mut self, quic: &mut quiche::Connection) -> Result<(), String>;
    /// Called when the connection is closed.
    fn over(&mut self) -> Result<(), String>;
}

/// Observes no connections.
pub struct Nothing;

impl Observer for Nothing {
    fn opened(&mut self, _: &mut quiche::Connection) -> Result<(), String> {
        Ok(())
    }

    fn over(&mut self) -> Result<(), String> {
        Ok(())
    }
}
