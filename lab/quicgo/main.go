// Firstflight-quicgo is the lab's quic-go server: it waits with its whole answer, as a server does that
// fetches its certificate first. See README.md.
package main

import (
	"flag"
	"fmt"
	"os"
)

const version = "0.1.0"

func main() {
	file := flag.String("config", "", "JSON file of the endpoints (docs/architecture.md)")
	showVersion := flag.Bool("version", false, "print the version and end")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "Serves the lab's QUIC endpoints that a JSON file declares (docs/architecture.md).")
		fmt.Fprintln(flag.CommandLine.Output(), "\nUsage: firstflight-quicgo --config FILE\n\nExample: firstflight-quicgo --config var/lab/servers/fastly-quic-go.json")
	}
	flag.Parse()
	if *showVersion {
		fmt.Println("firstflight-quicgo", version)
		return
	}
	if *file == "" || flag.NArg() != 0 {
		fail(2, fmt.Errorf("expected --config FILE and nothing else; --help shows an example"))
	}
	config, err := readConfig(*file)
	if err != nil {
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
