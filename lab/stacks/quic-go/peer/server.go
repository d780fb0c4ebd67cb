package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/quic-go/quic-go"
)

type server struct {
	config     *quic.Config
	chain, key string
	retry      bool
}

// serve answers until the process is killed. It prints READY when it is bound.
func (s *server) serve(address string) error {
	pair, err := tls.LoadX509KeyPair(s.chain, s.key)
	if err != nil {
		return err
	}
	socket, err := bind(address)
	if err != nil {
		return err
	}
	transport := &quic.Transport{
		Conn:                socket,
		VerifySourceAddress: func(net.Addr) bool { return s.retry },
	}
	listener, err := transport.Listen(&tls.Config{
		Certificates: []tls.Certificate{pair},
		NextProtos:   []string{alpn},
		MinVersion:   tls.VersionTLS13,
	}, s.config)
	if err != nil {
		return err
	}
	fmt.Println("READY")
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return err
		}
		go answer(conn)
	}
}

// answer serves a connection's streams until it is closed.
func answer(conn *quic.Conn) {
	for {
		stream, err := conn.AcceptStream(context.Background())
		if err != nil {
			return
		}
		go func() {
			line, err := bufio.NewReader(stream).ReadString('\n')
			if err != nil {
				return
			}
			if size, err := strconv.Atoi(strings.TrimSpace(line)); err == nil {
				_, _ = stream.Write(make([]byte, size))
			}
			_ = stream.Close()
		}()
	}
}
