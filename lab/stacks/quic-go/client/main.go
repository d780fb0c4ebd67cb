// Firstflight-quicgo-client sends HTTP/3 requests by quic-go, each on a connection of its own: a request a line in,
// an answer a line out, as downloader/clients/contract.py describes them.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

const help = `Sends HTTP/3 requests by quic-go: a request a line in, an answer a line out.

Usage: firstflight-quicgo-client allow-net=CIDR [allow-net=CIDR...]

Example: firstflight-quicgo-client allow-net=127.0.0.0/8 < requests.jsonl`

const (
	version = "0.1.0"
)

// request holds what this client uses of a request.
type request struct {
	Host     string     `json:"host"`
	IP       netip.Addr `json:"ip"`
	Port     uint16     `json:"port"`
	Path     string     `json:"path"`
	Agent    string     `json:"user_agent"`
	TimeoutS float64    `json:"timeout_s"`
	MaxBytes int64      `json:"max_bytes"`
	Roots    string     `json:"roots"`
	Verify   bool       `json:"verify"`
}

// answer is how a request ended; a time that is null did not happen.
type answer struct {
	End       string `json:"end"`
	Detail    string `json:"detail,omitempty"`
	StartedAt int64  `json:"started_at"`
	TLSUs     *int64 `json:"tls_us"`
	Duration  int64  `json:"duration_us"`
	Status    *int   `json:"status"`
	Body      int64  `json:"body_bytes"`
}

func main() {
	networks := []netip.Prefix{}
	for _, argument := range os.Args[1:] {
		switch value, isNet := strings.CutPrefix(argument, "allow-net="); {
		case argument == "--help" || argument == "-h":
			fmt.Println(help)
			return
		case argument == "--version" || argument == "-V":
			fmt.Println("firstflight-quicgo-client", version)
			return
		case isNet:
			network, err := netip.ParsePrefix(value)
			if err != nil {
				fail(fmt.Errorf("%s: %w", argument, err))
			}
			networks = append(networks, network)
		default:
			fail(fmt.Errorf("%s: expected allow-net=CIDR; --help shows an example", argument))
		}
	}
	keys := io.Discard
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			fail(err)
		}
		keys = file
	}
	fmt.Printf("{\"ready\":\"quic-go/%s\"}\n", library())
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			fail(fmt.Errorf("%q is no request: %w", lines.Text(), err))
		}
		text, err := json.Marshal(answered(&asked, networks, keys))
		if err != nil {
			fail(err)
		}
		fmt.Println(string(text))
	}
}

// answered contacts an address in one of the networks, and no other.
func answered(asked *request, networks []netip.Prefix, keys io.Writer) answer {
	permitted := false
	for _, network := range networks {
		permitted = permitted || network.Contains(asked.IP)
	}
	if !permitted {
		return answer{End: "blocked", Detail: fmt.Sprintf("%s is in no network of allow-net", asked.IP)}
	}
	begun := time.Now()
	made := answer{StartedAt: begun.UnixNano()}
	err := made.get(asked, keys, begun)
	made.Duration = time.Since(begun).Microseconds()
	if err != nil {
		made.Detail = err.Error()
		var timedOut net.Error
		isTimeout := errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timedOut) && timedOut.Timeout()
		switch {
		case made.TLSUs == nil:
			made.End = "connect_failed"
		case isTimeout:
			made.End = "timeout"
		default:
			made.End = "reset"
		}
	}
	return made
}

// get makes a connection, sends one request and reads the response.
func (a *answer) get(asked *request, keys io.Writer, begun time.Time) error {
	patience := time.Duration(asked.TimeoutS * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	pem, err := os.ReadFile(asked.Roots)
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	transport := &http3.Transport{
		DisableCompression: true,
		TLSClientConfig: &tls.Config{
			ServerName: asked.Host, RootCAs: roots, KeyLogWriter: keys, InsecureSkipVerify: !asked.Verify,
		},
		QUICConfig: &quic.Config{HandshakeIdleTimeout: patience, MaxIdleTimeout: patience},
		Dial: func(ctx context.Context, _ string, tlsConfig *tls.Config, config *quic.Config) (*quic.Conn, error) {
			address := netip.AddrPortFrom(asked.IP, asked.Port).String()
			conn, err := quic.DialAddr(ctx, address, tlsConfig, config)
			if err == nil {
				taken := time.Since(begun).Microseconds()
				a.TLSUs = &taken
			}
			return conn, err
		},
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
	a.Status = &response.StatusCode
	a.Body, err = io.Copy(io.Discard, io.LimitReader(response.Body, asked.MaxBytes))
	switch {
	case err != nil:
		return err
	case a.Body == asked.MaxBytes:
		a.End = "limit"
	default:
		a.End = "complete"
	}
	return nil
}

// library returns the version of quic-go that this program was built with.
func library() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, module := range info.Deps {
			if module.Path == "github.com/quic-go/quic-go" {
				return strings.TrimPrefix(module.Version, "v")
			}
		}
	}
	return "unknown"
}

func fail(err error) {
	fmt.Fprintf(os.Stderr, "firstflight-quicgo-client: %v.\n", err)
	os.Exit(2)
}
