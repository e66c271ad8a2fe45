package sqlitefile

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestMigrate(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	one := []string{"CREATE TABLE a (x); INSERT INTO a VALUES (1);"}
	two := append(slices.Clone(one), "INSERT INTO a VALUES (2)")
	for _, steps := range [][]string{one, one, two, two} {
		if err := f.Migrate(t.Context(), "log", steps); err != nil {
			t.Fatal(err)
		}
	}
	if n := count(t, f, "SELECT count(*) FROM a"); n != 2 {
		t.Errorf("%d rows, want 2: a step ran twice or never", n)
	}
	// Components are counted apart.
	if err := f.Migrate(t.Context(), "sink", []string{"CREATE TABLE b (x)"}); err != nil {
		t.Fatal(err)
	}
	err := f.Migrate(t.Context(), "log", one)
	if !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), f.Path()) {
		t.Errorf("an older program: %v", err)
	}

	r, err := OpenReadOnly(t.Context(), f.Path(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Migrate(t.Context(), "log", two); err != nil {
		t.Errorf("a reader of the same version: %v", err)
	}
	if err := r.Migrate(t.Context(), "log", one); !errors.Is(err, ErrNewer) {
		t.Errorf("an older reader: %v", err)
	}
	if err := r.Migrate(t.Context(), "other", one); !errors.Is(err, ErrOlder) {
		t.Errorf("a newer reader: %v", err)
	}
}

func TestMigrateFailsWhole(t *testing.T) {
	t.Parallel()
	f := openTemp(t)
	err := f.Migrate(t.Context(), "log", []string{"CREATE TABLE a (x)", "CREATE TABLE nonsense"})
	if err == nil || !strings.Contains(err.Error(), "step 2") {
		t.Fatalf("error is %v", err)
	}
	if n := count(t, f, "SELECT count(*) FROM sqlite_schema"); n != 0 {
		t.Errorf("%d objects stayed", n)
	}
	if err := f.Migrate(t.Context(), "log", []string{"CREATE TABLE a (x)"}); err != nil {
		t.Fatal(err)
	}
}
