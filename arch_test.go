// Package peil_test holds the rules of the house as tests: who may import whom,
// how long files and functions may grow, and what code and tests do without.
//
// A checker takes parsed sources and returns findings, one a line, so that each
// is run twice: on small bad sources, which it must find, and on the module.
package peil_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const (
	module           = "github.com/peil-stream/peil"
	fileLinesMax     = 800
	functionLinesMax = 70
)

// pure are the packages that import the standard library and each other only.
var pure = []string{"event", "ledger", "stats", "window"}

// arrows says which packages of this module each package may import outside its
// tests. A key covers the packages below it; the longest key counts. "*" is all
// but testing code. A package may always import what lies below it.
var arrows = map[string][]string{
	"":         {"*"},
	"cmd/peil": {"internal/cli"},

	"event":  {"ledger", "stats", "window"},
	"ledger": {"event", "stats", "window"},
	"stats":  {"event", "ledger", "window"},
	"window": {"event", "ledger", "stats"},

	// Contracts.
	"internal/stream": {},
	"internal/sink":   {"internal/stream", "stats", "window"},
	"internal/job":    {"internal/sink", "internal/stream", "window"},

	// Adapters know their contract.
	"internal/sqlitefile":        {"internal/assert"},
	"internal/stream/sqlite":     {"internal/assert", "internal/sqlitefile", "internal/stream"},
	"internal/stream/kafka":      {"internal/assert", "internal/stream"},
	"internal/sink/sqlite":       {"internal/assert", "internal/sink", "internal/sqlitefile", "internal/stream", "stats", "window"},
	"internal/sink/postgres":     {"internal/assert", "internal/sink", "internal/stream", "stats", "window"},
	"internal/stream/streamtest": {"internal/stream", "internal/testkit"},
	"internal/sink/sinktest":     {"internal/sink", "internal/stream", "internal/testkit", "stats", "window"},

	"internal/processor": {
		"event", "ledger", "stats", "window", "internal/assert", "internal/dlq", "internal/job",
		"internal/sink", "internal/stream", "internal/telemetry",
	},
	"internal/dlq":     {"internal/stream"},
	"internal/transit": {"event", "internal/job", "internal/sink", "internal/stream", "window"},
	"internal/ingest":  {"event", "internal/assert", "internal/stream", "internal/telemetry", "internal/transit"},
	"internal/city":    {"event", "internal/ingest", "internal/stream", "internal/transit"},
	// The batch job is the second opinion: nothing of window, stats or ledger.
	"internal/verify": {"event", "internal/sink", "internal/stream"},

	"internal/api":       {"event", "internal/sink", "internal/stream", "internal/telemetry"},
	"internal/assert":    {},
	"internal/config":    {"internal/assert"},
	"internal/telemetry": {},
	"internal/web":       {},
	"internal/cli":       {"*"},
	"internal/bench":     {"*"},
	"internal/lab":       {"*"},
	"internal/diagnose":  {"*"},
	"internal/sim":       {"*", "internal/testkit"},
	"internal/testkit":   {"*"},
}

// testingCode lists the packages that are test code although their files are not
// called so. Only tests and each other may import them.
var testingCode = []string{"internal/testkit", "internal/stream/streamtest", "internal/sink/sinktest"}

// libraries says which packages may import a library outside their tests.
var libraries = map[string][]string{
	"github.com/twmb/franz-go":            {"internal/stream/kafka", "internal/bench", "internal/lab", "internal/diagnose"},
	"github.com/twmb/franz-go/pkg/kfake":  {"internal/bench", "internal/lab", "internal/sim"},
	"github.com/jackc/pgx":                {"internal/sink/postgres"},
	"modernc.org":                         {"internal/sqlitefile"},
	"pgregory.net/rapid":                  {},
	"go.uber.org/goleak":                  {},
	"github.com/google/go-cmp":            {},
	"github.com/go-json-experiment/json":  {},
	"github.com/rogpeppe/go-internal":     {},
	"testing":                             {},
	"github.com/stretchr/testify":         {},
	"github.com/spf13/viper":              {},
	"github.com/spf13/cobra":              {"internal/cli"},
	"github.com/goccy/go-yaml":            {"internal/config"},
	"google.golang.org/protobuf":          {"internal/transit/gtfsrt", "internal/city"},
	"github.com/prometheus/client_golang": {"internal/telemetry"},
}

// source is one parsed file.
type source struct {
	// path from the module's root, with slashes.
	path string
	// dir is the package's directory, "" for the root.
	dir  string
	text string
	file *ast.File
	fset *token.FileSet
}

