package cli

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is set by the linker (-X …/internal/cli.version=v1.2.3). Without it the
// version of the main module counts, as for go install …@v1.2.3.
var version string

// build describes the binary; its JSON form is a contract.
type build struct {
	Version   string   `json:"version"`
	Commit    string   `json:"commit"`
	Date      string   `json:"date"`
	Modified  bool     `json:"modified"`
	GoVersion string   `json:"go_version"`
	OS        string   `json:"os"`
	Arch      string   `json:"arch"`
	Modules   []module `json:"modules"`
}

// module is one that the binary was built from.
type module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

func readVersion() build {
	b := build{Version: version, GoVersion: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH, Modules: []module{}}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if b.Version == "" {
		b.Version = info.Main.Version
	}
	if b.Version == "" || b.Version == "(devel)" {
		b.Version = "devel"
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Date = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	for _, dep := range info.Deps {
		if dep.Replace != nil {
			dep = dep.Replace
		}
		b.Modules = append(b.Modules, module{dep.Path, dep.Version})
	}
	return b
}

// line is the version for people.
func (b build) line() string {
	text := fmt.Sprintf("peil %s (%s, %s/%s", b.Version, b.GoVersion, b.OS, b.Arch)
	if b.Commit != "" {
		text += ", commit " + b.Commit[:min(len(b.Commit), 12)]
		if b.Modified {
			text += ", modified"
		}
	}
	return text + ")"
}

func newVersionCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Print the version and what it was built from.",
		GroupID: groupOther,
		Example: `peil version

# With the commit and all modules.
peil version -o json`,
		Args: noArgs,
	}
	out := a.outputFlag(cmd, formatTable, formatJSON)
	cmd.RunE = func(*cobra.Command, []string) error {
		o, err := out()
		if err != nil {
			return err
		}
		if o.format == formatJSON {
			return o.document(readVersion())
		}
		return o.write([]byte(readVersion().line() + "\n"))
	}
	return cmd
}
