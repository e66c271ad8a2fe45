package sinktest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAdditions(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, statement string
		want            []string
	}{
		{"no upsert", `INSERT INTO t (a) VALUES (1 + 1)`, nil},
		{"replace", `INSERT INTO t VALUES (?) ON CONFLICT (k) DO UPDATE SET a = excluded.a, b = COALESCE(excluded.b, t.b)`, nil},
		{
			"revision", `INSERT INTO t VALUES (?) ON CONFLICT (k) DO UPDATE SET revision = t.revision + 1, a = excluded.a
				WHERE t.topic = excluded.topic AND (excluded.a, 1) IS DISTINCT FROM (t.a, 1)`, nil,
		},
		{
			"addition", `INSERT INTO t VALUES (?) ON CONFLICT (k) DO UPDATE SET n = t.n + excluded.n, a = excluded.a`,
			[]string{"SET n = t.n + excluded.n"},
		},
		{
			"addition in brackets", `INSERT INTO t VALUES (?) on conflict (k) do  update set a = 1, n = COALESCE(t.n + excluded.n, 0)`,
			[]string{"n = COALESCE(t.n + excluded.n, 0)"},
		},
		{
			"revision by two", `INSERT INTO t VALUES (?) ON CONFLICT (k) DO UPDATE SET revision = t.revision + 2`,
			[]string{"SET revision = t.revision + 2"},
		},
		{
			"count by the revision's leave", `INSERT INTO t VALUES (?) ON CONFLICT (k) DO UPDATE SET n = t.revision + 1`,
			[]string{"SET n = t.revision + 1"},
		},
		{
			"greatest", `INSERT INTO t VALUES (?) ON CONFLICT (k) DO UPDATE SET m = GREATEST(t.m, excluded.m) WHERE a - 1 > 0`,
			[]string{"SET m = GREATEST(t.m, excluded.m)", "a - 1 > 0"},
		},
		{"plain update", `UPDATE delay_aggregates SET event_count = 1`, []string{"UPDATE delay_aggregates"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, additions(tt.statement)); diff != "" {
				t.Errorf("additions(%q) mismatch (-want +got):\n%s", tt.statement, diff)
			}
		})
	}
}

func TestStatements(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.go", "package a\nconst q = `INSERT DO UPDATE SET a = 1`\nconst r = \"SELECT \" + \"1\"\n")
	write("a_test.go", "package a\nconst s = `test`\n")
	got, err := statements(dir)
	if err != nil {
		t.Fatalf("statements: %v", err)
	}
	if diff := cmp.Diff([]string{"INSERT DO UPDATE SET a = 1", "SELECT ", "1"}, got); diff != "" {
		t.Errorf("statements mismatch (-want +got):\n%s", diff)
	}
	write("b.go", "package a\nconst u = `INSERT DO UPDATE SET ` + q\n")
	if _, err := statements(dir); err == nil || !strings.Contains(err.Error(), "put together") {
		t.Errorf("statements of an upsert in pieces: got error %v", err)
	}
}

func TestChecksHaveNames(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, c := range Checks() {
		if c.Name == "" || seen[c.Name] {
			t.Errorf("name %q is empty or not unique", c.Name)
		}
		seen[c.Name] = true
	}
}

func TestClockMovesOn(t *testing.T) {
	t.Parallel()
	var c Clock
	if a, b := c.Now(), c.Now(); !b.After(a) {
		t.Errorf("clock went from %v to %v", a, b)
	}
}