func parse(name, text string) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, fmt.Errorf("parse %s: %w", name, err)
	}
	dir := path.Dir(name)
	if dir == "." {
		dir = ""
	}
	return source{path: name, dir: dir, text: text, file: file, fset: fset}, nil
}

// isTest says whether the file is test code.
func (s source) isTest() bool {
	return strings.HasSuffix(s.path, "_test.go") || under(s.dir, testingCode)
}

// at gives file:line, as an editor understands it.
func (s source) at(pos token.Pos) string {
	return s.path + ":" + strconv.Itoa(s.fset.Position(pos).Line)
}

// imports maps the import paths to their specs.
func (s source) imports() map[string]*ast.ImportSpec {
	out := make(map[string]*ast.ImportSpec, len(s.file.Imports))
	for _, spec := range s.file.Imports {
		p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		out[p] = spec
	}
	return out
}

// localName is how the file calls a package of the standard library, or "".
func (s source) localName(importPath string) string {
	spec, ok := s.imports()[importPath]
	switch {
	case !ok:
		return ""
	case spec.Name != nil:
		return spec.Name.Name
	default:
		return path.Base(importPath)
	}
}

// within says whether dir is parent or lies below it.
func within(dir, parent string) bool {
	return dir == parent || parent != "" && strings.HasPrefix(dir, parent+"/")
}

func under(dir string, parents []string) bool {
	return slices.ContainsFunc(parents, func(p string) bool { return within(dir, p) })
}

// longestKey returns the longest key of table that covers dir.
func longestKey[V any](table map[string]V, dir string) (string, bool) {
	best, found := "", false
	for key := range table {
		if within(dir, key) && (!found || len(key) > len(best)) {
			best, found = key, true
		}
	}
	return best, found
}

func checkArrows(sources []source) []string {
	var out []string
	for _, s := range sources {
		for imported, spec := range s.imports() {
			target, ours := strings.CutPrefix(imported, module)
			if !ours || target != "" && target[0] != '/' {
				continue
			}
			if msg := arrow(s, strings.TrimPrefix(target, "/")); msg != "" {
				out = append(out, s.at(spec.Pos())+": "+msg)
			}
		}
		if _, ok := longestKey(arrows, s.dir); !ok && !strings.HasSuffix(s.path, "_test.go") {
			out = append(out, s.path+": package "+s.dir+" is not in the table of arrows")
		}
	}
	return out
}

// arrow says what is wrong with an import within the module, or "".
func arrow(s source, target string) string {
	if strings.HasSuffix(s.path, "_test.go") {
		return ""
	}
	if s.dir != "" && within(target, s.dir) {
		return ""
	}
	key, _ := longestKey(arrows, s.dir)
	allowed := arrows[key]
	if under(target, allowed) {
		return ""
	}
	if slices.Contains(allowed, "*") && !under(target, testingCode) {
		return ""
	}
	if key != "" && s.dir != key && target == key {
		return "" // a package below a key may use the key's own package
	}
	return s.dir + " may not import " + target
}

func checkLibraries(sources []source) []string {
	var out []string
	for _, s := range sources {
		if under(s.dir, pure) && !s.isTest() {
			for imported, spec := range s.imports() {
				first, _, _ := strings.Cut(imported, "/")
				if strings.Contains(first, ".") && !strings.HasPrefix(imported, module+"/") {
					out = append(out, s.at(spec.Pos())+": the pure package "+s.dir+" may not import "+imported)
				}
			}
		}
		if s.isTest() {
			continue
		}
		for imported, spec := range s.imports() {
			key, ok := longestKey(libraries, imported)
			if ok && !under(s.dir, libraries[key]) {
				out = append(out, s.at(spec.Pos())+": "+s.dir+" may not import "+imported)
			}
		}
	}
	return out
}

func checkSizes(sources []source) []string {
	var out []string
	for _, s := range sources {
		if ast.IsGenerated(s.file) {
			continue
		}
		if n := strings.Count(s.text, "\n"); n > fileLinesMax {
			out = append(out, fmt.Sprintf("%s: %d lines, at most %d", s.path, n, fileLinesMax))
		}
		if strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		for _, decl := range s.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			if n := bodyLines(s, fn.Body); n > functionLinesMax {
				out = append(out, fmt.Sprintf("%s: %s has %d lines, at most %d", s.at(fn.Pos()), fn.Name.Name, n, functionLinesMax))
			}
		}
	}
	return out
}

