package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
)

// Formats of output.
const (
	formatTable = "table"
	formatJSON  = "json"
	formatCSV   = "csv"
)

// instantLayout is how instants are printed: UTC, of one width.
const instantLayout = "2006-01-02T15:04:05.000Z"

// output prints the data of a command on standard output in the format that the
// user chose.
type output struct {
	format string
	w      io.Writer
	style  style
}

// outputFlag adds -o to a command. The first format is the default; the function
// that is returned gives the output once the command runs.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) func() (*output, error) {
	if len(formats) == 0 {
		formats = []string{formatTable, formatJSON, formatCSV}
	}
	chosen := cmd.Flags().StringP("output", "o", formats[0], "Form of the output: "+strings.Join(formats, ", ")+".")
	annotate(cmd.Flags().Lookup("output"), annotatePlaceholder, "FORMAT")
	completeWords(cmd, "output", formats)
	return func() (*output, error) {
		if !slices.Contains(formats, *chosen) {
			return nil, usageError("", "output %q is not one of %s", *chosen, strings.Join(formats, ", "))
		}
		return &output{format: *chosen, w: a.stdout, style: a.styleOf(a.stdout)}, nil
	}
}

// listing is rows under columns. A cell is a string, an integer, a float64, a
// bool, a time.Time, or nil for nothing.
type listing struct {
	// columns are keys: the names in JSON and CSV, in capitals in a table.
	columns []string
	rows    [][]any
}

// add appends a row, a cell for each column.
func (l *listing) add(cells ...any) { l.rows = append(l.rows, cells) }

// list prints a listing: a table with aligned columns, a JSON array of objects
// with the keys in order, or CSV with a header.
func (o *output) list(l listing) error {
	var data []byte
	var err error
	switch o.format {
	case formatJSON:
		data, err = l.json()
	case formatCSV:
		data, err = l.csv()
	default:
		data = l.table(o.style)
	}
	if err != nil {
		return err
	}
	return o.write(data)
}

// document prints one JSON document, indented, whatever the format: for commands
// whose data is no list.
func (o *output) document(v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode the output: %w", err)
	}
	return o.write(append(data, '\n'))
}

func (o *output) write(data []byte) error {
	if _, err := o.w.Write(data); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

func (l *listing) json() ([]byte, error) {
	var b bytes.Buffer
	b.WriteString("[")
	for i, row := range l.rows {
		if i > 0 {
			b.WriteString(",")
		}
		b.WriteString("\n  {")
		for j, cell := range row {
			if j > 0 {
				b.WriteString(", ")
			}
			if t, ok := cell.(time.Time); ok {
				cell = t.UTC().Format(instantLayout)
			}
			key, err := json.Marshal(l.columns[j])
			if err != nil {
				return nil, fmt.Errorf("encode a key: %w", err)
			}
			value, err := json.Marshal(cell)
			if err != nil {
				return nil, fmt.Errorf("encode %s: %w", l.columns[j], err)
			}
			b.Write(key)
			b.WriteString(": ")
			b.Write(value)
		}
		b.WriteString("}")
	}
	if len(l.rows) > 0 {
		b.WriteString("\n")
	}
	b.WriteString("]\n")
	return b.Bytes(), nil
}

func (l *listing) csv() ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	records := [][]string{l.columns}
	for _, row := range l.rows {
		record := make([]string, len(row))
		for i, cell := range row {
			record[i], _ = plainCell(cell)
		}
		records = append(records, record)
	}
	if err := w.WriteAll(records); err != nil {
		return nil, fmt.Errorf("encode CSV: %w", err)
	}
	return b.Bytes(), nil
}

// table aligns the columns: numbers to the right, all else to the left.
func (l *listing) table(s style) []byte {
	widths := make([]int, len(l.columns))
	right := make([]bool, len(l.columns))
	cells := make([][]string, 0, len(l.rows)+1)
	head := make([]string, len(l.columns))
	for i, c := range l.columns {
		head[i] = strings.ToUpper(strings.ReplaceAll(c, "_", " "))
		widths[i] = utf8.RuneCountInString(head[i])
		right[i] = len(l.rows) > 0
	}
	cells = append(cells, head)
	for _, row := range l.rows {
		line := make([]string, len(row))
		for i, cell := range row {
			text, number := plainCell(cell)
			if cell == nil {
				text = "-"
			}
			line[i] = printable(text)
			widths[i] = max(widths[i], utf8.RuneCountInString(line[i]))
			right[i] = right[i] && (number || cell == nil)
		}
		cells = append(cells, line)
	}
	var b bytes.Buffer
	for n, line := range cells {
		var row strings.Builder
		for i, text := range line {
			if i > 0 {
				row.WriteString("  ")
			}
			gap := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if right[i] {
				row.WriteString(gap + text)
			} else {
				row.WriteString(text + gap)
			}
		}
		text := strings.TrimRight(row.String(), " ")
		if n == 0 {
			text = s.bold(text)
		}
		b.WriteString(text + "\n")
	}
	return b.Bytes()
}

// plainCell gives a cell as text, and whether it is a number.
func plainCell(cell any) (text string, number bool) {
	switch v := cell.(type) {
	case nil:
		return "", false
	case string:
		return v, false
	case bool:
		return strconv.FormatBool(v), false
	case time.Time:
		return v.UTC().Format(instantLayout), false
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v), true
	default:
		return fmt.Sprint(v), false
	}
}

// printable escapes what would move the cursor or recolour the terminal: ids come
// from feeds.
func printable(text string) string {
	clean := func(r rune) bool { return r == utf8.RuneError || !unicode.IsPrint(r) }
	if !strings.ContainsFunc(text, clean) {
		return text
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

// style colours text for a terminal.
type style struct{ on bool }

// styleOf says whether to colour what is written to w: on a terminal, unless
// NO_COLOR is set or the terminal is dumb.
func (a *app) styleOf(w io.Writer) style {
	return style{isTerminal(w) && a.colours()}
}

// colours says whether the environment allows colours.
func (a *app) colours() bool { return a.env("NO_COLOR") == "" && a.env("TERM") != "dumb" }

// bold makes text stand out.
func (s style) bold(text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}
