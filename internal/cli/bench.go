package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/peil-stream/peil"
	"github.com/peil-stream/peil/internal/bench"
	"github.com/peil-stream/peil/internal/config"
	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/stream/kafka"
)

// benchStage is the hidden command that runs one stage.
const benchStage = "bench-stage"

// stageGrace is how long a stage that was asked to stop may take.
const stageGrace = 30 * time.Second

// benchFlags are what peil bench takes.
type benchFlags struct {
	records, topic, compression, profile string
	partitions, rounds                   int
	seed                                 uint64
	stages                               []string
	keep                                 bool
}

func (f *benchFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	placeholder := func(name, text string) { annotate(flags.Lookup(name), annotatePlaceholder, text) }
	flags.StringVar(&f.records, "records", "2m", "Records to read; 500k and 10m are thousands and millions.")
	placeholder("records", "N")
	flags.IntVar(&f.partitions, "partitions", 4, "Partitions of the topic.")
	placeholder("partitions", "N")
	flags.IntVar(&f.rounds, "rounds", 3, "How often every stage runs, in turns; medians are shown.")
	placeholder("rounds", "N")
	flags.Uint64Var(&f.seed, "seed", 1, "What the records are drawn from.")
	placeholder("seed", "N")
	flags.StringSliceVar(&f.stages, "stages", bench.Stages(), "What to run; postgres needs --sink.")
	placeholder("stages", "NAME,…")
	annotate(flags.Lookup("stages"), annotateDefault, strings.Join(bench.Stages(), ","))
	flags.StringVar(&f.topic, "topic", "", "A topic to fill and keep; if an earlier run has filled it, it is only read. Needs --brokers.")
	placeholder("topic", "NAME")
	annotate(flags.Lookup("topic"), annotateDefault, "a new one, deleted at the end")
	flags.BoolVar(&f.keep, "keep-topic", false, "Keep the topic that was made. Needs --brokers.")
	flags.StringVar(&f.compression, "compression", "none", "How the records are compressed: none, snappy, lz4 or zstd.")
	placeholder("compression", "NAME")
	flags.StringVar(&f.profile, "profile", "", "Folder for profiles of processor time and allocations of every run.")
	placeholder("profile", "DIR")
	completeWords(cmd, "stages", bench.Stages())
	completeWords(cmd, "compression", benchCompressions())
	if err := cmd.MarkFlagDirname("profile"); err != nil {
		panic(err) // the flag was made above
	}
}

func benchCompressions() []string { return []string{"none", "snappy", "lz4", "zstd"} }

// options checks the flags. l is where the rest of a connection is set; brokers
// and database count only if the command line names them, so that a bench never
// falls upon those of a configuration.
func (f *benchFlags) options(l *config.Loaded, log *slog.Logger) (bench.Options, error) {
	o := bench.Options{
		Rounds: f.rounds, Stages: f.stages, Topic: f.topic, Keep: f.keep, Compression: f.compression, Profile: f.profile,
	}
	if l.Origin("kafka.brokers").Kind == config.FromFlag {
		var err error
		if o.Kafka, err = peil.KafkaOptions(l.Config.Kafka, log); err != nil {
			return o, explain(err)
		}
	}
	if l.Origin("sink.url").Kind == config.FromFlag {
		o.Postgres = l.Config.Sink.URL.Reveal()
	}
	records, err := parseCount(f.records)
	if err != nil {
		return o, err
	}
	o.Shape = bench.Shape{Seed: f.seed, Records: records, Partitions: int32(f.partitions)}
	switch {
	case f.partitions < 1 || f.partitions > 1000:
		return o, usageError("", "--partitions %d is not between 1 and 1000", f.partitions)
	case f.rounds < 1 || f.rounds > 1000:
		return o, usageError("", "--rounds %d is not between 1 and 1000", f.rounds)
	case !slices.Contains(benchCompressions(), f.compression):
		return o, usageError("", "--compression %q is not one of %s", f.compression, strings.Join(benchCompressions(), ", "))
	case len(o.Kafka.Brokers) == 0 && (f.topic != "" || f.keep):
		return o, usageError("the brokers in memory end with the command; name others with --brokers", "--topic and --keep-topic need --brokers")
	case len(f.stages) == 0:
		return o, usageError("", "--stages is empty")
	}
	for _, s := range f.stages {
		if !slices.Contains(bench.Stages(), s) {
			return o, usageError("", "--stages: %q is not one of %s", s, strings.Join(bench.Stages(), ", "))
		}
	}
	if slices.Equal(f.stages, []string{bench.StagePostgres}) && o.Postgres == "" {
		return o, usageError("as in --sink postgres://localhost/peil", "the stage postgres needs --sink")
	}
	return o, nil
}