// bodyLines counts the lines between the braces that hold more than a comment.
func bodyLines(s source, body *ast.BlockStmt) int {
	first := s.fset.Position(body.Lbrace).Line
	last := s.fset.Position(body.Rbrace).Line
	n := 0
	for _, line := range strings.Split(s.text, "\n")[first:max(first, last-1)] {
		if !strings.HasPrefix(strings.TrimSpace(line), "//") {
			n++
		}
	}
	return n
}

func checkNames(sources []source) []string {
	banned := []string{"base", "common", "helper", "helpers", "misc", "models", "types", "util", "utils"}
	var out []string
	for _, s := range sources {
		name := strings.TrimSuffix(s.file.Name.Name, "_test")
		if slices.Contains(banned, name) || slices.Contains(banned, path.Base(s.dir)) {
			out = append(out, s.path+": a package is named after what it is for, not "+name)
		}
	}
	return out
}

// checkPublic asks of each public package a doc.go with a package comment and
// an Example.
func checkPublic(sources []source) []string {
	type seen struct{ code, doc, example bool }
	packages := map[string]*seen{}
	for _, s := range sources {
		if under(s.dir, []string{"internal", "cmd"}) || s.file.Name.Name == "main" {
			continue
		}
		p := packages[s.dir]
		if p == nil {
			p = &seen{}
			packages[s.dir] = p
		}
		if !s.isTest() {
			p.code = true
			p.doc = p.doc || path.Base(s.path) == "doc.go" && s.file.Doc != nil
			continue
		}
		for _, decl := range s.file.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && strings.HasPrefix(fn.Name.Name, "Example") {
				p.example = true
			}
		}
	}
	var out []string
	for dir, p := range packages {
		if p.code && !p.doc {
			out = append(out, path.Join(dir, "doc.go")+": missing, or without a package comment")
		}
		if p.code && !p.example {
			out = append(out, "package "+path.Join(".", dir)+": no Example in its tests")
		}
	}
	return out
}

// checkCalls finds what code and tests do without: skipped tests, sleeping
// tests, and contexts from nowhere.
func checkCalls(sources []source) []string {
	var out []string
	for _, s := range sources {
		v := callVisitor{source: s, out: &out, clock: s.localName("time"), contexts: s.localName("context")}
		ast.Walk(v, s.file)
	}
	return out
}

// callVisitor walks one file and knows the parameters in scope.
type callVisitor struct {
	source
	out             *[]string
	clock, contexts string
	// handles says of each parameter in scope whether it is a test's handle.
	handles map[string]bool
}

// Visit judges one node.
func (v callVisitor) Visit(n ast.Node) ast.Visitor {
	switch n := n.(type) {
	case *ast.FuncDecl:
		return v.enter(n.Type)
	case *ast.FuncLit:
		return v.enter(n.Type)
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			v.selector(x.Name, n.Sel.Name, n.Pos())
		}
	}
	return v
}

func (v callVisitor) selector(x, name string, pos token.Pos) {
	var message string
	switch {
	case v.handles[x] && (name == "Skip" || name == "Skipf" || name == "SkipNow"):
		message = "a skipped check is a failed one: no " + x + "." + name
	case v.isTest() && x == v.clock && name == "Sleep":
		message = "wait for an event, or use testing/synctest: no time.Sleep in tests"
	case !v.isTest() && v.file.Name.Name != "main" && x == v.contexts &&
		(name == "Background" || name == "TODO") && !commented(v.source, pos):
		message = "context." + name + " outside main and tests wants a comment that says why"
	default:
		return
	}
	*v.out = append(*v.out, v.at(pos)+": "+message)
}

// enter returns the visitor for the inside of a function. The handle of rapid is
// none of testing's: its Skip tells rapid to draw again, and no check is lost.
func (v callVisitor) enter(fn *ast.FuncType) callVisitor {
	v.handles = maps.Clone(v.handles)
	if v.handles == nil {
		v.handles = map[string]bool{}
	}
	for _, field := range fn.Params.List {
		t := field.Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		sel, ok := t.(*ast.SelectorExpr)
		isHandle := false
		if ok {
			x, ok := sel.X.(*ast.Ident)
			isHandle = ok && x.Name == "testing"
		}
		for _, name := range field.Names {
			v.handles[name.Name] = isHandle
		}
	}
	return v
}

// commented says whether the line at pos, or the one before it, holds a comment.
func commented(s source, pos token.Pos) bool {
	line := s.fset.Position(pos).Line
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			first, last := s.fset.Position(c.Pos()).Line, s.fset.Position(c.End()).Line
			if first <= line && line <= last+1 {
				return true
			}
		}
	}
	return false
}

