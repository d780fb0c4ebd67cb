package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// The application protocols (ALPN) that the server answers. hq-interop is HTTP/0.9.
const (
	h3        = "h3"
	hqInterop = "hq-interop"
)

// config is the JSON file for every server in the lab (docs/reference/lab-hosts.md).
type config struct {
	Port         uint16                      `json:"port"`
	Listen       []netip.Addr                `json:"listen"`
	Certificates map[string]certificateFiles `json:"certificates"`
	Endpoints    []endpoint                  `json:"endpoints"`
	// ECH holds keys of Encrypted ClientHello (RFC 9849). Without keys, the server does not support it.
	ECH []echKey `json:"ech"`
	// Transport holds settings of the stack. Other settings of docs/reference/lab-hosts.md are rejected.
	Transport transport `json:"transport"`
}

// transport holds the settings that this server supports.
type transport struct {
	// GSO allows several datagrams to go to the kernel as a single buffer.
	GSO bool `json:"gso"`
}

// echKey is an ECHConfig and its private key, in base64 in JSON.
type echKey struct {
	Config []byte `json:"config"`
	Key    []byte `json:"key"`
}

// certificateFiles are PEM files: the chain (leaf first, without the root) and the leaf's private key.
type certificateFiles struct {
	Chain string `json:"chain"`
	Key   string `json:"key"`
}

// endpoint is the behaviour for one name at one address.
type endpoint struct {
	Domain      string     `json:"domain"`
	IP          netip.Addr `json:"ip"`
	Mode        string     `json:"mode"`
	DelayUs     *uint64    `json:"delay_us"`
	Certificate string     `json:"certificate"`
	// ALPN is the application protocol that the server accepts.
	ALPN string `json:"alpn"`
	// HTTP is the answer to requests. Without it, requests are never answered.
	HTTP *answer `json:"http"`
}

// answer is the answer to a request, for any method and path.
type answer struct {
	Status  int         `json:"status"`
	Headers [][2]string `json:"headers"`
	DelayUs uint64      `json:"delay_us"`
	// BodyBytes is the length of the content, which is zeros; 0: only the header section.
	BodyBytes uint64 `json:"body_bytes"`
}

// UnmarshalJSON reads an endpoint, which accepts h3 by default.
func (e *endpoint) UnmarshalJSON(text []byte) error {
	type plain endpoint
	read := plain{ALPN: h3}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return err
	}
	*e = endpoint(read)
	return nil
}

// delay returns the time between the ClientHello and the answer; zero without a declared delay.
func (e *endpoint) delay() time.Duration {
	if e.DelayUs == nil {
		return 0
	}
	return time.Duration(*e.DelayUs) * time.Microsecond
}

func readConfig(file string) (*config, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return parseConfig(text)
}

// parseConfig checks that every reference has a declaration and that every mode is known.
func parseConfig(text []byte) (*config, error) {
	var c config
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&c); err != nil {
		return nil, fmt.Errorf("is not a server's configuration: %w", err)
	}
	if len(c.Listen) == 0 {
		return nil, fmt.Errorf("`listen` names no address")
	}
	served := map[netip.Addr]map[string]bool{}
	for _, e := range c.Endpoints {
		name := fmt.Sprintf("endpoint %s at %s", e.Domain, e.IP)
		if !slices.Contains(modes, e.Mode) {
			return nil, fmt.Errorf("%s: mode `%s` is not in lab/stacks/quic-go/README.md", name, e.Mode)
		}
		if e.ALPN == "" {
			return nil, fmt.Errorf("%s: `alpn` is empty, but Go accepts no QUIC connection without a protocol", name)
		}
		if e.HTTP != nil && (e.HTTP.Status < 200 || e.HTTP.Status > 999) {
			return nil, fmt.Errorf("%s: %d is not a final status", name, e.HTTP.Status)
		}
		if !slices.Contains(c.Listen, e.IP) {
			return nil, fmt.Errorf("%s: its ip is not in `listen`", name)
		}
		if _, found := c.Certificates[e.Certificate]; !found {
			return nil, fmt.Errorf("%s: there is no certificate `%s`", name, e.Certificate)
		}
		if served[e.IP] == nil {
			served[e.IP] = map[string]bool{}
		}
		if served[e.IP][strings.ToLower(e.Domain)] {
			return nil, fmt.Errorf("%s is declared twice", name)
		}
		served[e.IP][strings.ToLower(e.Domain)] = true
	}
	for _, ip := range c.Listen {
		if served[ip] == nil {
			return nil, fmt.Errorf("`listen` names %s, but no endpoint has that ip", ip)
		}
	}
	return &c, nil
}

// route holds an address's endpoints.
type route struct {
	first  *endpoint
	byName map[string]*endpoint
}

// find returns the endpoint for an SNI, or the first endpoint for an unknown or missing SNI.
func (r *route) find(sni string) *endpoint {
	if e, found := r.byName[strings.ToLower(sni)]; found {
		return e
	}
	return r.first
}

// routes groups the endpoints by address.
func (c *config) routes() map[netip.Addr]*route {
	routes := map[netip.Addr]*route{}
	for i := range c.Endpoints {
		e := &c.Endpoints[i]
		r := routes[e.IP]
		if r == nil {
			r = &route{first: e, byName: map[string]*endpoint{}}
			routes[e.IP] = r
		}
		r.byName[strings.ToLower(e.Domain)] = e
	}
	return routes
}
