//go:build held

package main

import (
	"errors"
	"time"

	"github.com/quic-go/quic-go"
)

// modes lists the modes of this program, which is built with a patched quic-go (testbed/stacks/patched).
var modes = []string{"iack", "wait"}

// configure tells quic-go how to answer while the certificate of the only endpoint is missing.
func configure(c *config) error {
	if len(c.Endpoints) != 1 {
		return errors.New("this program takes one endpoint")
	}
	e := &c.Endpoints[0]
	quic.Held = &quic.HeldHello{Delay: e.delay(), Silent: e.Mode == "wait"}
	return nil
}

// certificateDelay returns no delay, because the patched quic-go delays its answer itself.
func certificateDelay(*endpoint) time.Duration { return 0 }
