package main

import (
	"slices"
	"strings"
	"testing"
	"time"
)

const good = `{"port": 443, "listen": ["127.0.0.1", "::1"],
	"certificates": {"small": {"chain": "c.pem", "key": "k.pem"}},
	"endpoints": [
	  {"domain": "a.test", "ip": "127.0.0.1", "mode": "wait", "delay_us": 4000, "certificate": "small"},
	  {"domain": "b.test", "ip": "127.0.0.1", "mode": "wait", "delay_us": null, "certificate": "small"},
	  {"domain": "a.test", "ip": "::1", "mode": "wait", "delay_us": 7, "certificate": "small", "alpn": "h2",
	   "http": {"status": 301, "headers": [["server", "x"], ["location", "/b"]], "delay_us": null}}]}`

func TestTheNameDecidesAndAnUnknownOneIsTheFirst(t *testing.T) {
	c, err := parseConfig([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	routes := c.routes()
	for _, want := range []struct {
		ip    int
		sni   string
		delay time.Duration
	}{{0, "B.test", 0}, {0, "c.test", 4 * time.Millisecond}, {0, "", 4 * time.Millisecond}, {1, "a.test", 7 * time.Microsecond}} {
		if got := routes[c.Listen[want.ip]].find(want.sni).delay(); got != want.delay {
			t.Errorf("%s at %s: delay %s instead of %s", want.sni, c.Listen[want.ip], got, want.delay)
		}
	}
}

func TestAnswersAreReadAndMayBeMissing(t *testing.T) {
	c, err := parseConfig([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	silent, answering := c.Endpoints[0], c.Endpoints[2]
	if silent.ALPN != h3 || silent.HTTP != nil {
		t.Errorf("%+v", silent)
	}
	if answering.ALPN != "h2" || answering.HTTP.Status != 301 || answering.HTTP.DelayUs != 0 ||
		!slices.Equal(answering.HTTP.Headers, [][2]string{{"server", "x"}, {"location", "/b"}}) {
		t.Errorf("%+v %+v", answering, answering.HTTP)
	}
}

func TestWhatDoesNotFitTogetherIsRefused(t *testing.T) {
	for _, wrong := range []struct{ from, to, words string }{
		{`"wait"`, `"iack"`, "mode `iack`"},
		{`"small"}`, `"huge"}`, "no certificate `huge`"},
		{`["127.0.0.1", "::1"]`, `[]`, "no address"},
		{`"::1"]`, `"::2", "::1"]`, "names ::2"},
		{`["127.0.0.1", "::1"]`, `["::1"]`, "not in `listen`"},
		{`b.test`, `A.test`, "twice"},
		{`"port"`, `"prot"`, "unknown field"},
		{`"mode"`, `"mood"`, "unknown field"},
		{`"h2"`, `""`, "`alpn` is empty"},
		{`301`, `101`, "not a final status"},
	} {
		_, err := parseConfig([]byte(strings.Replace(good, wrong.from, wrong.to, 1)))
		if err == nil || !strings.Contains(err.Error(), wrong.words) {
			t.Errorf("%s for %s: %v", wrong.to, wrong.from, err)
		}
	}
}
