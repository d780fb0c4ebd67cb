//go:build !held

package main

import "time"

// modes lists the modes in README.md.
var modes = []string{"wait"}

// configure changes no setting of quic-go, because the certificate callback delays the answer.
func configure(*config) error { return nil }

// certificateDelay returns the delay of the certificate callback.
func certificateDelay(e *endpoint) time.Duration { return e.delay() }
