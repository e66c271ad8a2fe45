package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// connectTimeout bounds one attempt to connect where the URL gives none.
const connectTimeout = 10 * time.Second

// errURL is what a URL gets that cannot be read. What the parser says about it is
// left out: it may quote a part of the password.
var errURL = errors.New("sink URL cannot be read; want postgres://user:password@host:port/database")

// parse reads the URL. writer says that the sessions must be able to write,
// unless the URL itself says what they must be.
func parse(text string, writer bool) (*pgxpool.Config, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, errURL
	}
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		// The text before the last backquote is the URL; after it comes which
		// setting is wrong.
		_, why, found := cutLast(err.Error(), "`: ")
		password, ok := u.User.Password()
		if !found || !strings.HasPrefix(u.Scheme, "postgres") || ok && strings.Contains(why, password) {
			return nil, errURL
		}
		return nil, fmt.Errorf("sink URL: %s", why)
	}
	c := cfg.ConnConfig
	if c.ConnectTimeout == 0 {
		c.ConnectTimeout = connectTimeout
	}
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "peil"
	}
	if writer && c.ValidateConnect == nil && !strings.Contains(text, "target_session_attrs") {
		c.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	return cfg, nil
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// place names server and database, without user and password.
func place(c *pgconn.Config) string {
	hosts := net.JoinHostPort(c.Host, strconv.Itoa(int(c.Port)))
	for _, f := range c.Fallbacks {
		if at := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port))); !strings.Contains(hosts, at) {
			hosts += "," + at
		}
	}
	return hosts + "/" + c.Database
}

// connect opens a pool and sees that the server answers and can hold every text.
func connect(ctx context.Context, text string, writer bool) (*pgxpool.Pool, error) {
	cfg, err := parse(text, writer)
	if err != nil {
		return nil, err
	}
	at := place(&cfg.ConnConfig.Config)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, failure(ctx, "connect to "+at, err)
	}
	if err := check(ctx, pool); err != nil {
		pool.Close()
		return nil, failure(ctx, "connect to "+at, err)
	}
	return pool, nil
}

func check(ctx context.Context, pool *pgxpool.Pool) error {
	c, err := pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer c.Release()
	if encoding := c.Conn().PgConn().ParameterStatus("server_encoding"); encoding != "UTF8" {
		return &SchemaError{
			What:   "the database has the encoding " + encoding + ", which cannot hold every id",
			Advice: "create the database with ENCODING 'UTF8'",
		}
	}
	return nil
}
