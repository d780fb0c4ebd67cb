// Firstflight-files serves the files in a folder over HTTP/3, for comparison with nginx, which serves the
// same folder over TCP.
package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"

	"github.com/quic-go/quic-go/http3"
)

const version = "0.1.0"

const help = `Serves the files of a folder over HTTP/3.

Usage: firstflight-files --root DIR --certificate FILE --key FILE --listen IP:PORT [IP:PORT...]

Example: firstflight-files --root var/files --certificate chain.pem --key key.pem --listen 198.18.0.81:443`

func main() {
	options := flag.NewFlagSet("firstflight-files", flag.ContinueOnError)
	options.Usage = func() { fmt.Println(help) }
	root := options.String("root", "", "folder with the files")
	certificate := options.String("certificate", "", "chain, PEM")
	key := options.String("key", "", "its key, PEM")
	listen := options.String("listen", "", "address and port; more may follow")
	showVersion := options.Bool("version", false, "print the version and exit")
	if err := options.Parse(os.Args[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return
		}
		os.Exit(2)
	}
	if *showVersion {
		fmt.Println("firstflight-files", version)
		return
	}
	if *root == "" || *certificate == "" || *key == "" || *listen == "" {
		fail(2, errors.New("expected --root, --certificate, --key and --listen; --help shows an example"))
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		fail(2, err)
	}
	server := &http3.Server{
		Handler:   http.FileServer(http.Dir(*root)),
		TLSConfig: http3.ConfigureTLSConfig(&tls.Config{Certificates: []tls.Certificate{pair}}),
	}
	for _, address := range append([]string{*listen}, options.Args()...) {
		socket, err := net.ListenPacket("udp", address)
		if err != nil {
			fail(1, err)
		}
		go func() { fail(1, server.Serve(socket)) }()
	}
	fmt.Println("READY")
	select {}
}

func fail(status int, err error) {
	fmt.Fprintf(os.Stderr, "firstflight-files: %v.\n", err)
	os.Exit(status)
}
