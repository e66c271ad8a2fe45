package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"testing"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/sink/sinktest"
	"github.com/peil-stream/peil/internal/sqlitefile"
	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/window"
)

// broken is a sink with one rule broken. Nil fields pass calls through.
type broken struct {
	sink.Sink
	flush  func(context.Context, []sink.PartitionFlush) (sink.FlushResult, error)
	claim  func(context.Context, sink.ClaimRequest) (sink.Claim, error)
	retain func(context.Context, int64) (int, error)
	// beforeFinal runs before a finaliser begins.
	beforeFinal func(context.Context, sink.FinalRequest) error
	pending     func(context.Context, sink.Finaliser) ([]sink.PendingWindow, error)
	apply       func(context.Context, sink.Finaliser, sink.PendingWindow, []window.Row) (sink.Applied, error)
	afterCommit func(context.Context) error
}

func (b *broken) Flush(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	if b.flush == nil {
		return b.Sink.Flush(ctx, parts)
	}
	return b.flush(ctx, slices.Clone(parts))
}

func (b *broken) Claim(ctx context.Context, req sink.ClaimRequest) (sink.Claim, error) {
	if b.claim == nil {
		return b.Sink.Claim(ctx, req)
	}
	return b.claim(ctx, req)
}

func (b *broken) Retain(ctx context.Context, before int64) (int, error) {
	if b.retain == nil {
		return b.Sink.Retain(ctx, before)
	}
	return b.retain(ctx, before)
}

func (b *broken) Final(ctx context.Context, req sink.FinalRequest) (sink.Finaliser, error) {
	if b.beforeFinal != nil {
		if err := b.beforeFinal(ctx, req); err != nil {
			return nil, err
		}
	}
	f, err := b.Sink.Final(ctx, req)
	return &brokenFinaliser{Finaliser: f, sink: b}, err
}

type brokenFinaliser struct {
	sink.Finaliser
	sink *broken
}

func (f *brokenFinaliser) Pending(ctx context.Context) ([]sink.PendingWindow, error) {
	if f.sink.pending == nil {
		return f.Finaliser.Pending(ctx)
	}
	return f.sink.pending(ctx, f.Finaliser)
}

func (f *brokenFinaliser) Apply(ctx context.Context, w sink.PendingWindow, rows []window.Row) (sink.Applied, error) {
	if f.sink.apply == nil {
		return f.Finaliser.Apply(ctx, w, rows)
	}
	return f.sink.apply(ctx, f.Finaliser, w, rows)
}

func (f *brokenFinaliser) Commit(ctx context.Context) error {
	if err := f.Finaliser.Commit(ctx); err != nil || f.sink.afterCommit == nil {
		return err
	}
	return f.sink.afterCommit(ctx)
}

// tables reads and alters the tables behind the sink's back.
type tables struct {
	sink sink.Sink
	file *sqlitefile.File
}

func (x tables) exec(ctx context.Context, query string, args ...any) error {
	return x.file.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, query, args...)
		return err
	})
}

func (x tables) view(ctx context.Context, see func(sink.View) error) error {
	v, err := x.sink.View(ctx)
	if err != nil {
		return err
	}
	return errors.Join(see(v), v.Close())
}

func (x tables) offset(ctx context.Context, p stream.Partition) (row sink.Offset, err error) {
	err = x.view(ctx, func(v sink.View) error {
		offsets, err := v.Offsets(ctx)
		for _, o := range offsets {
			if o.Partition == p {
				row = o
			}
		}
		return err
	})
	return row, err
}

// eachPart is a flush that changes each part first by what is stored.
func (x tables) eachPart(change func(*sink.PartitionFlush, sink.Offset)) func(
	context.Context, []sink.PartitionFlush,
) (sink.FlushResult, error) {
	return func(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
		for i := range parts {
			stored, err := x.offset(ctx, parts[i].Partition)
			if err != nil {
				return sink.FlushResult{}, err
			}
			change(&parts[i], stored)
		}
		return x.sink.Flush(ctx, parts)
	}
}

