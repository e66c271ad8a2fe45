package postgres

import (
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestWithinASchema(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"postgres://u:p%40ss@localhost:1/db", "postgresql://localhost/db?sslmode=disable", "postgres://localhost/db?search_path=other",
		"host=localhost dbname=db password=p",
	} {
		got, err := within(address, "peil_bench_x")
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		before, err := pgx.ParseConfig(address)
		if err != nil {
			t.Fatal(err)
		}
		after, err := pgx.ParseConfig(got)
		if err != nil {
			t.Errorf("%s: %v", got, err)
			continue
		}
		if after.RuntimeParams["search_path"] != "peil_bench_x" || after.Password != before.Password || after.Database != before.Database {
			t.Errorf("%s became %s", address, got)
		}
	}
	if _, err := within("postgres://u:secret@%zz/db", "s"); !errors.Is(err, errURL) {
		t.Errorf("an address that cannot be read: %v", err)
	}
}
