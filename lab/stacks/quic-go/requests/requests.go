// Package requests is shared by the testbed's clients in Go: each line of input is a request, and each line
// of output is an answer, as described in downloader/clients/contract.py.
package requests

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
	"net/netip"
	"os"
	"strings"
	"time"

	"firstflight/lab/stacks/quic-go/built"
)

const version = "0.1.0"

// HQInterop is the protocol (ALPN) of HTTP/0.9 over QUIC: `GET PATH` on a stream, and the body as the answer.
const HQInterop = "hq-interop"

// allowable lists networks that never lead to other people's machines, as in
// firstflight/egress/special_networks.csv.
var allowable = []string{
	"127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "198.18.0.0/15", "2001:db8::/32",
}

func isAllowable(network netip.Prefix) bool {
	for _, prefix := range allowable {
		outer := netip.MustParsePrefix(prefix)
		if outer.Bits() <= network.Bits() && outer.Contains(network.Addr()) {
			return true
		}
	}
	return false
}

// Request holds a request's fields that these clients use.
type Request struct {
	Host     string     `json:"host"`
	IP       netip.Addr `json:"ip"`
	Port     uint16     `json:"port"`
	Path     string     `json:"path"`
	Agent    string     `json:"user_agent"`
	TimeoutS float64    `json:"timeout_s"`
	MaxBytes int64      `json:"max_bytes"`
	Roots    string     `json:"roots"`
	Verify   bool       `json:"verify"`
	// HTTP is the version of HTTP: 3, or 0.9 for HQInterop. Clients that support only one of them ignore it.
	HTTP string `json:"http"`
}

// Patience returns a request's time limit.
func (r *Request) Patience() time.Duration {
	return time.Duration(r.TimeoutS * float64(time.Second))
}

// Address returns the server's address and port.
func (r *Request) Address() string {
	return netip.AddrPortFrom(r.IP, r.Port).String()
}

// TLS returns a connection's configuration. It appends the connection's secrets to keys.
func (r *Request) TLS(keys io.Writer) (*tls.Config, error) {
	pem, err := os.ReadFile(r.Roots)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, ServerName: r.Host, RootCAs: roots, KeyLogWriter: keys, InsecureSkipVerify: !r.Verify,
	}, nil
}

// Answer is a request's result. A null time means that the event did not happen.
type Answer struct {
	End       string `json:"end"`
	Detail    string `json:"detail,omitempty"`
	StartedAt int64  `json:"started_at"`
	TLSUs     *int64 `json:"tls_us"`
	Duration  int64  `json:"duration_us"`
	Status    *int   `json:"status"`
	Body      int64  `json:"body_bytes"`
	begun     time.Time
}

// Connected records that the handshake is complete.
func (a *Answer) Connected() {
	taken := time.Since(a.begun).Microseconds()
	a.TLSUs = &taken
}

// Read reads the response's body up to the request's limit, and records the result of the transfer.
func (a *Answer) Read(asked *Request, body io.Reader) error {
	var err error
	a.Body, err = io.Copy(io.Discard, io.LimitReader(body, asked.MaxBytes))
	// Taken here, because closing the connection takes time.
	a.Duration = time.Since(a.begun).Microseconds()
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

// Client is a program: its name, a one-sentence description, and the stack's name (Library) and module.
type Client struct {
	Name, About, Library, Module string
	// Exchange opens a connection, sends one request and reads the response.
	Exchange func(ctx context.Context, asked *Request, made *Answer, keys io.Writer) error
}

// Main answers the requests on standard input.
func (c *Client) Main() {
	networks := []netip.Prefix{}
	for _, argument := range os.Args[1:] {
		switch value, isNet := strings.CutPrefix(argument, "allow-net="); {
		case argument == "--help" || argument == "-h":
			fmt.Printf("%s\n\nUsage: %[2]s allow-net=CIDR [allow-net=CIDR...]\n\nExample: %[2]s allow-net=127.0.0.0/8 < requests.jsonl\n",
				c.About, c.Name)
			return
		case argument == "--version" || argument == "-V":
			fmt.Println(c.Name, version)
			return
		case isNet:
			network, err := netip.ParsePrefix(value)
			if err != nil {
				c.fail(fmt.Errorf("%s: %w", argument, err))
			}
			if !isAllowable(network) {
				c.fail(fmt.Errorf(
					"%s: it must lie inside loopback, RFC 1918, fc00::/7, 198.18.0.0/15 or 2001:db8::/32", argument))
			}
			networks = append(networks, network)
		default:
			c.fail(fmt.Errorf("%s: expected allow-net=CIDR; --help shows an example", argument))
		}
	}
	keys := io.Discard
	if path := os.Getenv("SSLKEYLOGFILE"); path != "" {
		file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			c.fail(err)
		}
		keys = file
	}
	fmt.Printf("{\"ready\":\"%s/%s\"}\n", c.Library, built.With(c.Module))
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var asked Request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			c.fail(fmt.Errorf("%q is no request: %w", lines.Text(), err))
		}
		text, err := json.Marshal(c.answered(&asked, networks, keys))
		if err != nil {
			c.fail(err)
		}
		fmt.Println(string(text))
	}
}

// answered contacts an address only if one of the networks contains it.
func (c *Client) answered(asked *Request, networks []netip.Prefix, keys io.Writer) *Answer {
	permitted := false
	for _, network := range networks {
		permitted = permitted || network.Contains(asked.IP)
	}
	if !permitted {
		return &Answer{End: "blocked", Detail: fmt.Sprintf("%s is in no network of allow-net", asked.IP)}
	}
	begun := time.Now()
	made := &Answer{StartedAt: begun.UnixNano(), begun: begun}
	ctx, cancel := context.WithTimeout(context.Background(), asked.Patience())
	defer cancel()
	err := c.Exchange(ctx, asked, made, keys)
	if made.Duration == 0 {
		made.Duration = time.Since(begun).Microseconds()
	}
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

func (c *Client) fail(err error) {
	fmt.Fprintf(os.Stderr, "%s: %v.\n", c.Name, err)
	os.Exit(2)
}
