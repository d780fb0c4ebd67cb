//! One ClientHello and the answer.

use std::borrow::Cow;

use firstflight_wire::{Ack, Frame};
use smallvec::SmallVec;

use super::{At, Coverage, HelloSent, ServerInitial, Windows};

/// The first ACK that covers the ClientHello.
#[derive(Clone, Debug)]
pub struct ObservedAck {
    pub at: At,
    /// When the ClientHello that it acknowledges was sent.
    pub hello_ns: i64,
    pub packet_number: u64,
    pub largest: u64,
    pub first_range: u64,
    pub delay_raw: u64,
    /// UDP payload of the datagram with this ACK.
    pub datagram_bytes: u16,
    /// Distinct frame types of the packet with this ACK, in order.
    pub frames: Cow<'static, str>,
    pub eliciting: bool,
}

/// The first byte of the ServerHello.
#[derive(Clone, Copy, Debug)]
pub struct ObservedHello {
    pub at: At,
    pub packet_number: u64,
}

/// A CONNECTION_CLOSE of the server in an Initial.
#[derive(Clone, Debug)]
pub struct ObservedClose {
    pub code: u64,
    pub reason: String,
}

/// The datagrams and packets of both sides within the windows.
#[derive(Debug)]
pub struct Attempt {
    begin_ns: i64,
    pub hello: HelloSent,
    /// UDP payload of the first datagram of the attempt.
    pub hello_datagram_bytes: Option<u16>,
    client_datagrams: u32,
    /// The current datagram was captured before.
    is_repeat: bool,
    pub bytes_sent: u32,
    /// UDP payload and datagrams of the server before the client's second datagram.
    pub bytes_received: u32,
    pub datagrams_received: u16,
    pub ack: Option<ObservedAck>,
    pub partial_ack_ns: Option<i64>,
    pub server_hello: Option<ObservedHello>,
    /// First Handshake packet in the ServerHello's datagram or a later one.
    pub handshake_ns: Option<i64>,
    last_handshake: Option<At>,
    pub close: Option<Box<ObservedClose>>,
    /// Initials that opened.
    pub opened: u32,
    pub malformed: Option<Box<str>>,
    pub undecrypted: Option<&'static str>,
    smallest_number: u64,
    largest_number: u64,
    numbers: u64,
    pub gap_before_hello: Option<bool>,
    /// Nothing more belongs to the first answer.
    pub ended: bool,
    /// The capture cut the first answer before its outcome was known, or a datagram that may hold a part of the
    /// ClientHello.
    pub answer_is_cut: bool,
    pub hello_is_cut: bool,
}

impl Attempt {
    /// Expects a ClientHello at offset `from` of the client's CRYPTO stream, in the packet captured at `begin_ns`.
    pub(super) fn new(from: u64, begin_ns: i64) -> Attempt {
        Attempt {
            begin_ns,
            hello: HelloSent::new(from),
            hello_datagram_bytes: None,
            client_datagrams: 0,
            is_repeat: false,
            bytes_sent: 0,
            bytes_received: 0,
            datagrams_received: 0,
            ack: None,
            partial_ack_ns: None,
            server_hello: None,
            handshake_ns: None,
            last_handshake: None,
            close: None,
            opened: 0,
            malformed: None,
            undecrypted: None,
            smallest_number: u64::MAX,
            largest_number: 0,
            numbers: 0,
            gap_before_hello: None,
            ended: false,
            answer_is_cut: false,
            hello_is_cut: false,
        }
    }

    /// Starts the attempt after a HelloRetryRequest. The server's packet numbers continue.
    pub(super) fn after(&self, from: u64, begin_ns: i64) -> Attempt {
        Attempt {
            smallest_number: self.smallest_number,
            largest_number: self.largest_number,
            numbers: self.numbers,
            ..Attempt::new(from, begin_ns)
        }
    }

    /// The next datagram of either side. A mirror port may show a datagram twice. No endpoint sends one again byte for
    /// byte (RFC 9000 12.3), so the second copy counts neither as sent nor as received.
    pub(super) fn datagram(&mut self, is_repeat: bool) {
        self.is_repeat = is_repeat;
    }

    /// Whether datagrams still count.
    pub(super) fn counts_datagrams(&self) -> bool {
        self.client_datagrams < 2
    }

    pub(super) fn client_datagram(&mut self, bytes: usize) {
        if self.is_repeat {
            return;
        }
        self.client_datagrams = self.client_datagrams.saturating_add(1);
        if self.client_datagrams == 1 {
            self.hello_datagram_bytes = u16::try_from(bytes).ok();
            self.bytes_sent = u32::try_from(bytes).unwrap_or(u32::MAX);
        }
    }

