package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

const (
	idle            = 5 * time.Second
	mostHeaderBytes = 32 << 10 // also SETTINGS_MAX_FIELD_SECTION_SIZE
	bodyChunk       = 64 << 10
)

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

// listen binds a socket for every address, and serves in the background. With separate sockets, answers leave
// from the requested address, and addresses without a server stay closed.
func listen(c *config, certificates map[string]*tls.Certificate) error {
	// With segmentation offload, captures would show datagrams that were never on a wire. The receive buffer is
	// as large as the system allows; a warning on standard error would not help.
	names := []string{"QUIC_GO_DISABLE_RECEIVE_BUFFER_WARNING"}
	if !c.Transport.GSO {
		names = append(names, "QUIC_GO_DISABLE_GSO")
	}
	for _, name := range names {
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
		settings := tlsConfig(r, certificates)
		for _, key := range c.ECH {
			settings.EncryptedClientHelloKeys = append(settings.EncryptedClientHelloKeys, tls.EncryptedClientHelloKey{
				Config: key.Config, PrivateKey: key.Key, SendAsRetry: true,
			})
		}
		listener, err := (&quic.Transport{Conn: conn}).Listen(settings, &quic.Config{
			HandshakeIdleTimeout: idle,
			MaxIdleTimeout:       idle,
			// Writes into the folder QLOGDIR if the environment variable is set.
			Tracer: qlog.DefaultConnectionTracer,
		})
		if err != nil {
			return fmt.Errorf("cannot listen on UDP %s: %w", address, err)
		}
		go serve(listener, r)
	}
	return nil
}

// tlsConfig delays the handshake in the callback that chooses the certificate. quic-go waits for it before it
// sends anything, including the acknowledgement. A client without the endpoint's protocol gets an immediate
// alert.
func tlsConfig(r *route, certificates map[string]*tls.Certificate) *tls.Config {
	settings := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{h3},
		SessionTicketsDisabled: true,
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			e := r.find(hello.ServerName)
			time.Sleep(certificateDelay(e))
			return certificates[e.Certificate], nil
		},
	}
	settings.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		protocol := r.find(hello.ServerName).ALPN
		if protocol == h3 {
			return nil, nil // these settings
		}
		other := settings.Clone()
		other.NextProtos = []string{protocol}
		return other, nil
	}
	return settings
}

// serve answers requests on an address's connections. It gets a connection after its handshake, so that
// HTTP/3 adds no data to the first flight.
func serve(listener *quic.Listener, r *route) {
	server := &http3.Server{
		Handler:        http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) { respond(w, request, r) }),
		MaxHeaderBytes: mostHeaderBytes,
	}
	for {
		conn, err := listener.Accept(context.Background())
		if err != nil {
			return // the process exits
		}
		if conn.ConnectionState().TLS.NegotiatedProtocol == hqInterop {
			go servePlainly(conn, r)
		} else {
			go func() { _ = server.ServeQUICConn(conn) }()
		}
	}
}

// servePlainly answers a connection's HTTP/0.9 requests: `GET PATH` on a stream. The answer is only the declared
// content, or an empty line without content.
func servePlainly(conn *quic.Conn, r *route) {
	answer := r.find(conn.ConnectionState().TLS.ServerName).HTTP
	for {
		stream, err := conn.AcceptStream(conn.Context())
		if err != nil {
			return // the client is gone
		}
		go func() {
			if _, err := io.Copy(io.Discard, stream); err != nil || answer == nil {
				return
			}
			time.Sleep(time.Duration(answer.DelayUs) * time.Microsecond)
			if answer.BodyBytes == 0 {
				_, _ = io.WriteString(stream, "\r\n")
			}
			writeBody(stream, answer)
			_ = stream.Close()
		}()
	}
}

// respond sends the declared answer of the endpoint, or waits until the client is gone.
func respond(w http.ResponseWriter, request *http.Request, r *route) {
	answer := r.find(request.TLS.ServerName).HTTP
	if answer == nil {
		<-request.Context().Done()
		return
	}
	time.Sleep(time.Duration(answer.DelayUs) * time.Microsecond)
	fields := w.Header()
	fields["Date"] = nil // not added, so that the answer has only the declared fields
	for _, field := range answer.Headers {
		fields.Add(field[0], field[1])
	}
	w.WriteHeader(answer.Status)
	writeBody(w, answer)
}

// writeBody writes the declared content.
func writeBody(w io.Writer, answer *answer) {
	zeros := make([]byte, min(answer.BodyBytes, bodyChunk))
	for left := answer.BodyBytes; left > 0; left -= uint64(len(zeros)) {
		zeros = zeros[:min(left, bodyChunk)]
		if _, err := w.Write(zeros); err != nil {
			return // the client is gone
		}
	}
}
