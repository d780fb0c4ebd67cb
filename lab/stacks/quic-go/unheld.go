//go:build !held

package main

import "time"

// modes are those of README.md.
var modes = []string{"wait"}

// configure has nothing to tell: the callback for the certificate waits.
func configure(*config) error { return nil }

// certificateDelay is what the callback for the certificate waits.
func certificateDelay(e *endpoint) time.Duration { return e.delay() }
