//go:build held

package main

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

// modes are those of this program, which is built with a changed copy of quic-go (testbed/patched).
var modes = []string{"iack", "wait"}

// configure tells quic-go how to answer while the certificate of the one endpoint is not there.
func configure(c *config) error {
	if len(c.Endpoints) != 1 {
		return errors.New("this program takes one endpoint")
	}
	e := &c.Endpoints[0]
	quic.Held = &quic.HeldHello{Delay: e.delay(), Silent: e.Mode == "wait"}
	return nil
}

// certificateDelay is what the callback for the certificate waits: quic-go has waited before.
func certificateDelay(*endpoint) time.Duration { return 0 }
