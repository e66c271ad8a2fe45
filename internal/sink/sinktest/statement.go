package sinktest

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// NoAddition holds the SQL text in the Go files of a package against the rule
// that no statement adds to what it finds: after DO UPDATE the only arithmetic
// is the one on revision, and no other UPDATE touches an aggregate. At least one
// statement with DO UPDATE must be there.
func NoAddition(t *testing.T, dir string) {
	t.Helper()
	statements, err := statements(dir)
	if err != nil {
		t.Fatalf("read statements: %v", err)
	}
	upserts := 0
	for _, s := range statements {
		if doUpdate().MatchString(s) {
			upserts++
		}
		for _, a := range additions(s) {
			t.Errorf("a statement adds to what is stored: %s\n%s", a, s)
		}
	}
	if upserts == 0 {
		t.Errorf("no statement with DO UPDATE in %s", dir)
	}
}

// statements returns the string literals in the Go files of a folder, but not in
// its tests. A literal with DO UPDATE that is put together from pieces is an
// error, because the rest of it would escape.
func statements(dir string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.BinaryExpr:
				for _, side := range []ast.Expr{n.X, n.Y} {
					if s, ok := literal(side); ok && doUpdate().MatchString(s) {
						err = errors.Join(err, fmt.Errorf("%s: an upsert is put together from pieces: %s", path, s))
					}
				}
			case *ast.BasicLit:
				if s, ok := literal(n); ok {
					found = append(found, s)
				}
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	s, err := strconv.Unquote(lit.Value)
	return s, err == nil
}

func doUpdate() *regexp.Regexp { return regexp.MustCompile(`(?i)\bDO\s+UPDATE\b`) }

// additions finds the parts of a statement that compute with a stored value.
func additions(statement string) []string {
	var found []string
	if m := regexp.MustCompile(`(?i)\bUPDATE\s+delay_aggregates\b`).FindString(statement); m != "" {
		found = append(found, m)
	}
	at := doUpdate().FindStringIndex(statement)
	if at == nil {
		return found
	}
	// Besides the operators also what adds by another name.
	arithmetic := regexp.MustCompile(`(?i)[-+*/%&|~]|\b(sum|total|array_append|concat|max|min|greatest|least)\b\s*\(`)
	revision := regexp.MustCompile(`(?i)^\s*(SET\s+)?revision\s*=\s*(\w+\.)?revision\s*\+\s*1\s*$`)
	for _, part := range splitTop(statement[at[1]:]) {
		if arithmetic.MatchString(part) && !revision.MatchString(part) {
			found = append(found, strings.TrimSpace(part))
		}
	}
	return found
}

// splitTop splits at the commas and keywords that stand outside of brackets.
func splitTop(text string) []string {
	text = regexp.MustCompile(`(?i)\b(WHERE|RETURNING)\b`).ReplaceAllString(text, ",")
	var parts []string
	depth, from := 0, 0
	for i, c := range text {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth--
		case c == ',' && depth == 0:
			parts = append(parts, text[from:i])
			from = i + 1
		}
	}
	return append(parts, text[from:])
}
