package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/peil-stream/peil/internal/transit/gtfsrt"
)

// BadGzip is the class of a body that is cut off or broken in its compression.
const BadGzip gtfsrt.Class = "bad_gzip"

// Expand gives a body without its gzip compression, told by its content, or as it
// is. The result has at most limit bytes, whatever a body says of itself; an error
// is a *[gtfsrt.DecodeError].
func Expand(body []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(body, []byte("\x1f\x8b")) {
		return body, nil
	}
	fail := func(err error) error {
		return &gtfsrt.DecodeError{
			Class: BadGzip, Detail: "it cannot be decompressed: " + err.Error(),
			Hint: "the body was cut off or is damaged; fetch it again",
		}
	}
	r, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		return nil, fail(err)
	}
	out, err := io.ReadAll(io.LimitReader(r, int64(limit)+1))
	switch {
	case err != nil:
		return nil, fail(err)
	case len(out) > limit:
		return nil, &gtfsrt.DecodeError{
			Class: gtfsrt.TooLarge, Detail: fmt.Sprintf("more than %d bytes when decompressed", limit),
			Hint: "look whether the feed is what it should be; nothing of it was used",
		}
	}
	return out, nil
}

// readCapture reads one file of a capture.
func readCapture(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	// A file over the bound is cut one byte beyond it, and refused when decoded.
	body, err := io.ReadAll(io.LimitReader(f, gtfsrt.BytesMax+1))
	if err != nil {
		return nil, err
	}
	return Expand(body, gtfsrt.BytesMax)
}

// isCapture says whether the name is that of a snapshot.
func isCapture(path string) bool {
	name := strings.TrimSuffix(strings.ToLower(filepath.Base(path)), ".gz")
	return strings.HasSuffix(name, ".pb") || strings.HasSuffix(name, ".json")
}

// kindByName guesses what a snapshot without entities is about.
func kindByName(path string) gtfsrt.Kind {
	name := strings.ToLower(filepath.Base(path))
	switch {
	case strings.Contains(name, "alert"):
		return gtfsrt.Alerts
	case strings.Contains(name, "vehicle"), strings.Contains(name, "position"):
		return gtfsrt.VehiclePositions
	default:
		return gtfsrt.TripUpdates
	}
}

// listFiles gives all files at and below the paths, each once, sorted. A path
// that is missing, or a folder that cannot be read, is an error; a file that
// cannot be read is one only when it is its turn.
func listFiles(ctx context.Context, paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, errors.New("no files or folders to play")
	}
	var out []string
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("look for captures: %w", err)
		case !info.IsDir():
			out = append(out, filepath.Clean(path))
			continue
		}
		below, err := listFolder(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("look for captures: %w", err)
		}
		out = append(out, below...)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// listFolder gives all files below a folder. Links to files are followed, links to
// folders are not, but for the folder itself.
func listFolder(ctx context.Context, folder string) (out []string, err error) {
	folder, err = filepath.EvalSymlinks(folder)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case entry.IsDir():
			return nil
		}
		if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
			out = append(out, path)
		}
		return nil
	})
	return out, err
}
