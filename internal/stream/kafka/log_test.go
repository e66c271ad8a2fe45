package kafka

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/peil-stream/peil/internal/stream"
	"github.com/peil-stream/peil/internal/testkit/wire"
)

// bubble is a broker in memory on a network whose time is the test's. Its log
// has the ordinary patience.
func bubble(t *testing.T) *harness {
	t.Helper()
	stack := new(kfake.VirtualNetwork)
	c := fakeBrokers(t, kfake.ListenFn(stack.Listen), kfake.Ports(9092))
	h := &harness{wire: &wire.Wire{Dialer: stack.DialContext}}
	h.opts = Options{Brokers: c.ListenAddrs(), Dial: h.wire.Dial}
	if _, err := h.reopen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.log.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

func TestOpenUnreachable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
			"refused": func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
			},
			"silent": func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		} {
			_, err := Open(t.Context(), Options{
				Brokers: []string{"one:9092", "two:9092"}, Dial: dial,
				SASL: SASL{Mechanism: "plain", Username: "somebody", Password: "secret"},
			})
			if !errors.Is(err, stream.ErrUnavailable) {
				t.Errorf("%s: %v, want unavailable", name, err)
				continue
			}
			if s := err.Error(); !strings.Contains(s, "one:9092, two:9092") || strings.Contains(s, "secret") || strings.Contains(s, "somebody") {
				t.Errorf("%s: %v, want the seeds and no credentials", name, err)
			}
		}
		if spent := time.Since(began); spent > 2*openTimeout {
			t.Errorf("it took %v to say so twice", spent)
		}
	})
}

func TestOpenCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Open(ctx, Options{Brokers: fakeBrokers(t).ListenAddrs()})
	if !errors.Is(err, context.Canceled) || errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("open under a context that is done: %v", err)
	}
}

