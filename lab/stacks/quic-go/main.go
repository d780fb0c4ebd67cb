// Firstflight-quicgo is the lab's quic-go server. It delays its whole answer, like a server that first
// fetches its certificate. See README.md.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"firstflight/lab/stacks/quic-go/built"
)

const version = "0.1.0"

const help = `Serves the lab's QUIC endpoints that a JSON file declares (docs/reference/lab-hosts.md).

Usage: firstflight-quicgo --config FILE

Example: firstflight-quicgo --config var/lab/servers/fastly-quic-go.json`

func main() {
	options := flag.NewFlagSet("firstflight-quicgo", flag.ContinueOnError)
	// fail reports errors exactly once.
	options.SetOutput(io.Discard)
	file := options.String("config", "", "JSON file of the endpoints (docs/reference/lab-hosts.md)")
	showVersion := options.Bool("version", false, "print the version and exit")
	err := options.Parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		fmt.Println(help)
		return
	}
	if err == nil && *showVersion {
		fmt.Printf("firstflight-quicgo %s (quic-go %s)\n", version, built.With("github.com/quic-go/quic-go"))
		return
	}
	if err != nil || *file == "" || options.NArg() != 0 {
		fail(2, errors.New("expected --config FILE and nothing else; --help shows an example"))
	}
	config, err := readConfig(*file)
	if err != nil {
		fail(2, fmt.Errorf("%s: %w", *file, err))
	}
	if err := configure(config); err != nil {
		fail(2, fmt.Errorf("%s: %w", *file, err))
	}
	certificates, err := loadCertificates(config)
	if err != nil {
		fail(2, fmt.Errorf("%s: %w", *file, err))
	}
	if err := listen(config, certificates); err != nil {
		fail(1, err)
	}
	fmt.Println("READY")
	select {}
}

func fail(status int, err error) {
	fmt.Fprintf(os.Stderr, "firstflight-quicgo: %v.\n", err)
	os.Exit(status)
}
