package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

const patience = 20 * time.Second

type client struct {
	config                      *quic.Config
	name, local, keys, move     string
	bytes, streams, connections int
	handshakeOnly               bool
}

// run opens the connections, all from the same socket.
func (c *client) run(to string) error {
	address, err := net.ResolveUDPAddr("udp", to)
	if err != nil {
		return err
	}
	local := c.local
	if local == "" {
		local = ":0"
	}
	socket, err := bind(local)
	if err != nil {
		return err
	}
	keys, err := os.OpenFile(c.keys, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer keys.Close()
	// The certificate belongs to the test; the server needs no authentication.
	tlsConfig := &tls.Config{
		ServerName:         c.name,
		NextProtos:         []string{alpn},
		InsecureSkipVerify: true,
		KeyLogWriter:       keys,
	}
	transport := &quic.Transport{Conn: socket}
	for range c.connections {
		if err := c.connect(transport, address, tlsConfig); err != nil {
			return err
		}
	}
	return nil
}

func (c *client) connect(transport *quic.Transport, to net.Addr, tlsConfig *tls.Config) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := transport.Dial(ctx, to, tlsConfig, c.config)
	if err != nil {
		return err
	}
	if !c.handshakeOnly {
		for n := range c.streams {
			if err := c.ask(ctx, conn); err != nil {
				return err
			}
			if n == 0 && c.move != "" {
				if err := c.migrate(ctx, conn); err != nil {
					return err
				}
			}
		}
	}
	// Wait for packets in flight before closing.
	time.Sleep(100 * time.Millisecond)
	return conn.CloseWithError(0, "done")
}

// ask sends the number of requested bytes on a new stream and reads them.
func (c *client) ask(ctx context.Context, conn *quic.Conn) error {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stream, "%d\n", c.bytes); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	got, err := io.Copy(io.Discard, stream)
	if err == nil && got != int64(c.bytes) {
		err = fmt.Errorf("received %d bytes of %d requested", got, c.bytes)
	}
	return err
}

// migrate moves the connection to another local address (RFC 9000 9).
func (c *client) migrate(ctx context.Context, conn *quic.Conn) error {
	socket, err := bind(c.move)
	if err != nil {
		return err
	}
	path, err := conn.AddPath(&quic.Transport{Conn: socket})
	if err != nil {
		return err
	}
	if err := path.Probe(ctx); err != nil {
		return err
	}
	return path.Switch()
}
