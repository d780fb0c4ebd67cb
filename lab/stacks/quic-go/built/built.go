// Package built says which versions a program is built with.
package built

import (
	"runtime/debug"
	"strings"
)

// With returns the version of a module that this program is built with.
func With(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, one := range info.Deps {
			if one.Path == module {
				return strings.TrimPrefix(one.Version, "v")
			}
		}
	}
	return "unknown"
}
