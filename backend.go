package peil

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/postgres"
	sinksqlite "github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
	streamsqlite "github.com/peil-stream/peil/internal/stream/sqlite"
)

// databaseFile is the name of the embedded file in the data folder.
const databaseFile = "peil.db"

// HintError is an error with a sentence that says what to do about it.
type HintError struct {
	Err    error
	Advice string
}

func (e *HintError) Error() string { return e.Err.Error() }
func (e *HintError) Unwrap() error { return e.Err }

// Hint says what to do.
func (e *HintError) Hint() string { return e.Advice }

// Errors that callers branch on.
var (
	// ErrUnsupported marks settings that this version cannot honour.
	ErrUnsupported = errors.New("not in this version")
	// ErrNoDatabase says that there is nothing to read yet.
	ErrNoDatabase = errors.New("there is no database yet")
	// ErrUnreachable says that brokers or database cannot be connected to.
	ErrUnreachable = errors.New("cannot connect")
)

// supported refuses settings that this version knows but cannot honour, all at
// once: an ignored setting would be a promise broken in silence.
func supported(c config.Config) error {
	var errs []error
	no := func(wrong bool, key, what, instead string) {
		if wrong {
			errs = append(errs, &HintError{Err: fmt.Errorf("%s: %s is %w", key, what, ErrUnsupported), Advice: instead})
		}
	}
	no(c.Offsets.Store == config.StoreKafka, "offsets.store", "keeping offsets in Kafka",
		"leave it out: offsets are kept in the tables, and the brokers get them as a hint for lag tools")
	no(c.Offsets.OnLoss == config.OnLossContinue, "offsets.on_loss", "going on after a loss",
		"leave it out: the partition stops and names what was lost")
	return errors.Join(errs...)
}

// backend is log and tables, open for writing.
type backend struct {
	log  stream.Log
	sink sink.Sink
	// file is the embedded file, if log or tables are in it.
	file *sqlitefile.File
	// embedded is log if it is in the file, and else nil.
	embedded *streamsqlite.Log
}

