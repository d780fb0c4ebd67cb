// Firstflight-quicgo-client sends HTTP/3 or HTTP/0.9 requests with quic-go, each on a separate connection.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"

	"firstflight/lab/stacks/quic-go/requests"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/qlog"
)

func main() {
	client := requests.Client{
		Name:     "firstflight-quicgo-client",
		About:    "Sends HTTP/3 or HTTP/0.9 requests with quic-go: reads a request per line, and writes an answer per line.",
		Library:  "quic-go",
		Module:   "github.com/quic-go/quic-go",
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
	settings := &quic.Config{
		HandshakeIdleTimeout: asked.Patience(), MaxIdleTimeout: asked.Patience(),
		// Writes into the folder QLOGDIR if the environment variable is set.
		Tracer: qlog.DefaultConnectionTracer,
	}
	dial := func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
		conn, err := quic.DialAddr(ctx, asked.Address(), tlsConfig, config)
		if err == nil {
			made.Connected()
		}
		return conn, err
	}
	if asked.HTTP == "0.9" {
		configuration.NextProtos = []string{requests.HQInterop}
		conn, err := dial(ctx, "", configuration, settings)
		if err != nil {
			return err
		}
		defer func() { _ = conn.CloseWithError(0, "") }()
		return exchangePlainly(ctx, asked, made, conn)
	}
	transport := &http3.Transport{
		DisableCompression: true,
		TLSClientConfig:    configuration,
		QUICConfig:         settings,
		Dial:               dial,
	}
	defer transport.Close()
	url := fmt.Sprintf("https://%s:%d%s", asked.Host, asked.Port, asked.Path)
	sent, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	sent.Header.Set("User-Agent", asked.Agent)
	response, err := transport.RoundTrip(sent)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	made.Status = &response.StatusCode
	return made.Read(asked, response.Body)
}

// exchangePlainly sends an HTTP/0.9 request and reads the response.
func exchangePlainly(ctx context.Context, asked *requests.Request, made *requests.Answer, conn *quic.Conn) error {
	stream, err := conn.OpenStreamSync(ctx)
	if err != nil {
		return err
	}
	deadline, _ := ctx.Deadline()
	if err := stream.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stream, "GET %s\r\n", asked.Path); err != nil {
		return err
	}
	if err := stream.Close(); err != nil {
		return err
	}
	return made.Read(asked, stream)
}