// checkNotes finds notes to oneself.
func checkNotes(sources []source) []string {
	var out []string
	for _, s := range sources {
		for _, group := range s.file.Comments {
			for _, c := range group.List {
				for _, word := range []string{"TO" + "DO", "FIX" + "ME", "XX" + "X"} {
					if strings.Contains(c.Text, word) && !ast.IsGenerated(s.file) {
						out = append(out, s.at(c.Pos())+": finish it or file it: no "+word)
					}
				}
			}
		}
	}
	return out
}

// moduleSources parses all Go files of the module.
func moduleSources(t *testing.T) []source {
	t.Helper()
	var out []source
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (base[0] == '.' || base[0] == '_' || base == "testdata" || base == "node_modules") {
				return fs.SkipDir
			}
			return nil
		}
		if filepath.Ext(base) != ".go" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(name), string(text))
		out = append(out, s)
		return err
	})
	if err != nil {
		t.Fatalf("walk the module: %v", err)
	}
	return out
}

// TestArchitecture runs every checker on the module.
func TestArchitecture(t *testing.T) {
	t.Parallel()
	sources := moduleSources(t)
	if len(sources) < 8 {
		t.Fatalf("found only %d Go files: not the module's root?", len(sources))
	}
	for _, c := range checkers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found := c.check(sources)
			slices.Sort(found)
			for _, finding := range found {
				t.Error(finding)
			}
		})
	}
}

var checkers = []struct {
	name  string
	check func([]source) []string
}{
	{"arrows", checkArrows},
	{"libraries", checkLibraries},
	{"sizes", checkSizes},
	{"names", checkNames},
	{"public", checkPublic},
	{"calls", checkCalls},
	{"notes", checkNotes},
}