func openBackend(ctx context.Context, c config.Config, logger *slog.Logger) (_ *backend, err error) {
	b := &backend{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if c.Embedded() || c.Sink.URL.IsZero() {
		if b.file, err = openFile(ctx, c, logger); err != nil {
			return nil, err
		}
	}
	if err := b.openLog(ctx, c, logger); err != nil {
		return nil, err
	}
	return b, b.openSink(ctx, c, logger)
}

// openLog opens the log. An interface is set only to what is open, because one
// that holds a nil pointer is not nil.
func (b *backend) openLog(ctx context.Context, c config.Config, logger *slog.Logger) (err error) {
	if c.Embedded() {
		if b.embedded, err = streamsqlite.New(ctx, b.file, streamsqlite.Options{Logger: logger}); err == nil {
			b.log = b.embedded
		}
		return err
	}
	log, err := openKafka(ctx, c, logger)
	if err == nil {
		b.log = log
	}
	return err
}

// openSink opens the tables.
func (b *backend) openSink(ctx context.Context, c config.Config, logger *slog.Logger) error {
	if c.Sink.URL.IsZero() {
		s, err := sinksqlite.New(ctx, b.file, sinksqlite.Options{Logger: logger})
		if err == nil {
			b.sink = s
		}
		return err
	}
	s, err := postgres.Open(ctx, postgresOptions(c, logger))
	if err != nil {
		return database(err)
	}
	b.sink = s
	return nil
}

func openFile(ctx context.Context, c config.Config, logger *slog.Logger) (*sqlitefile.File, error) {
	path := filepath.Join(c.DataDir, databaseFile)
	f, err := sqlitefile.Open(ctx, path, sqlitefile.Options{Logger: logger})
	if errors.Is(err, sqlitefile.ErrLocked) {
		err = &HintError{Err: err, Advice: "one process writes the embedded file at a time: stop the other one, let `peil run` do both, or give this one another --data-dir"}
	}
	return f, err
}

// close closes what is open, log and tables before the file they may be in.
func (b *backend) close() error {
	var errs []error
	if b.log != nil {
		errs = append(errs, b.log.Close())
	}
	if b.sink != nil {
		errs = append(errs, b.sink.Close())
	}
	if b.file != nil {
		errs = append(errs, b.file.Close())
	}
	return errors.Join(errs...)
}

// Readers are log and tables, open for reading beside a process that writes.
type Readers struct {
	Log    stream.Reader
	Tables sink.Viewer

	closers []func() error
}

// Close releases the readers. Idempotent.
func (r *Readers) Close() error {
	var errs []error
	for _, c := range r.closers {
		errs = append(errs, c())
	}
	r.closers = nil
	return errors.Join(errs...)
}

// OpenReaders opens log and tables of a configuration for reading only. Where
// nothing was written yet the error is [ErrNoDatabase].
func OpenReaders(ctx context.Context, settings Settings, logger *slog.Logger) (_ *Readers, err error) {
	c := settings.WithDefaults()
	if err := supported(c); err != nil {
		return nil, err
	}
	r := &Readers{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if c.Embedded() || c.Sink.URL.IsZero() {
		if err := r.openFile(ctx, c, logger); err != nil {
			return nil, err
		}
	}
	if !c.Embedded() {
		log, err := openKafka(ctx, c, logger)
		if err != nil {
			return nil, err
		}
		r.Log = log
		r.closers = append(r.closers, log.Close)
	}
	if !c.Sink.URL.IsZero() {
		v, err := postgres.OpenViewer(ctx, postgresOptions(c, logger))
		if err != nil {
			return nil, database(err)
		}
		r.Tables = v
		r.closers = append(r.closers, v.Close)
	}
	return r, nil
}

// openFile opens what of log and tables is in the embedded file.
func (r *Readers) openFile(ctx context.Context, c config.Config, logger *slog.Logger) error {
	path := filepath.Join(c.DataDir, databaseFile)
	f, err := sqlitefile.OpenReadOnly(ctx, path, sqlitefile.Options{Logger: logger})
	if errors.Is(err, fs.ErrNotExist) {
		return &HintError{
			Err:    fmt.Errorf("%s: %w", path, ErrNoDatabase),
			Advice: "start with `peil demo` or `peil run`, or name the folder with --data-dir",
		}
	}
	if err != nil {
		return err
	}
	r.closers = append(r.closers, f.Close)
	if c.Embedded() {
		log, err := streamsqlite.NewReader(ctx, f)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		r.Log = log
	}
	if c.Sink.URL.IsZero() {
		tables, err := sinksqlite.NewViewer(ctx, f)
		if err != nil {
			return fmt.Errorf("open %s: %w", path, err)
		}
		r.Tables = tables
	}
	return nil
}

// Migrate brings the tables of a database to the schema of this version, and
// returns the versions before and after. The embedded file migrates by itself.
func Migrate(ctx context.Context, settings Settings, logger *slog.Logger) (from, to int, err error) {
	c := settings.WithDefaults()
	if c.Sink.URL.IsZero() {
		return 0, 0, &HintError{
			Err:    errors.New("there is no sink.url: the embedded file brings itself up to date when it is opened"),
			Advice: "name a database with --sink postgres://…",
		}
	}
	from, to, err = postgres.Migrate(ctx, postgresOptions(c, logger))
	return from, to, database(err)
}

func postgresOptions(c config.Config, logger *slog.Logger) postgres.Options {
	return postgres.Options{URL: c.Sink.URL.Reveal(), SessionTimeout: c.Kafka.SessionTimeout.Std(), Logger: logger}
}

// database says what to do about a database that cannot be opened.
func database(err error) error {
	switch {
	case errors.Is(err, postgres.ErrNoSchema):
		return &HintError{
			Err:    fmt.Errorf("%w: %w", ErrNoDatabase, err),
			Advice: "`peil migrate` makes the tables, and so does the first `peil process` or `peil run` if its role may",
		}
	case errors.Is(err, sink.ErrTransient):
		return &HintError{
			Err:    fmt.Errorf("%w to the database: %w", ErrUnreachable, err),
			Advice: "see whether the server runs, and whether sink.url names its host, port, user and database",
		}
	default:
		return err
	}
}

func openKafka(ctx context.Context, c config.Config, logger *slog.Logger) (*kafka.Log, error) {
	o, err := KafkaOptions(c.Kafka, logger)
	if err != nil {
		return nil, err
	}
	log, err := kafka.Open(ctx, o)
	if errors.Is(err, stream.ErrUnavailable) {
		return nil, &HintError{
			Err:    fmt.Errorf("%w to the brokers %s: %w", ErrUnreachable, strings.Join(c.Kafka.Brokers, ", "), err),
			Advice: "see whether the brokers run, whether kafka.brokers names their listeners, and whether kafka.tls and kafka.sasl fit them",
		}
	}
	return log, err
}
