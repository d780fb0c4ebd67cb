// Package built reports a program's module versions.
package built

import (
	"runtime/debug"
	"strings"
)

// With returns a module's version in this program.
func With(module string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, dep := range info.Deps {
			if dep.Path == module {
				return strings.TrimPrefix(dep.Version, "v")
			}
		}
	}
	return "unknown"
}
