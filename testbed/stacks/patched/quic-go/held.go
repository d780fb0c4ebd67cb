package quic

import (
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go/internal/monotime"
	"github.com/quic-go/quic-go/internal/protocol"
	"github.com/quic-go/quic-go/internal/wire"
)

// HeldHello configures how this process's servers answer a ClientHello before their certificate is available.
type HeldHello struct {
	// Delay is the time from the complete ClientHello until the certificate is available.
	Delay time.Duration
	// Silent servers send nothing before that, not even an ACK.
	Silent bool
}

// Held is set before the first connection; nil: TLS answers immediately.
var Held *HeldHello

// heldHello withholds a connection's ClientHello from TLS. Only the connection's run loop calls it.
type heldHello struct {
	frames   []*wire.CryptoFrame
	whole    bool
	started  bool
	released bool
	due      atomic.Bool
}

func (h *heldHello) keepsAll(c *Conn) bool {
	return Held != nil && c.perspective == protocol.PerspectiveServer && !h.released
}

// keeps returns whether the bytes in a CRYPTO frame, which are already in their stream, must stay there.
func (h *heldHello) keeps(c *Conn, frame *wire.CryptoFrame, level protocol.EncryptionLevel) bool {
	if level != protocol.EncryptionInitial || !h.keepsAll(c) {
		return false
	}
	if !h.whole {
		h.frames = append(h.frames, frame)
		h.whole = isWhole(h.frames)
	}
	return true
}

// isSilent returns whether the connection must not send now. It is called whenever the connection may send. The delay
// starts when the ClientHello is complete; an instant ACK leaves right after this call.
func (h *heldHello) isSilent(c *Conn) bool {
	if !h.keepsAll(c) {
		return false
	}
	if h.whole && !h.started {
		h.started = true
		time.AfterFunc(Held.Delay, func() {
			h.due.Store(true)
			c.scheduleSending()
		})
	}
	return Held.Silent
}

// release passes the ClientHello to TLS if the certificate is available.
func (h *heldHello) release(c *Conn, now monotime.Time) error {
	if !h.due.Load() || h.released {
		return nil
	}
	h.released = true
	for {
		data := c.cryptoStreamManager.GetCryptoData(protocol.EncryptionInitial)
		if data == nil {
			return c.handleHandshakeEvents(now)
		}
		if err := c.cryptoStreamHandler.HandleMessage(data, protocol.EncryptionInitial); err != nil {
			return err
		}
	}
}

// isWhole returns whether the frames contain the whole first handshake message.
func isWhole(frames []*wire.CryptoFrame) bool {
	var stream []byte
	for grown := true; grown; {
		grown = false
		for _, frame := range frames {
			start, size := int(frame.Offset), len(stream)
			if start <= size && start+len(frame.Data) > size {
				stream = append(stream, frame.Data[size-start:]...)
				grown = true
			}
		}
	}
	return len(stream) >= 4 && len(stream) >= 4+int(stream[1])<<16+int(stream[2])<<8+int(stream[3])
}
