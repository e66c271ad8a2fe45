package peil

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/sink"
	sinksqlite "github.com/peil-stream/peil/internal/sink/sqlite"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
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

// ErrUnsupported marks settings that this version cannot honour.
var ErrUnsupported = errors.New("not in this version")

// ErrUnreachable says that brokers or database cannot be connected to.
var ErrUnreachable = errors.New("cannot connect")

// ErrNoDatabase says that there is nothing to read yet.
var ErrNoDatabase = errors.New("there is no database yet")

// supported refuses settings that this version knows but cannot honour, all at
// once: an ignored setting would be a promise broken in silence.
func supported(c config.Config) error {
	var errs []error
	no := func(wrong bool, key, what string) {
		if wrong {
			errs = append(errs, &HintError{
				Err:    fmt.Errorf("%s: %s is %w", key, what, ErrUnsupported),
				Advice: "leave it out to use the embedded log and tables",
			})
		}
	}
	no(!c.Embedded(), "kafka.brokers", "a log on Kafka")
	no(!c.Sink.URL.IsZero(), "sink.url", "a sink on Postgres")
	no(c.Offsets.Store == config.StoreKafka, "offsets.store", "keeping offsets in Kafka")
	no(c.Offsets.OnLoss == config.OnLossContinue, "offsets.on_loss", "going on after a loss")
	return errors.Join(errs...)
}

// backend is log and tables, open for writing.
type backend struct {
	file *sqlitefile.File
	log  *streamsqlite.Log
	sink *sinksqlite.Sink
	// embedded is log if it is in the file, and else nil.
	embedded *streamsqlite.Log
}

func openBackend(ctx context.Context, c config.Config, logger *slog.Logger) (_ *backend, err error) {
	path := filepath.Join(c.DataDir, databaseFile)
	b := &backend{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.file, err = sqlitefile.Open(ctx, path, sqlitefile.Options{Logger: logger}); err != nil {
		if errors.Is(err, sqlitefile.ErrLocked) {
			err = &HintError{Err: err, Advice: "one process writes the embedded log at a time: stop the other one, let `peil run` do both, or give this one another --data-dir"}
		}
		return nil, err
	}
	if b.log, err = streamsqlite.New(ctx, b.file, streamsqlite.Options{Logger: logger}); err != nil {
		return nil, err
	}
	b.embedded = b.log
	if b.sink, err = sinksqlite.New(ctx, b.file, sinksqlite.Options{Logger: logger}); err != nil {
		return nil, err
	}
	return b, nil
}

// close closes what is open, log and tables before the file they are on.
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
	file   *sqlitefile.File
}

// Close releases the readers. Idempotent.
func (r *Readers) Close() error { return r.file.Close() }

// OpenReaders opens log and tables of a configuration for reading only. Where
// nothing was written yet the error is [ErrNoDatabase].
func OpenReaders(ctx context.Context, settings Settings, logger *slog.Logger) (*Readers, error) {
	c := settings.WithDefaults()
	if err := supported(c); err != nil {
		return nil, err
	}
	path := filepath.Join(c.DataDir, databaseFile)
	f, err := sqlitefile.OpenReadOnly(ctx, path, sqlitefile.Options{Logger: logger})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &HintError{
			Err:    fmt.Errorf("%s: %w", path, ErrNoDatabase),
			Advice: "start with `peil demo` or `peil run`, or name the folder with --data-dir",
		}
	}
	if err != nil {
		return nil, err
	}
	r := &Readers{file: f}
	log, err := streamsqlite.NewReader(ctx, f)
	if err == nil {
		r.Log = log
		r.Tables, err = sinksqlite.NewViewer(ctx, f)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), f.Close())
	}
	return r, nil
}