// TestCheckersFindFaults runs the checkers on small sources with one fault each
// and on their sound neighbours. How: all checkers see each source, and together
// they must find exactly the fault that is named.
func TestCheckersFindFaults(t *testing.T) {
	t.Parallel()
	const imp = `import _ "` + module
	lines := func(n int) string { return strings.Repeat("\t_ = 1\n", n) }
	example := "package stats\nfunc Example() {}\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  string // part of the only finding; "": none
	}{
		{"allowed arrow", map[string]string{"internal/sink/a.go": "package sink\n" + imp + `/internal/stream"`}, ""},
		{"wrong arrow", map[string]string{"internal/stream/a.go": "package stream\n" + imp + `/internal/sink"`}, "a.go:2: internal/stream may not import internal/sink"},
		{"verify sees no window", map[string]string{"internal/verify/a.go": "package verify\n" + imp + `/window"`}, "may not import window"},
		{"ingest sees all of transit", map[string]string{"internal/ingest/a.go": "package ingest\n" + imp + `/internal/transit/gtfsrt"`}, ""},
		{"parent below a key", map[string]string{"internal/transit/gtfs/a.go": "package gtfs\n" + imp + `/internal/transit"`}, ""},
		{"main sees cli only", map[string]string{"cmd/peil/a.go": "package main\n" + imp + `/internal/config"`}, "cmd/peil may not import internal/config"},
		{"tests are free", map[string]string{"internal/stream/a_test.go": "package stream\n" + imp + `/internal/sink"`}, ""},
		{"testing code in production", map[string]string{"internal/cli/a.go": "package cli\n" + imp + `/internal/testkit"`}, "may not import internal/testkit"},
		{"package without a row", map[string]string{"internal/queue/a.go": "package queue"}, "internal/queue is not in the table"},
		{"pure with a library", map[string]string{"stats/doc.go": "// Package stats is.\npackage stats\nimport _ \"golang.org/x/sync/errgroup\"", "stats/a_test.go": example}, "pure package stats may not import golang.org/x/sync"},
		{"kgo at home", map[string]string{"internal/stream/kafka/a.go": "package kafka\nimport _ \"github.com/twmb/franz-go/pkg/kgo\""}, ""},
		{"kgo elsewhere", map[string]string{"internal/processor/a.go": "package processor\nimport _ \"github.com/twmb/franz-go/pkg/kgo\""}, "may not import github.com/twmb/franz-go/pkg/kgo"},
		{"kfake in the adapter", map[string]string{"internal/stream/kafka/a.go": "package kafka\nimport _ \"github.com/twmb/franz-go/pkg/kfake\""}, "pkg/kfake"},
		{"kfake in a test", map[string]string{"internal/stream/kafka/a_test.go": "package kafka\nimport _ \"github.com/twmb/franz-go/pkg/kfake\""}, ""},
		{"pgx elsewhere", map[string]string{"internal/sink/sqlite/a.go": "package sqlite\nimport _ \"github.com/jackc/pgx/v5\""}, "github.com/jackc/pgx/v5"},
		{"modernc elsewhere", map[string]string{"internal/sink/sqlite/a.go": "package sqlite\nimport _ \"modernc.org/sqlite\""}, "modernc.org/sqlite"},
		{"long file", map[string]string{"internal/cli/a_test.go": "package cli\n" + strings.Repeat("\n", fileLinesMax)}, "801 lines, at most 800"},
		{"long generated file", map[string]string{"internal/cli/a_test.go": "// Code generated by x. DO NOT EDIT.\n\npackage cli\n" + strings.Repeat("\n", fileLinesMax)}, ""},
		{"function at the limit", map[string]string{"internal/cli/a.go": "package cli\nfunc f() {\n" + lines(70) + "\t// why\n}\n"}, ""},
		{"function over the limit", map[string]string{"internal/cli/a.go": "package cli\nfunc f() {\n" + lines(71) + "}\n"}, "a.go:2: f has 71 lines, at most 70"},
		{"long test", map[string]string{"internal/cli/a_test.go": "package cli\nfunc f() {\n" + lines(71) + "}\n"}, ""},
		{"drawer by name", map[string]string{"internal/cli/b/a.go": "package util"}, "not util"},
		{"drawer by folder", map[string]string{"internal/cli/helpers/a.go": "package b"}, "named after what it is for"},
		{"public package", map[string]string{"stats/doc.go": "// Package stats is.\npackage stats", "stats/a_test.go": example}, ""},
		{"no doc.go", map[string]string{"stats/a.go": "// Package stats is.\npackage stats", "stats/a_test.go": example}, "stats/doc.go: missing"},
		{"no package comment", map[string]string{"stats/doc.go": "package stats", "stats/a_test.go": example}, "without a package comment"},
		{"no Example", map[string]string{"stats/doc.go": "// Package stats is.\npackage stats"}, "package stats: no Example"},
		{"skipped test", map[string]string{"internal/cli/a_test.go": "package cli\nimport \"testing\"\nfunc TestA(t *testing.T) { t.Skipf(\"\") }"}, "no t.Skipf"},
		{"skipped by another name", map[string]string{"internal/cli/a_test.go": "package cli\nimport \"testing\"\nfunc f(tb testing.TB) { tb.SkipNow() }"}, "no tb.SkipNow"},
		{"skip in a closure", map[string]string{"internal/cli/a_test.go": "package cli\nimport \"testing\"\nfunc TestA(t *testing.T) { f(func() { t.Skip() }) }"}, "no t.Skip"},
		{"draw again", map[string]string{"internal/cli/a_test.go": "package cli\nimport \"testing\"\nimport \"pgregory.net/rapid\"\nfunc TestA(t *testing.T) { rapid.Check(t, func(t *rapid.T) { t.Skip() }) }"}, ""},
		{"skip of something else", map[string]string{"internal/cli/a.go": "package cli\nfunc f(d *decoder) { d.Skip() }"}, ""},
		{"sleeping test", map[string]string{"internal/cli/a_test.go": "package cli\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }"}, "no time.Sleep"},
		{"sleeping testing code", map[string]string{"internal/testkit/a.go": "package testkit\nimport \"time\"\nfunc f() { time.Sleep(1) }"}, "no time.Sleep"},
		{"context from nowhere", map[string]string{"internal/cli/a.go": "package cli\nimport \"context\"\n\nvar x = context.Background()"}, "wants a comment"},
		{"context with a reason", map[string]string{"internal/cli/a.go": "package cli\nimport \"context\"\n\n// The caller is gone.\nvar x = context.Background()"}, ""},
		{"context in main", map[string]string{"cmd/peil/a.go": "package main\nimport \"context\"\n\nvar x = context.Background()"}, ""},
		{"note to oneself", map[string]string{"internal/cli/a.go": "package cli\n\n// TO" + "DO later"}, "finish it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var sources []source
			for name, text := range test.files {
				s, err := parse(name, text)
				if err != nil {
					t.Fatal(err)
				}
				sources = append(sources, s)
			}
			var found []string
			for _, c := range checkers {
				found = append(found, c.check(sources)...)
			}
			switch {
			case test.want == "" && len(found) > 0:
				t.Fatalf("findings in sound sources: %q", found)
			case test.want != "" && (len(found) != 1 || !strings.Contains(found[0], test.want)):
				t.Fatalf("findings %q, want one with %q", found, test.want)
			}
		})
	}
}
