// Firstflight-xnet-client sends HTTP/0.9 requests with golang.org/x/net/quic, each on a separate connection.
// The module does not export its HTTP/3. The papers also used HTTP/0.9.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"firstflight/lab/stacks/quic-go/requests"

	"golang.org/x/net/quic"
	"golang.org/x/net/quic/qlog"
)

// closing is the time limit for closing a connection.
const closing = time.Second

func main() {
	client := requests.Client{
		Name:     "firstflight-xnet-client",
		About:    "Sends HTTP/0.9 requests with golang.org/x/net/quic: reads a request per line, and writes an answer per line.",
		Library:  "go-x-net",
		Module:   "golang.org/x/net",
		Exchange: exchange,
	}
	client.Main()
}

// exchange opens a connection, sends one request and reads the response.
func exchange(ctx context.Context, asked *requests.Request, made *requests.Answer, keys io.Writer) error {
	configuration, err := asked.TLS(keys)
	if err != nil {
		return err
	}
	configuration.NextProtos = []string{requests.HQInterop}
	endpoint, err := quic.Listen("udp", ":0", nil)
	if err != nil {
		return err
	}
	defer func() {
		// Send the last datagrams even after the request's time limit.
		ctx, cancel := context.WithTimeout(context.Background(), closing)
		defer cancel()
		_ = endpoint.Close(ctx)
	}()
	conn, err := endpoint.Dial(ctx, "udp", asked.Address(), &quic.Config{
		TLSConfig: configuration, HandshakeTimeout: asked.Patience(), MaxIdleTimeout: asked.Patience(),
		QLogLogger: logger(),
	})
	if err != nil {
		return err
	}
	made.Connected()
	stream, err := conn.NewStream(ctx)
	if err != nil {
		return err
	}
	stream.SetReadContext(ctx)
	stream.SetWriteContext(ctx)
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", asked.Path); err != nil {
		return err
	}
	stream.CloseWrite()
	return made.Read(asked, stream)
}

// logger writes a qlog file for each connection into the folder QLOGDIR. It returns nil if the variable is
// not set.
func logger() *slog.Logger {
	folder := os.Getenv("QLOGDIR")
	if folder == "" {
		return nil
	}
	return slog.New(qlog.NewJSONHandler(qlog.HandlerOptions{
		Level: quic.QLogLevelPacket,
		NewTrace: func(about qlog.TraceInfo) (io.WriteCloser, error) {
			if about.Vantage == qlog.VantageEndpoint {
				return nothing{}, nil
			}
			return os.Create(filepath.Join(folder, about.GroupID+"_client.sqlog"))
		},
	}))
}

// nothing discards events that do not belong to a connection.
type nothing struct{}

func (nothing) Write(text []byte) (int, error) { return len(text), nil }

func (nothing) Close() error { return nil }