    pub(super) fn server_datagram(&mut self, bytes: usize) {
        if self.client_datagrams < 2 && !self.is_repeat {
            self.bytes_received = self
                .bytes_received
                .saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX));
            self.datagrams_received = self.datagrams_received.saturating_add(1);
        }
    }

    /// Whether neither datagrams nor packets that do not open count any more.
    pub(super) fn is_over(&self) -> bool {
        self.ended && self.client_datagrams >= 2
    }

    pub(super) fn is_open(&self, ns: i64, windows: &Windows) -> bool {
        let sent = self.hello.last_ns().unwrap_or(self.begin_ns);
        let settled = self
            .server_hello
            .is_some_and(|hello| ns > hello.at.ns + windows.settle_ns);
        !self.ended && !settled && ns <= sent + windows.answer_ns
    }

    pub(super) fn note_number(&mut self, packet_number: u64) {
        self.opened += 1;
        self.smallest_number = self.smallest_number.min(packet_number);
        self.largest_number = self.largest_number.max(packet_number);
        self.numbers += 1;
    }

    pub(super) fn acknowledged(&mut self, ack: &Ack<'_>, initial: &ServerInitial<'_>) {
        if self.ack.is_some() {
            return;
        }
        match self.hello.acknowledge(ack) {
            Coverage::None => {}
            Coverage::Partial => {
                self.partial_ack_ns.get_or_insert(initial.at.ns);
            }
            Coverage::Full { sent_ns } => {
                let mut kinds: SmallVec<[&'static str; 8]> = SmallVec::new();
                for name in initial.frames.iter().map(Frame::name) {
                    if !kinds.contains(&name) {
                        kinds.push(name);
                    }
                }
                self.ack = Some(ObservedAck {
                    at: initial.at,
                    hello_ns: sent_ns,
                    packet_number: initial.packet_number,
                    largest: ack.largest,
                    first_range: ack.first_range,
                    delay_raw: ack.delay,
                    datagram_bytes: u16::try_from(initial.datagram_bytes).unwrap_or(u16::MAX),
                    frames: match kinds.as_slice() {
                        &[kind] => kind.into(),
                        several => several.join(",").into(),
                    },
                    eliciting: initial.frames.iter().any(|frame| frame.is_ack_eliciting()),
                });
            }
        }
    }

    pub(super) fn server_hello(&mut self, at: At, packet_number: u64) {
        self.server_hello = Some(ObservedHello { at, packet_number });
        // Duplicates are dropped before, so no number is missing if the count equals the width of the range.
        let apart = self.largest_number - self.smallest_number + 1 != self.numbers;
        // Numbers start at 0 (RFC 9000 12.3) or far above. A single small one means that earlier packets are missing.
        let late = self.numbers == 1 && (1..=3).contains(&packet_number);
        self.gap_before_hello = Some(apart || late);
        if let Some(handshake) = self
            .last_handshake
            .filter(|handshake| handshake.datagram == at.datagram)
        {
            self.handshake_ns = Some(handshake.ns);
        }
    }

    pub(super) fn no_server_hello(&mut self) {
        self.server_hello = None;
        self.gap_before_hello = None;
        self.handshake_ns = None;
    }

    pub(super) fn handshake(&mut self, at: At) {
        self.last_handshake = Some(at);
        if self.server_hello.is_some() {
            self.handshake_ns.get_or_insert(at.ns);
        }
    }

    pub(super) fn closed(&mut self, code: u64, reason: &[u8]) {
        self.close.get_or_insert_with(|| {
            Box::new(ObservedClose {
                code,
                reason: String::from_utf8_lossy(reason).into_owned(),
            })
        });
    }

    /// The capture cut the server's datagram at `at`. Its content is unknown, and so is whether a later packet repeats
    /// it.
    pub(super) fn answer_cut(&mut self, at: At) {
        let may_hold_ack = self.ack.is_none()
            && self
                .server_hello
                .is_some_and(|hello| hello.at.datagram == at.datagram);
        self.answer_is_cut |= self.server_hello.is_none() || may_hold_ack;
        self.ended = true;
    }

    /// The capture cut a datagram of the client, so the packets that the server must acknowledge are unknown.
    pub(super) fn hello_cut(&mut self) {
        self.hello_is_cut |= self.server_hello.is_none();
    }

    pub(super) fn end_if_complete(&mut self) {
        self.ended |=
            self.ack.is_some() && self.server_hello.is_some() && self.handshake_ns.is_some();
    }
}

#[cfg(test)]
mod tests;
