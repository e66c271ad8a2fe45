package cli

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

func sample() listing {
	l := listing{columns: []string{"topic", "next_offset", "mean", "final", "at", "holder"}}
	at := time.Date(2026, 11, 30, 13, 0, 0, 123456789, time.FixedZone("CET", 3600))
	l.add("trips", int64(7), 24.418191902384915, true, at, nil)
	l.add("Zürich, \"HB\"", int64(1234567), -183.5, false, at.Add(time.Hour), "p\x1b[31m1\n")
	l.add("", nil, 2.0, false, time.Time{}, "x")
	return l
}

func TestListFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{
		formatTable: `TOPIC         NEXT OFFSET                MEAN  FINAL  AT                        HOLDER
trips                   7  24.418191902384915  true   2026-11-30T12:00:00.123Z  -
Zürich, "HB"      1234567              -183.5  false  2026-11-30T13:00:00.123Z  p\x1b[31m1\n
                        -                   2  false  0001-01-01T00:00:00.000Z  x
`,
		formatJSON: `[
  {"topic": "trips", "next_offset": 7, "mean": 24.418191902384915, "final": true, "at": "2026-11-30T12:00:00.123Z", "holder": null},
  {"topic": "Zürich, \"HB\"", "next_offset": 1234567, "mean": -183.5, "final": false, "at": "2026-11-30T13:00:00.123Z", "holder": "p\u001b[31m1\n"},
  {"topic": "", "next_offset": null, "mean": 2, "final": false, "at": "0001-01-01T00:00:00.000Z", "holder": "x"}
]
`,
		formatCSV: "topic,next_offset,mean,final,at,holder\n" +
			"trips,7,24.418191902384915,true,2026-11-30T12:00:00.123Z,\n" +
			"\"Zürich, \"\"HB\"\"\",1234567,-183.5,false,2026-11-30T13:00:00.123Z,\"p\x1b[31m1\n\"\n" +
			",,2,false,0001-01-01T00:00:00.000Z,x\n",
	} {
		var got bytes.Buffer
		if err := (&output{format: format, w: &got}).list(sample()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("%s mismatch (-want +got):\n%s", format, diff)
		}
	}
}

func TestListWithoutRows(t *testing.T) {
	t.Parallel()
	for format, want := range map[string]string{formatTable: "A  B C\n", formatJSON: "[]\n", formatCSV: "a,b_c\n"} {
		var got bytes.Buffer
		l := listing{columns: []string{"a", "b_c"}}
		if err := (&output{format: format, w: &got}).list(l); err != nil || got.String() != want {
			t.Errorf("%s: %q, %v, want %q", format, got.String(), err, want)
		}
	}
}

func TestHeadIsBoldOnATerminal(t *testing.T) {
	t.Parallel()
	l := listing{columns: []string{"a", "b"}}
	l.add(1, "x")
	got := string(l.table(style{on: true}))
	if want := "\x1b[1mA  B\x1b[0m\n1  x\n"; got != want {
		t.Errorf("table %q, want %q", got, want)
	}
}

func TestStyleIsOffWherePeopleDoNotLook(t *testing.T) {
	t.Parallel()
	pipe, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = pipe.Close(); _ = w.Close() }()
	a := &app{}
	if a.styleOf(w).on || a.styleOf(&bytes.Buffer{}).on {
		t.Error("a pipe or a buffer is coloured")
	}
}

func TestStyleRespectsTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		environ []string
		want    bool
	}{
		{nil, true},
		{[]string{"NO_COLOR="}, true},
		{[]string{"NO_COLOR=1"}, false},
		{[]string{"TERM=dumb"}, false},
		{[]string{"TERM=dumb", "TERM=xterm"}, true},
	} {
		a := &app{environ: test.environ}
		if got := a.colours(); got != test.want {
			t.Errorf("%q: colours %v, want %v", test.environ, got, test.want)
		}
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestWriteErrorsAreReported(t *testing.T) {
	t.Parallel()
	o := &output{format: formatTable, w: brokenWriter{}}
	if err := o.list(sample()); err == nil || err.Error() != "write the output: no space left" {
		t.Errorf("list: %v", err)
	}
	if err := o.document(1); err == nil {
		t.Error("document: no error")
	}
	if err := o.document(func() {}); err == nil {
		t.Error("document of a function: no error")
	}
	l := listing{columns: []string{"a"}}
	l.add(func() {})
	if err := (&output{format: formatJSON, w: &bytes.Buffer{}}).list(l); err == nil {
		t.Error("list of a function: no error")
	}
}

func TestOutputFlagRefusesOtherForms(t *testing.T) {
	t.Parallel()
	a := &app{}
	cmd := &cobra.Command{}
	out := a.outputFlag(cmd, formatTable, formatJSON)
	if err := cmd.ParseFlags([]string{"-o", "csv"}); err != nil {
		t.Fatal(err)
	}
	_, err := out()
	exit, ok := errors.AsType[*ExitError](err)
	if !ok || exit.Code != ExitUsage || exit.Error() != `output "csv" is not one of table, json` {
		t.Errorf("error %v", err)
	}
}
