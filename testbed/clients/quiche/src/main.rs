//! `firstflight-quic-download` with a qlog file per connection, which quiche writes into the folder QLOGDIR.

#![forbid(unsafe_code)]

use firstflight_quic_download::observer::Observer;
use firstflight_testbed_clients::own_log::OwnLog;

const NAME: &str = "firstflight-quiche-client";

struct Logged(OwnLog);

impl Observer for Logged {
    fn opened(&mut self, quic: &mut quiche::Connection) -> Result<(), String> {
        // Until the server's first packet, this is the ID that the client chose at random (RFC 9000, 7.2).
        let original = quic.destination_id().to_vec();
        if let Some(log) = self.0.begin(&original) {
            quic.set_qlog(log, NAME.to_owned(), String::new());
        }
        Ok(())
    }

    fn over(&mut self) -> Result<(), String> {
        self.0.write()
    }
}

fn main() {
    let log = OwnLog::new();
    firstflight_quic_download::main(
        NAME,
        env!("CARGO_PKG_VERSION"),
        env!("BUILT_WITH_QUICHE"),
        &mut Logged(log),
    );
}
