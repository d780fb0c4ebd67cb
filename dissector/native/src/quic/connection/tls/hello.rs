//! The fields of the client's ClientHello, and the end in the CRYPTO stream.

use std::borrow::Cow;

use firstflight_wire::CryptoStream;
use firstflight_wire::tls::{ClientHello, number, read_message};
use firstflight_wire::{Error, Reader};
use smallvec::SmallVec;

/// Largest ClientHello that is read. A ClientHello with several key shares has about 2 kB.
const BUDGET: usize = 16_384;

/// Fields of the first ClientHello.
#[derive(Clone, Debug, Default)]
pub struct HelloFields {
    pub sni: Option<Box<str>>,
    /// Offered application protocols, joined by commas.
    pub alpn: Option<Box<str>>,
    /// Body of the transport parameters extension.
    pub transport_parameters: Option<Box<[u8]>>,
    /// Identifies the connection in key logs.
    pub random: Option<[u8; 32]>,
}

/// Reads the client's CRYPTO stream until the ClientHello is complete.
#[derive(Debug, Default)]
pub(in crate::quic::connection) struct HelloReader {
    /// Boxed, and allocated only when needed: most ClientHellos are in a single frame.
    stream: Option<Box<CryptoStream>>,
    /// Offset after the first ClientHello, once the header was seen.
    first_end: Option<u32>,
    is_read: bool,
}

impl HelloReader {
    /// Processes CRYPTO data of the client. Fills `fields` when the first ClientHello is complete.
    pub(in crate::quic::connection) fn crypto(
        &mut self,
        offset: u64,
        data: &[u8],
        fields: &mut HelloFields,
    ) {
        if self.is_read {
            return;
        }
        let begin = if self.stream.is_none() && offset == 0 && is_whole(data) {
            data
        } else {
            let new = || Box::new(CryptoStream::new(BUDGET));
            let stream = self.stream.get_or_insert_with(new);
            if stream.insert(offset, data) != Ok(true) {
                return;
            }
            stream.contiguous()
        };
        let message = read_message(&mut Reader::new(begin));
        if self.first_end.is_none()
            && let &[_, a, b, c, ..] = begin
        {
            self.first_end = Some(4 + u32::from_be_bytes([0, a, b, c]));
        }
        // Type, length and legacy_version precede the random.
        if let Some(random) = begin.get(6..).and_then(<[u8]>::first_chunk) {
            fields.random = Some(*random);
        }
        match message {
            Err(Error::Truncated) => return,
            Ok((number::CLIENT_HELLO, body)) => {
                if let Ok(hello) = ClientHello::parse(body) {
                    let parameters = hello.transport_parameters;
                    *fields = HelloFields {
                        sni: hello.sni.map(text),
                        alpn: joined(hello.alpn()),
                        transport_parameters: parameters.map(|p| p.as_bytes().into()),
                        random: Some(hello.random),
                    };
                }
            }
            _ => {}
        }
        self.end();
    }

    /// Stops reading.
    pub(in crate::quic::connection) fn end(&mut self) {
        self.is_read = true;
        self.stream = None;
    }

    /// Offset at which a second ClientHello would start.
    pub(in crate::quic::connection) fn second_hello(&self) -> Option<u64> {
        self.first_end.map(u64::from)
    }

    /// Offset after the ClientHello at `from`, if known.
    pub(in crate::quic::connection) fn hello_end(&self, from: u64) -> Option<u64> {
        self.second_hello().filter(|_| from == 0)
    }
}

/// Whether `data` starts with a complete message, within the budget.
fn is_whole(data: &[u8]) -> bool {
    data.len() <= BUDGET && read_message(&mut Reader::new(data)) != Err(Error::Truncated)
}

/// Bytes as text. Bytes that are not UTF-8 are escaped, so that no data is lost.
pub(in crate::quic::connection) fn text(bytes: &[u8]) -> Box<str> {
    readable(bytes).into()
}

fn readable(bytes: &[u8]) -> Cow<'_, str> {
    std::str::from_utf8(bytes).map_or_else(
        |_| Cow::Owned(bytes.escape_ascii().to_string()),
        Cow::Borrowed,
    )
}

/// Protocols joined by commas; `None` if the list is empty or its only name is empty.
fn joined<'a>(protocols: impl Iterator<Item = &'a [u8]>) -> Option<Box<str>> {
    let names: SmallVec<[Cow<'a, str>; 8]> = protocols.map(readable).collect();
    let list = match names.as_slice() {
        [name] => name.as_ref().into(),
        several => several.join(",").into_boxed_str(),
    };
    Some(list).filter(|list| !list.is_empty())
}

#[cfg(test)]
mod tests;