func TestSASL(t *testing.T) {
	t.Parallel()
	c := fakeBrokers(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "p", "secret-p"),
		kfake.Superuser("SCRAM-SHA-256", "s", "secret-256"), kfake.Superuser("SCRAM-SHA-512", "t", "secret-512"))
	for _, test := range []struct {
		SASL
		ok bool
	}{
		{SASL{"plain", "p", "secret-p"}, true},
		{SASL{"PLAIN", "p", "secret-p"}, true},
		{SASL{"scram-sha-256", "s", "secret-256"}, true},
		{SASL{"scram-sha-512", "t", "secret-512"}, true},
		{SASL{"plain", "p", "secret-256"}, false},
		{SASL{"scram-sha-512", "t", "secret-p"}, false},
		{SASL{"kerberos", "p", "secret-p"}, false},
	} {
		l, err := Open(t.Context(), Options{Brokers: c.ListenAddrs(), SASL: test.SASL, RequestTimeout: shortRequest})
		if err == nil {
			err = errors.Join(l.Create(t.Context(), stream.TopicSpec{Name: "t", Partitions: 1}), l.Close())
		}
		switch {
		case test.ok != (err == nil):
			t.Errorf("%s as %s: %v", test.Mechanism, test.Username, err)
		case err != nil && strings.Contains(err.Error(), "secret"):
			t.Errorf("%s as %s: %v, want no password", test.Mechanism, test.Username, err)
		}
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(nil) // for its certificate
	server.StartTLS()
	defer server.Close()
	c := fakeBrokers(t, kfake.TLS(&tls.Config{Certificates: server.TLS.Certificates, MinVersion: tls.VersionTLS13}))
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	l, err := Open(t.Context(), Options{Brokers: c.ListenAddrs(), TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.Create(t.Context(), stream.TopicSpec{Name: "t", Partitions: 1}), l.Close()); err != nil {
		t.Error(err)
	}
	if l, err := Open(t.Context(), Options{Brokers: c.ListenAddrs(), TLS: &tls.Config{MinVersion: tls.VersionTLS13}}); err == nil {
		t.Errorf("a certificate that nobody trusts was taken: %v", l.Close())
	}
}

func TestClassify(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ err, want error }{
		{kerr.UnknownTopicOrPartition, stream.ErrNoTopic},
		{kerr.UnknownTopicID, stream.ErrNoTopic},
		{kerr.MessageTooLarge, stream.ErrTooLarge},
		{kerr.OffsetOutOfRange, stream.ErrOutOfRange},
		{kerr.LeaderNotAvailable, stream.ErrUnavailable},
		{kerr.NotLeaderForPartition, stream.ErrUnavailable},
		{kerr.CoordinatorLoadInProgress, stream.ErrUnavailable},
		{kerr.RequestTimedOut, stream.ErrUnavailable},
		{kerr.NotEnoughReplicas, stream.ErrUnavailable},
		{kgo.ErrRecordTimeout, stream.ErrUnavailable},
		{io.EOF, stream.ErrUnavailable},
		{&net.DNSError{Name: "nowhere"}, stream.ErrUnavailable},
		{context.DeadlineExceeded, stream.ErrUnavailable}, // a deadline that is not the caller's
		{kerr.TopicAuthorizationFailed, nil},
		{kerr.InvalidPartitions, nil},
		{kgo.ErrClientClosed, nil},
	} {
		got := classify(t.Context(), fmt.Errorf("wrapped: %w", test.err))
		if !errors.Is(got, test.err) || !errors.Is(kindOf(test.err), test.want) || test.want != nil && !errors.Is(got, test.want) {
			t.Errorf("classify(%v) = %v, want one that wraps %v", test.err, got, test.want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := classify(ctx, kerr.LeaderNotAvailable); !errors.Is(err, context.Canceled) || errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("under a context that is done: %v", err)
	}
	if classify(ctx, nil) != nil {
		t.Error("nil is no error")
	}
}

// TestFencedForCertain holds that the codes of a fenced client say so only while
// the brokers cannot have ended the transaction for another reason.
func TestFencedForCertain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		for range 2 {
			young := time.Since(began) < transactionTimeout
			for _, code := range []error{kerr.InvalidProducerEpoch, kerr.ProducerFenced, kerr.InvalidTxnState} {
				if err := ended(t.Context(), code, began); errors.Is(err, stream.ErrFenced) != young || errors.Is(err, stream.ErrUnavailable) == young || !errors.Is(err, code) {
					t.Errorf("after %v: %v", time.Since(began), err)
				}
			}
			if err := pause(t.Context(), transactionTimeout); err != nil {
				t.Fatal(err)
			}
		}
		for _, code := range []error{kerr.OperationNotAttempted, kerr.OutOfOrderSequenceNumber, kerr.InvalidProducerIDMapping} {
			if err := ended(t.Context(), code, time.Now()); errors.Is(err, stream.ErrFenced) || !errors.Is(err, stream.ErrUnavailable) {
				t.Errorf("of a client that the brokers have forgotten: %v", err)
			}
		}
	})
}

// TestTopicSettings holds how topics are made.
func TestTopicSettings(t *testing.T) {
	t.Parallel()
	h := openHarness(t, fakeBrokers(t).ListenAddrs()...)
	p := h.topic(t, "week", 2)
	if err := h.log.Create(t.Context(), stream.TopicSpec{Name: h.Prefix + "day", Partitions: 1, Retention: 24 * time.Hour}); err != nil {
		t.Fatal(err)
	}
	h.publisher(t, "pub", p.Topic)
	for name, want := range map[string]settings{
		"week":                {"cleanup.policy": "delete", "retention.ms": strconv.Itoa(7 * 24 * 3600 * 1000), "message.timestamp.type": "LogAppendTime"},
		"day":                 {"cleanup.policy": "delete", "retention.ms": strconv.Itoa(24 * 3600 * 1000), "message.timestamp.type": "LogAppendTime"},
		"week" + memorySuffix: {"cleanup.policy": "compact"},
	} {
		configs, err := h.log.admin.DescribeTopicConfigs(t.Context(), h.Prefix+name)
		if err != nil {
			t.Fatal(err)
		}
		got := make(settings)
		for _, c := range configs[0].Configs {
			got[c.Key] = c.MaybeValue()
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s has %s = %q, want %q", name, key, got[key], value)
			}
		}
	}
	topics, err := h.log.Describe(t.Context(), p.Topic+memorySuffix)
	if err != nil || topics[0].Partitions != 1 {
		t.Errorf("the memory's topic: %+v, %v, want one partition", topics, err)
	}
}

