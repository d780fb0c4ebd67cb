// zdns with the modules that the bench uses, built only for `python -m bench resolve`.
package main

import (
	"github.com/zmap/zdns/v2/src/cli"
	_ "github.com/zmap/zdns/v2/src/modules/alookup"
)

func main() {
	cli.Execute()
}
