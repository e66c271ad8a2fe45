package postgres

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// scratchTimeout bounds the making and the dropping of a schema.
const scratchTimeout = 30 * time.Second

// Scratch makes an empty schema of that name, which must not exist yet, and returns
// the address by which [Open] puts its tables there. drop removes the schema with
// all that is in it, also when ctx has ended. It is for measuring in a database
// whose other tables are left alone.
func Scratch(ctx context.Context, address, name string) (scratch string, drop func(ctx context.Context) error, err error) {
	quoted := pgx.Identifier{name}.Sanitize()
	cfg, err := parse(address, true)
	if err != nil {
		return "", nil, err
	}
	run := func(ctx context.Context, doing, statement string) error {
		ctx, cancel := context.WithTimeout(ctx, scratchTimeout)
		defer cancel()
		conn, err := pgx.ConnectConfig(ctx, cfg.ConnConfig)
		if err != nil {
			return failure(ctx, "connect to "+place(&cfg.ConnConfig.Config), err)
		}
		_, err = conn.Exec(ctx, statement)
		return failure(ctx, doing+" schema "+name, errors.Join(err, conn.Close(ctx)))
	}
	if scratch, err = within(address, name); err != nil {
		return "", nil, err
	}
	if err := run(ctx, "make", "CREATE SCHEMA "+quoted); err != nil {
		return "", nil, err
	}
	return scratch, func(ctx context.Context) error {
		return run(context.WithoutCancel(ctx), "drop", "DROP SCHEMA "+quoted+" CASCADE")
	}, nil
}

// within is an address with the schema as its search path.
func within(address, schema string) (string, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return address + " search_path=" + schema, nil
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", errURL
	}
	q := u.Query()
	q.Set("search_path", schema)
	u.RawQuery = q.Encode()
	return u.String(), nil
}
