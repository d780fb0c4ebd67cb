// Firstflight-quicgo-peer is a quic-go client and server for recordings: whole connections with transfers,
// like connections of applications, and rare events on request. A stream's first line is a number; the
// server answers with this number of bytes.
package main

import (
	"flag"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/quic-go/quic-go"
)

const alpn = "h3"

func main() {
	var s server
	var c client
	to := flag.String("to", "", "client: connect to this IP:PORT")
	listen := flag.String("listen", "", "server: serve at this IP:PORT")
	versions := flag.String("versions", "1", "QUIC versions in order of preference, such as 2,1")
	flag.StringVar(&s.chain, "chain", "", "server: PEM file of the certificate chain")
	flag.StringVar(&s.key, "key", "", "server: PEM file of its private key")
	flag.BoolVar(&s.retry, "retry", false, "server: answer first Initials with Retry")
	flag.StringVar(&c.name, "name", "www.example.net", "client: server name")
	flag.StringVar(&c.local, "local", "", "client: send from this IP:PORT")
	flag.StringVar(&c.keys, "keys", "", "client: append TLS secrets to this file")
	flag.StringVar(&c.move, "move", "", "client: migrate to this IP:PORT after the first stream")
	flag.IntVar(&c.bytes, "bytes", 1000, "client: number of bytes to request per stream")
	flag.IntVar(&c.streams, "streams", 1, "client: number of consecutive streams")
	flag.IntVar(&c.connections, "connections", 1, "client: number of consecutive connections from the same port")
	flag.BoolVar(&c.handshakeOnly, "handshake-only", false, "client: open no stream")
	flag.Parse()

	// With segmentation offload, captures would show datagrams that were never on a wire.
	for _, name := range []string{"QUIC_GO_DISABLE_GSO", "QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"} {
		if err := os.Setenv(name, "true"); err != nil {
			fail(err)
		}
	}
	config, err := configFor(*versions)
	if err != nil {
		fail(err)
	}
	switch {
	case *listen != "" && *to == "":
		s.config = config
		err = s.serve(*listen)
	case *to != "" && *listen == "":
		c.config = config
		err = c.run(*to)
	default:
		err = fmt.Errorf("expected either -listen or -to")
	}
	if err != nil {
		fail(err)
	}
}

func configFor(versions string) (*quic.Config, error) {
	config := &quic.Config{}
	for _, word := range strings.Split(versions, ",") {
		switch word {
		case "1":
			config.Versions = append(config.Versions, quic.Version1)
		case "2":
			config.Versions = append(config.Versions, quic.Version2)
		default:
			return nil, fmt.Errorf("version %q is neither 1 nor 2", word)
		}
	}
	return config, nil
}

// bind opens a socket at an IP:PORT.
func bind(address string) (*net.UDPConn, error) {
	at, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		return nil, err
	}
	return net.ListenUDP("udp", at)
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "firstflight-quicgo-peer: %v.\n", err)
	os.Exit(1)
}
