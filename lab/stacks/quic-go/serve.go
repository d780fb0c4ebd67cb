package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"github.com/quic-go/quic-go"
)

const idle = 5 * time.Second

func loadCertificates(c *config) (map[string]*tls.Certificate, error) {
	loaded := map[string]*tls.Certificate{}
	for name, files := range c.Certificates {
		pair, err := tls.LoadX509KeyPair(files.Chain, files.Key)
		if err != nil {
			return nil, fmt.Errorf("certificate %s: %w", name, err)
		}
		loaded[name] = &pair
	}
	return loaded, nil
}

// listen binds a socket for every address, so that answers are sent from the requested address and addresses
// without a server stay closed, and serves in the background.
func listen(c *config, certificates map[string]*tls.Certificate) error {
	// With segmentation offload, captures would show datagrams that were never on a wire. The receive buffer is
	// as large as the system allows; a warning on standard error would not help.
	for _, name := range []string{"QUIC_GO_DISABLE_GSO", "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"} {
		if err := os.Setenv(name, "true"); err != nil {
			return fmt.Errorf("cannot set %s: %w", name, err)
		}
	}
	for ip, r := range c.routes() {
		address := net.UDPAddrFromAddrPort(netip.AddrPortFrom(ip, c.Port))
		conn, err := net.ListenUDP("udp", address)
		if err != nil {
			return fmt.Errorf("cannot listen on UDP %s: %w", address, err)
		}
		listener, err := (&quic.Transport{Conn: conn}).Listen(tlsConfig(r, certificates), &quic.Config{
			HandshakeIdleTimeout: idle,
			MaxIdleTimeout:       idle,
		})
		if err != nil {
			return fmt.Errorf("cannot listen on UDP %s: %w", address, err)
		}
		go accept(listener)
	}
	return nil
}

// tlsConfig delays the handshake in the callback that chooses the certificate. quic-go waits for it before it
// sends anything, including the acknowledgement.
func tlsConfig(r *route, certificates map[string]*tls.Certificate) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h3"},
		SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			e := r.find(hello.ServerName)
			time.Sleep(e.delay())
			return certificates[e.Certificate], nil
		},
	}
}

// accept removes finished handshakes from the queue; it serves nothing after them.
func accept(listener *quic.Listener) {
	for {
		if _, err := listener.Accept(context.Background()); errors.Is(err, quic.ErrServerClosed) {
			return
		}
	}
}