// TestBoundsNotAnswered holds that a partition without an answer is an error, not
// a zero.
func TestBoundsNotAnswered(t *testing.T) {
	t.Parallel()
	c := fakeBrokers(t)
	h := openHarness(t, c.ListenAddrs()...)
	p := h.topic(t, "t", 2)
	other := stream.Partition{Topic: p.Topic, Index: 1}
	if err := h.log.Append(t.Context(), stream.Message{Topic: p.Topic, Partition: 1, Value: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	bs, err := h.log.Bounds(t.Context(), other, p, other)
	if err != nil || !slices.Equal(bs, []stream.Bounds{{End: 1}, {}, {End: 1}}) {
		t.Errorf("bounds %v, %v", bs, err)
	}
	if bs, err := h.log.Bounds(t.Context()); err != nil || len(bs) != 0 {
		t.Errorf("bounds of nothing: %v, %v", bs, err)
	}
	c.ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		return req.ResponseKind(), nil, true
	})
	if _, err := h.log.Bounds(t.Context(), p, other); !errors.Is(err, stream.ErrUnavailable) {
		t.Errorf("bounds without an answer: %v", err)
	}
}

// TestReadAcrossLeaders moves the leader of a partition between fetches.
func TestReadAcrossLeaders(t *testing.T) {
	t.Parallel()
	c := fakeBrokers(t, kfake.NumBrokers(3))
	h := openHarness(t, c.ListenAddrs()...)
	p := h.topic(t, "t", 1)
	msgs := make([]stream.Message, 40)
	for i := range msgs {
		msgs[i] = stream.Message{Topic: p.Topic, Key: []byte(strconv.Itoa(i)), Value: bytes.Repeat([]byte(strconv.Itoa(i)), 400_000/len(strconv.Itoa(i)))}
	}
	if err := h.log.Append(t.Context(), msgs...); err != nil {
		t.Fatal(err)
	}
	n := 0
	for r, err := range h.log.Read(t.Context(), p, 0, 40) {
		if err != nil {
			t.Fatal(err)
		}
		if string(r.Key) != strconv.Itoa(n) {
			t.Fatalf("record %d is %s", n, r.Key)
		}
		if n++; n%10 == 1 {
			if err := c.MoveTopicPartition(p.Topic, 0, (c.LeaderFor(p.Topic, 0)+1)%3); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n != len(msgs) {
		t.Errorf("%d records", n)
	}
}

// TestReadWithoutBrokers holds that a read whose brokers are gone ends with an
// error after a while.
func TestReadWithoutBrokers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := bubble(t)
		p := h.topic(t, "t", 1)
		big := make([]byte, 900_000)
		random := rand.NewChaCha8([32]byte{}) // for what cannot be compressed
		for range 20 {
			_, _ = random.Read(big) // never fails
			if err := h.log.Append(t.Context(), stream.Message{Topic: p.Topic, Value: big}); err != nil {
				t.Fatal(err)
			}
		}
		n := 0
		var failed error
		for _, err := range h.log.Read(t.Context(), p, 0, 20) {
			if failed = err; err == nil {
				n++
				h.wire.Cut()
			}
		}
		if !errors.Is(failed, stream.ErrUnavailable) || n == 20 {
			t.Errorf("after %d records: %v", n, failed)
		}
	})
}