// widen makes every segment reach as far as the stored one of its window.
func (x tables) widen(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	for i := range parts {
		parts[i].Segments = slices.Clone(parts[i].Segments)
		err := x.view(ctx, func(v sink.View) error {
			for g, err := range v.Segments(ctx, parts[i].Partition.Topic, false) {
				if err != nil {
					return err
				}
				for j := range parts[i].Segments {
					if o := &parts[i].Segments[j]; o.Start == g.Start && parts[i].Partition.Index == g.Partition {
						o.FirstOffset = min(o.FirstOffset, g.FirstOffset)
						o.ThroughOffset = max(o.ThroughOffset, g.ThroughOffset+1)
					}
				}
			}
			return nil
		})
		if err != nil {
			return sink.FlushResult{}, err
		}
	}
	return x.sink.Flush(ctx, parts)
}

// positionBack stores the position as given, even below the stored one.
func (x tables) positionBack(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	positions := make([]int64, len(parts))
	for i := range parts {
		positions[i] = parts[i].To.Position
		if parts[i].From != nil {
			parts[i].To.Position = max(parts[i].To.Position, parts[i].From.Position)
		}
	}
	result, err := x.sink.Flush(ctx, parts)
	for i := range parts {
		if err == nil {
			err = x.exec(ctx, `UPDATE consumer_offsets SET position = max(next_offset, ?) WHERE topic = ? AND partition = ?`,
				positions[i], parts[i].Partition.Topic, parts[i].Partition.Index)
		}
	}
	return result, err
}

// writeOthers writes what is not fenced.
func (x tables) writeOthers(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	result, err := x.sink.Flush(ctx, parts)
	if err != nil || len(result.Fenced) == 0 {
		return result, err
	}
	rest := slices.DeleteFunc(parts, func(p sink.PartitionFlush) bool { return slices.Contains(result.Fenced, p.Partition) })
	_, err = x.sink.Flush(ctx, rest)
	return result, err
}

// olderWins makes way for vehicles that are older than the stored ones.
func (x tables) olderWins(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
	for i := range parts {
		for _, v := range parts[i].State.Vehicles {
			err := x.exec(ctx, "DELETE FROM vehicle_latest WHERE vehicle_id = ? AND (observed_at, tie) > (?, ?)",
				v.VehicleID, sqlitefile.FormatTime(v.ObservedAt), v.Tie)
			if err != nil {
				return sink.FlushResult{}, err
			}
		}
	}
	return x.sink.Flush(ctx, parts)
}

// storedRows are the rows of a window.
func (x tables) storedRows(ctx context.Context, start int64) (rows []sink.Aggregate, err error) {
	err = x.view(ctx, func(v sink.View) error {
		for a, err := range v.Aggregates(ctx, sink.AggregateQuery{From: start, To: start + 1}) {
			if err != nil {
				return err
			}
			rows = append(rows, a)
		}
		return nil
	})
	return rows, err
}

// addUp adds to stored rows instead of replacing them.
func (x tables) addUp(
	ctx context.Context, f sink.Finaliser, w sink.PendingWindow, rows []window.Row,
) (sink.Applied, error) {
	stored, err := x.storedRows(ctx, w.Start)
	if err != nil {
		return sink.Applied{}, err
	}
	for i := range rows {
		for _, a := range stored {
			if a.Dimension == rows[i].Dimension && a.DimensionID == rows[i].ID {
				rows[i].Count += a.Count
			}
		}
	}
	return f.Apply(ctx, w, rows)
}

