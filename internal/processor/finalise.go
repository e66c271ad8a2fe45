package processor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/klauspost/compress/zstd"

	"github.com/peil-stream/peil/internal/sink"
	"github.com/peil-stream/peil/internal/telemetry"
	"github.com/peil-stream/peil/window"
)

// segmentMax bounds a segment after decompression; a larger one is damaged.
const segmentMax = 256 << 20

// zstdWindow is how far back the compressor looks. A segment is seldom larger, and
// the default costs 8 MB.
const zstdWindow = 512 << 10

// codec compresses segments. Safe for concurrent use.
type codec struct {
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec() (*codec, error) {
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		return nil, fmt.Errorf("make the compressor: %w", err)
	}
	dec, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(segmentMax))
	if err != nil {
		return nil, fmt.Errorf("make the decompressor: %w", err)
	}
	return &codec{enc: enc, dec: dec}, nil
}

func (c *codec) compress(data []byte) []byte { return c.enc.EncodeAll(data, nil) }

func (c *codec) decompress(data []byte) ([]byte, error) { return c.dec.DecodeAll(data, nil) }

// finalise merges every window that is final and has an unmerged segment, topic
// by topic (R2). It depends on the tables alone, so it may run at any time, and
// running it twice changes nothing. busy: a topic is being finalised elsewhere.
func (p *Processor) finalise(ctx context.Context) (busy bool, err error) {
	for _, topic := range p.windowed {
		for {
			n := 0
			err := patiently(ctx, p.cfg.Patience, p.waiting, func() (err error) {
				n, err = p.finaliseSome(ctx, sink.FinalRequest{Topic: topic.Name, TopicID: topic.ID, Limit: p.cfg.FinalLimit})
				return err
			})
			if errors.Is(err, sink.ErrBusy) {
				busy = true
				break
			}
			if err != nil {
				return false, fmt.Errorf("finalise %s: %w", topic.Name, err)
			}
			if n < p.cfg.FinalLimit {
				break
			}
		}
	}
	return busy, nil
}

// finaliseSome merges the oldest pending windows in one transaction.
func (p *Processor) finaliseSome(ctx context.Context, req sink.FinalRequest) (n int, err error) {
	f, err := p.sink.Final(ctx, req)
	if err != nil {
		return 0, err
	}
	defer func() {
		// After a commit this does nothing; after an error that error counts.
		if rollback := f.Rollback(context.WithoutCancel(ctx)); rollback != nil && err == nil { // the transaction must end also when ctx has
			err = rollback
		}
	}()
	pending, err := f.Pending(ctx)
	if err != nil || len(pending) == 0 {
		return 0, err
	}
	var total sink.Applied
	for _, w := range pending {
		rows, err := p.merge(w)
		if err != nil {
			return 0, fmt.Errorf("window %d: %w", w.Start, err)
		}
		a, err := f.Apply(ctx, w, rows)
		if err != nil {
			return 0, err
		}
		total.Inserted += a.Inserted
		total.Revised += a.Revised
		total.Removed += a.Removed
		total.Foreign += a.Foreign
	}
	if err := f.Commit(ctx); err != nil {
		return 0, err
	}
	p.metrics.finalised(len(pending), total)
	if total.Foreign > 0 {
		p.cfg.Logger.LogAttrs(ctx, slog.LevelError, "rows of another topic stand under the same keys and were left alone",
			slog.String("topic", req.Topic), slog.Int("rows", total.Foreign))
	}
	return len(pending), nil
}

func (p *Processor) merge(w sink.PendingWindow) ([]window.Row, error) {
	data := make([][]byte, len(w.Segments))
	for i, s := range w.Segments {
		var err error
		if data[i], err = p.codec.decompress(s.Data); err != nil {
			return nil, fmt.Errorf("decompress the segment of partition %d: %w", s.Partition, err)
		}
	}
	return window.Merge(data...)
}

// offsets reads consumer_offsets.
func (p *Processor) offsets(ctx context.Context) (offsets []sink.Offset, err error) {
	err = patiently(ctx, p.cfg.Patience, p.waiting, func() (err error) {
		v, err := p.sink.View(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, v.Close()) }()
		offsets, err = v.Offsets(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the offsets: %w", err)
	}
	return offsets, nil
}

// showFinality shows in the metrics which partitions hold finality, and why.
func (p *Processor) showFinality(ctx context.Context) error {
	offsets, err := p.offsets(ctx)
	if err != nil {
		return err
	}
	p.metrics.FinalityHeld.Reset()
	for _, t := range p.windowed {
		for _, h := range sink.Holders(offsets, t.Name, t.ID).Holders {
			p.metrics.FinalityHeld.WithLabelValues(t.Name, telemetry.Partition(h.Partition.Index), string(h.Hold)).Set(1)
		}
	}
	return nil
}