// parseCount reads 20000, 500k or 10m.
func parseCount(text string) (int64, error) {
	digits, factor := strings.ToLower(text), int64(1)
	switch {
	case strings.HasSuffix(digits, "k"):
		digits, factor = digits[:len(digits)-1], 1_000
	case strings.HasSuffix(digits, "m"):
		digits, factor = digits[:len(digits)-1], 1_000_000
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	const most = 1_000_000_000
	if err != nil || n < 1 || n > most/factor {
		return 0, usageError("", "--records %q is no number between 1 and 1000m, such as 20000, 500k or 10m", text)
	}
	return n * factor, nil
}

func newBenchCommand(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure the whole job here, as a ratio to plain consumption of the same records.",
		Example: `# Brokers in memory and SQLite: nothing to install.
peil bench

# Real ones. Topic and schema are made for it and deleted at the end.
peil bench --records 10m --brokers localhost:9092 --sink postgres://localhost/peil

# The ratios, for another program.
peil bench -o json | jq '.stages[] | {stage, ratio}'`,
		GroupID: groupOperate,
		Args:    noArgs,
	}
	var f benchFlags
	f.add(cmd)
	out := a.outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		o, err := out()
		if err != nil {
			return err
		}
		l, err := a.config(cmd)
		if err != nil {
			return err
		}
		options, err := f.options(l, a.warnings(a.stderr))
		if err != nil {
			return err
		}
		options.Spawn, options.Told = a.spawn, a.benchTold()
		report, err := bench.Run(cmd.Context(), options)
		if err != nil {
			return benchError(err)
		}
		if err := a.printBench(o, report); err != nil {
			return err
		}
		if report.Differences() > 0 {
			return &ExitError{Code: ExitFindings}
		}
		return nil
	}
	return cmd
}

// newBenchStageCommand runs one stage as peil bench asks for it: a process of its
// own has memory and processor time of its own.
func newBenchStageCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     benchStage,
		Short:   "Run one stage of peil bench, which starts it.",
		Example: "peil bench",
		GroupID: groupOperate,
		Hidden:  true,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var s bench.Spec
			if err := json.NewDecoder(a.stdin).Decode(&s); err != nil {
				return fmt.Errorf("read what is to be measured: %w", err)
			}
			o := kafka.Options{Logger: a.log}
			if !s.InMemory {
				l, err := a.config(cmd)
				if err != nil {
					return err
				}
				if o, err = peil.KafkaOptions(l.Config.Kafka, a.log); err != nil {
					return explain(err)
				}
			}
			m, err := bench.RunStage(cmd.Context(), s, o)
			if err != nil {
				return benchError(err)
			}
			if err := json.NewEncoder(a.stdout).Encode(m); err != nil {
				return fmt.Errorf("write what was measured: %w", err)
			}
			return nil
		},
	}
}

// spawn runs a stage in a process of its own. The specification goes by standard
// input, as it may hold a password.
func (a *app) spawn(ctx context.Context, s bench.Spec) (m bench.Measure, err error) {
	self, err := os.Executable()
	if err != nil {
		return m, fmt.Errorf("find the own program: %w", err)
	}
	spec, err := json.Marshal(s)
	if err != nil {
		return m, fmt.Errorf("write what is to be measured: %w", err)
	}
	var stdout bytes.Buffer
	var stderr strings.Builder
	args := []string{benchStage, "--log-level", "warn"}
	if a.configFile != "" {
		args = append(args, "--config", a.configFile)
	}
	cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // this very program
	cmd.Args[0] = "peil"
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = a.environ, bytes.NewReader(spec), &stdout, &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = stageGrace
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return m, ctx.Err()
		}
		if text := strings.TrimPrefix(strings.TrimSpace(stderr.String()), "peil: "); text != "" {
			err = errors.New(text)
		}
		return m, fmt.Errorf("run stage %s: %w", s.Stage, err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &m); err != nil {
		return m, fmt.Errorf("read what was measured: %w", err)
	}
	return m, nil
}

// benchError gives an error of a bench its exit code.
func benchError(err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, stream.ErrUnavailable), errors.Is(err, sink.ErrTransient):
		return &ExitError{Code: ExitUnreachable, Err: err}
	case errors.Is(err, bench.ErrTopic):
		return &ExitError{Code: ExitUsage, Err: err, Hint: "name a topic that peil bench has filled with the same --records, --partitions and --seed, or a new one"}
	}
	return err
}

// benchTold prints what goes on; what passes only on a terminal.
func (a *app) benchTold() func(line string, passing bool) {
	terminal := isTerminal(a.stderr)
	return func(line string, passing bool) {
		// Only a picture: nobody is harmed if it cannot be drawn.
		switch {
		case terminal && passing:
			_, _ = io.WriteString(a.stderr, "\r\x1b[K"+line)
		case terminal:
			_, _ = io.WriteString(a.stderr, "\r\x1b[K"+line+"\n")
		case !passing:
			_, _ = io.WriteString(a.stderr, line+"\n")
		}
	}
}