// keepRows never removes a row.
func (x tables) keepRows(
	ctx context.Context, f sink.Finaliser, w sink.PendingWindow, rows []window.Row,
) (sink.Applied, error) {
	stored, err := x.storedRows(ctx, w.Start)
	if err != nil {
		return sink.Applied{}, err
	}
	for _, a := range stored {
		gone := !slices.ContainsFunc(rows, func(r window.Row) bool { return r.Dimension == a.Dimension && r.ID == a.DimensionID })
		if gone && a.Topic == "arrivals" {
			rows = append(rows, window.Row{Dimension: a.Dimension, ID: a.DimensionID})
		}
	}
	return f.Apply(ctx, w, rows)
}

// markAnything marks the segments of the window as they are now.
func markAnything(
	ctx context.Context, f sink.Finaliser, w sink.PendingWindow, rows []window.Row,
) (sink.Applied, error) {
	now, err := f.Pending(ctx)
	if err != nil {
		return sink.Applied{}, err
	}
	for i := range now {
		if now[i].Start == w.Start {
			w.Segments = now[i].Segments
		}
	}
	return f.Apply(ctx, w, rows)
}

// TestSuiteHasTeeth breaks one rule at a time and sees its check fail.
func TestSuiteHasTeeth(t *testing.T) {
	t.Parallel()
	tests := []struct {
		rule, check string
		breakIt     func(tables) *broken
	}{
		{"ignores the epoch", "a flush under an older epoch is fenced", func(x tables) *broken {
			return &broken{flush: x.eachPart(func(p *sink.PartitionFlush, o sink.Offset) { p.Epoch = o.Epoch })}
		}},
		{"ignores the topic id", "a flush for another topic id is fenced", func(x tables) *broken {
			return &broken{flush: x.eachPart(func(p *sink.PartitionFlush, o sink.Offset) { p.TopicID = o.TopicID })}
		}},
		{"ignores the stored point", "a flush from another stored point is fenced", func(x tables) *broken {
			return &broken{flush: x.eachPart(func(p *sink.PartitionFlush, o sink.Offset) {
				p.From = nil
				if o.Stored {
					p.From = &o.Point
				}
			})}
		}},
		{"writes the others beside a fenced one", "one fenced partition stops the whole flush", func(x tables) *broken {
			return &broken{flush: x.writeOthers}
		}},
		{"goes on after the end of the context", "a cancelled flush writes nothing", func(x tables) *broken {
			return &broken{flush: func(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
				result, err := x.sink.Flush(context.WithoutCancel(ctx), parts)
				return result, errors.Join(err, ctx.Err())
			}}
		}},
		{"lets the position go back", "position and watermark never go back", func(x tables) *broken {
			return &broken{flush: x.positionBack}
		}},
		{"lets the watermark go back", "position and watermark never go back", func(x tables) *broken {
			return &broken{flush: func(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
				err := x.exec(ctx, "UPDATE consumer_offsets SET watermark = NULL")
				if err != nil {
					return sink.FlushResult{}, err
				}
				return x.sink.Flush(ctx, parts)
			}}
		}},
		{"records incidents at each redo", "redoing each flush leaves the tables byte-equal", func(x tables) *broken {
			return &broken{flush: func(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
				result, err := x.sink.Flush(ctx, parts)
				for _, p := range parts {
					for _, in := range p.Incidents {
						err = errors.Join(err, x.sink.Record(ctx, in))
					}
				}
				return result, err
			}}
		}},
		{"lets a fragment win", "a fragment never replaces a whole", func(x tables) *broken {
			return &broken{flush: x.widen}
		}},
		{"unmerges an equal segment", "an equal segment changes nothing", func(x tables) *broken {
			return &broken{flush: func(ctx context.Context, parts []sink.PartitionFlush) (sink.FlushResult, error) {
				result, err := x.sink.Flush(ctx, parts)
				return result, errors.Join(err, x.exec(ctx, "UPDATE window_segments SET merged_at = NULL"))
			}}
		}},
		{"deletes what it should empty", "retention empties only what is merged", func(x tables) *broken {
			return &broken{retain: func(ctx context.Context, before int64) (int, error) {
				n, err := x.sink.Retain(ctx, before)
				return n, errors.Join(err, x.exec(ctx, "DELETE FROM window_segments WHERE data IS NULL"))
			}}
		}},
		{"merges a sealed window", "M03 a sealed window is not merged until it is rewritten", func(x tables) *broken {
			return &broken{beforeFinal: func(ctx context.Context, _ sink.FinalRequest) error {
				return x.exec(ctx, "DELETE FROM window_segments WHERE data IS NULL")
			}}
		}},
		{"keeps the idle mark at a claim", "a claim takes final_to back to the watermark", func(x tables) *broken {
			return &broken{claim: func(ctx context.Context, req sink.ClaimRequest) (sink.Claim, error) {
				before, err := x.offset(ctx, req.Partition)
				if err != nil {
					return sink.Claim{}, err
				}
				c, err := x.sink.Claim(ctx, req)
				if before.FinalTo == sink.Infinity {
					err = errors.Join(err, x.exec(ctx, "UPDATE consumer_offsets SET final_to = '9999-12-31T23:59:59.999Z'"))
				}
				return c, err
			}}
		}},
		{"writes without the guard of age", "the newest vehicle stands", func(x tables) *broken {
			return &broken{flush: x.olderWins}
		}},
		{"overlooks unread partitions", "a partition that was not read holds every window", func(x tables) *broken {
			return &broken{beforeFinal: func(ctx context.Context, _ sink.FinalRequest) error {
				return x.exec(ctx, "UPDATE consumer_offsets SET final_to = '9999-12-31T23:59:59.999Z' WHERE final_to IS NULL")
			}}
		}},
		{"overlooks other topic ids", "a partition of another topic id holds every window", func(x tables) *broken {
			return &broken{beforeFinal: func(ctx context.Context, req sink.FinalRequest) error {
				return x.exec(ctx, "UPDATE consumer_offsets SET topic_id = ?", req.TopicID)
			}}
		}},
		{"takes the newest windows first", "pending windows come oldest first and bounded", func(tables) *broken {
			return &broken{pending: func(ctx context.Context, f sink.Finaliser) ([]sink.PendingWindow, error) {
				windows, err := f.Pending(ctx)
				slices.Reverse(windows)
				return windows, err
			}}
		}},
		{"adds instead of replacing", "an aggregate flushed by two epochs counts once", func(x tables) *broken {
			return &broken{apply: x.addUp}
		}},
		{"marks without identity", "M19 a segment replaced after it was read stays unmerged", func(tables) *broken {
			return &broken{apply: markAnything}
		}},
		{"always raises the revision", "M13 equal content does not raise the revision", func(x tables) *broken {
			return &broken{afterCommit: func(ctx context.Context) error {
				return x.exec(ctx, "UPDATE delay_aggregates SET revision = revision + 1")
			}}
		}},
		{"keeps rows that are gone", "rows no longer in the result are removed", func(x tables) *broken {
			return &broken{apply: x.keepRows}
		}},
		{"takes over rows of another topic", "rows of another topic are left alone", func(x tables) *broken {
			return &broken{beforeFinal: func(ctx context.Context, req sink.FinalRequest) error {
				return x.exec(ctx, "UPDATE delay_aggregates SET topic = ?", req.Topic)
			}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			i := slices.IndexFunc(sinktest.Checks(), func(c sinktest.Check) bool { return c.Name == tt.check })
			if i < 0 {
				t.Fatalf("no check %q", tt.check)
			}
			h, f := open(t)
			b := tt.breakIt(tables{sink: h.Sink, file: f})
			b.Sink = h.Sink
			h.Sink = b
			err := sinktest.Checks()[i].Run(t.Context(), h)
			if err == nil {
				t.Errorf("%q passes a sink that %s", tt.check, tt.rule)
			}
			t.Logf("%s: %v", tt.check, err)
		})
	}
}
