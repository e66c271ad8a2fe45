package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// DefaultFile is read where no other file is named, if there is one.
const DefaultFile = "peil.yaml"

// Flag is a value from the command line for one setting.
type Flag struct {
	// Name is the flag with its dashes, for errors and origins.
	Name string
	// Key is the setting's key, such as sink.url.
	Key string
	// Value is the text that was given. Empty: back to the default.
	Value string
}

// Source is where a configuration comes from.
type Source struct {
	// File is the path that the user named. Empty: that of PEIL_CONFIG, else
	// DefaultFile if there is one.
	File string
	// Environ is the environment as os.Environ gives it.
	Environ []string
	Flags   []Flag
	// ReadFile reads the configuration and secret files. Nil: os.ReadFile.
	ReadFile func(string) ([]byte, error)
}

// Loaded is a configuration with the origin of its values.
type Loaded struct {
	// Config is complete and valid: defaults are filled in.
	Config Config
	// File is the path of the file that was read, or empty.
	File    string
	origins map[string]Origin
}

// Origin says where the value of a key comes from, such as window.size or
// feeds[0].poll.
func (l *Loaded) Origin(key string) Origin { return l.origins[key] }

// given is a value that someone gave for a setting.
type given struct {
	text   string
	items  []string // of a list in the file
	places []Origin // of the items
	isList bool
	origin Origin
}

// loader collects what is given and what is wrong.
type loader struct {
	src      Source
	env      map[string]string
	config   Config
	origins  map[string]Origin
	problems []*ProblemError
	// expanded holds the variables that the file names.
	expanded map[string]bool
	// failed holds the keys whose value could not be taken, so that nothing is
	// said about their defaults.
	failed map[string]bool
	// levels holds, by key, everything that was given for it.
	levels map[string][]given
}

// Load reads a configuration. The error joins all problems, each a
// [*ProblemError].
func Load(src Source) (*Loaded, error) {
	if src.ReadFile == nil {
		src.ReadFile = os.ReadFile
	}
	l := &loader{
		src:      src,
		env:      environ(src.Environ),
		origins:  map[string]Origin{},
		expanded: map[string]bool{},
		failed:   map[string]bool{},
		levels:   map[string][]given{},
	}
	file := l.file()
	l.environment()
	l.flags()
	for _, s := range settings() {
		l.take(s)
	}
	for _, p := range l.config.problems() {
		if !l.failed[p.Key] && !slices.ContainsFunc(p.uses, func(key string) bool { return l.failed[key] }) {
			p.Origin = l.originOf(p.Key)
			l.problems = append(l.problems, p)
		}
	}
	if len(l.problems) > 0 {
		return nil, join(l.problems)
	}
	return &Loaded{Config: l.config.WithDefaults(), File: file, origins: l.origins}, nil
}

// originOf finds the place of a key, or of the nearest key above it.
func (l *loader) originOf(key string) Origin {
	for {
		if o, ok := l.origins[key]; ok {
			return o
		}
		cut := strings.LastIndexAny(key, ".[")
		if cut < 0 {
			return Origin{}
		}
		key = key[:cut]
	}
}

// fail notes a problem with the value of a key.
func (l *loader) fail(key string, origin Origin, format string, args ...any) {
	l.failed[key] = true
	l.problems = append(l.problems, &ProblemError{Key: key, Origin: origin, Message: fmt.Sprintf(format, args...)})
}

// file reads the file, if there is one, and returns its path.
func (l *loader) file() string {
	path, named := l.src.File, Origin{Kind: FromFlag, Name: "--config"}
	if path == "" && l.env["PEIL_CONFIG"] != "" {
		path, named = l.env["PEIL_CONFIG"], Origin{Kind: FromEnvironment, Name: "PEIL_CONFIG"}
	}
	explicit := path != ""
	if !explicit {
		path = DefaultFile
	}
	data, err := l.src.ReadFile(path)
	switch {
	case err != nil && !explicit && errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil && !explicit:
		l.problems = append(l.problems, problem("", "%v", err))
		return ""
	case err != nil:
		l.problems = append(l.problems, &ProblemError{Origin: named, Message: err.Error()})
		return ""
	}
	l.yaml(path, data)
	return path
}

// flags takes the values of the command line.
func (l *loader) flags() {
	for _, f := range l.src.Flags {
		l.levels[f.Key] = append(l.levels[f.Key], given{text: f.Value, origin: Origin{Kind: FromFlag, Name: f.Name}})
	}
}

// take decides which of the values given for a setting counts, and sets it. A
// setting and its *_file form are two ways to give one value.
func (l *loader) take(s setting[Config]) {
	all := slices.Clone(l.levels[s.key])
	for _, other := range secretFiles() {
		if other.fileOf != s.key {
			continue
		}
		for _, g := range l.levels[other.key] {
			g.origin.SecretFile = g.text
			all = append(all, g)
		}
	}
	if len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b given) int { return int(a.origin.Kind) - int(b.origin.Kind) })
	top := all[len(all)-1]
	for _, g := range all[:len(all)-1] {
		if g.origin.Kind == top.origin.Kind && (g.origin.SecretFile == "") != (top.origin.SecretFile == "") {
			l.fail(s.key, top.origin, "is given both by itself and by a file; choose one")
			return
		}
	}
	l.origins[s.key] = top.origin
	if path := top.origin.SecretFile; path != "" {
		data, err := l.src.ReadFile(path)
		if err != nil {
			l.fail(s.key, top.origin, "%v", err)
			return
		}
		top.text = strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		if top.text == "" {
			l.fail(s.key, top.origin, "the file is empty")
			return
		}
	}
	l.set(s.key, s.at(&l.config), top)
}

// set parses a given value into its place. An empty text leaves the default.
func (l *loader) set(key string, v value, g given) {
	var err error
	asList, takesList := v.(list)
	switch {
	case g.isList && takesList:
		for i, item := range g.items {
			if err := asList.item(item); err != nil {
				l.fail(key, g.places[i], "%v", err)
			}
		}
		*asList.at = g.items
	case g.isList:
		err = errors.New("is a list; one value is expected")
	case g.text == "":
		v.reset()
	default:
		err = v.parse(g.text)
	}
	if err != nil {
		l.fail(key, g.origin, "%v", err)
	}
}
