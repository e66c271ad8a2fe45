package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// fileBytesMax bounds the file, and with it the depth of its nesting.
const fileBytesMax = 1 << 20

// quotedText matches what a message of the YAML parser repeats of the file.
var quotedText = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// yamlFile walks the tree of one file. It knows positions and expansion; what a
// key means is the loader's table.
type yamlFile struct {
	*loader
	path string
}

// yaml takes what the file gives.
func (l *loader) yaml(path string, data []byte) {
	f := yamlFile{l, path}
	if len(data) > fileBytesMax {
		f.problem("", token.Position{}, "the file has more than %s", Bytes(fileBytesMax))
		return
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	// Duplicate keys are found below, so that they are reported with the rest.
	file, err := parser.ParseBytes(data, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		f.syntax(err)
		return
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc == nil || doc.Body == nil || doc.Body.Type() == ast.CommentType {
			continue
		}
		if body != nil {
			f.problem("", *position(doc.Body), "the file holds a second document")
			return
		}
		body = doc.Body
	}
	if body != nil {
		f.section("", body)
	}
}

// syntax reports an error of the parser. Its text quotes lines of the file, and
// with them passwords: only the position and the message are taken.
func (f yamlFile) syntax(err error) {
	var at token.Position
	message := "is not YAML"
	if yamlErr, ok := errors.AsType[yaml.Error](err); ok {
		message = quotedText.ReplaceAllString(yamlErr.GetMessage(), `"…"`)
		if tk := yamlErr.GetToken(); tk != nil && tk.Position != nil {
			at = *tk.Position
		}
	}
	f.problem("", at, "%s", message)
}

func (f yamlFile) origin(at token.Position) Origin {
	return Origin{Kind: FromFile, Name: f.path, Line: at.Line, Column: at.Column}
}

func (f yamlFile) problem(key string, at token.Position, format string, args ...any) {
	f.fail(key, f.origin(at), format, args...)
}

// position is where a node begins.
func position(n ast.Node) *token.Position {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 && !m.IsFlowStyle {
		return position(m.Values[0].Key)
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		return position(m.Key)
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return tk.Position
	}
	return &token.Position{}
}

// section walks the mapping below a prefix ("", "kafka", "kafka.tls").
func (f yamlFile) section(prefix string, n ast.Node) {
	f.mapping(prefix, n, func(name string, key, n ast.Node) {
		path := join2(prefix, name)
		switch {
		case path == "feeds":
			f.feeds(key, n)
		case isSetting(path):
			f.value(path, n)
		case isSection(path):
			f.origins[path] = f.origin(*position(key))
			f.section(path, n)
		default:
			f.unknown(path, key, nearest(path, allPaths()))
		}
	})
}

// feeds walks the list of feeds.
func (f yamlFile) feeds(key, n ast.Node) {
	f.origins["feeds"] = f.origin(*position(key))
	if isNull(n) {
		return
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		f.problem("feeds", *position(n), "%s where a list of feeds is expected", describe(n))
		return
	}
	for i, item := range seq.Values {
		f.config.Feeds = append(f.config.Feeds, Feed{})
		prefix := feedKey(i, "")
		f.origins[prefix] = f.origin(*position(item))
		f.mapping(prefix, item, func(name string, key, n ast.Node) { f.feedKey(i, name, key, n) })
	}
}

// feedKey takes one key of a feed.
func (f yamlFile) feedKey(i int, name string, key, n ast.Node) {
	path := feedKey(i, name)
	var names []string
	for _, s := range feedSettings() {
		if s.key != name {
			names = append(names, s.key)
			continue
		}
		if g, ok := f.given(path, n); ok {
			f.origins[path] = g.origin
			f.set(path, s.at(&f.config.Feeds[i]), g)
		}
		return
	}
	near, ok := feedWords()[name]
	if !ok {
		near = nearest(name, names)
	}
	if near != "" {
		near = feedKey(i, near)
	}
	f.unknown(path, key, near)
}

// feedWords are what people write for a key of a feed whose name is another word,
// with that name.
func feedWords() map[string]string {
	return map[string]string{
		"gtfs": "static", "id": "name", "interval": "poll", "realtime": "trip_updates", "timetable": "static",
		"trips": "trip_updates", "uri": "trip_updates", "url": "trip_updates", "vehicles": "vehicle_positions",
	}
}

// mapping calls each for every key of a mapping.
func (f yamlFile) mapping(prefix string, n ast.Node, each func(name string, key, value ast.Node)) {
	var values []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		values = n.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{n}
	case *ast.NullNode:
		return
	default:
		f.problem(prefix, *position(n), "%s where keys are expected", describe(n))
		return
	}
	seen := map[string]*token.Position{}
	for _, entry := range values {
		key := entry.Key
		if key == nil {
			continue
		}
		at := position(key)
		name, ok := keyName(key)
		if !ok {
			f.problem(prefix, *at, "a key must be a plain word: no anchors, tags or merge keys")
			continue
		}
		if first, twice := seen[name]; twice {
			f.problem(join2(prefix, name), *at, "is given twice, first in line %d", first.Line)
			continue
		}
		seen[name] = at
		if entry.Value != nil {
			each(name, key, entry.Value)
		}
	}
}

// keyName is the text of a key.
func keyName(key ast.Node) (string, bool) {
	switch key := key.(type) {
	case *ast.StringNode:
		return key.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return key.GetToken().Value, true
	default:
		return "", false
	}
}

// value takes the value of a setting.
func (f yamlFile) value(path string, n ast.Node) {
	if g, ok := f.given(path, n); ok {
		f.levels[path] = append(f.levels[path], g)
	}
}

// given reads a scalar or a list of scalars and expands variables. It is false
// where nothing is given, or something is wrong.
func (f yamlFile) given(path string, n ast.Node) (given, bool) {
	g := given{origin: f.origin(*position(n))}
	if isNull(n) {
		return g, false
	}
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		g.text, ok = f.scalar(path, n)
		return g, ok && g.text != ""
	}
	g.isList = true
	sound := true
	for _, item := range seq.Values {
		text, ok := f.scalar(path, item)
		sound = sound && ok
		g.items = append(g.items, text)
		g.places = append(g.places, f.origin(*position(item)))
	}
	return g, sound
}

// scalar is the text of a scalar with its variables expanded.
func (f yamlFile) scalar(path string, n ast.Node) (string, bool) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = strings.TrimSuffix(n.Value.Value, "\n")
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		text = n.GetToken().Value
	case *ast.MappingNode, *ast.MappingValueNode:
		var ok bool
		if text, ok = colonWord(n); !ok {
			f.problem(path, *position(n), "%s where one value is expected", describe(n))
			return "", false
		}
	default:
		f.problem(path, *position(n), "%s where one value is expected", describe(n))
		return "", false
	}
	expanded, err := f.expand(text)
	if err != nil {
		f.problem(path, *position(n), "%v", err)
		return "", false
	}
	return expanded, true
}

// colonWord gives the text of a plain word with a colon in it, such as host:9092.
// In a list within braces the parser takes it for a key and a value; in YAML it
// is one word as long as no space follows the colon.
func colonWord(n ast.Node) (string, bool) {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) == 1 && !m.IsFlowStyle {
		n = m.Values[0]
	}
	entry, ok := n.(*ast.MappingValueNode)
	if !ok || entry.Key == nil || entry.Value == nil || entry.Start == nil {
		return "", false
	}
	key, colon, value := entry.Key.GetToken(), entry.Start, entry.Value.GetToken()
	if _, scalar := entry.Value.(ast.ScalarNode); !scalar || !plain(key) || !plain(value) {
		return "", false
	}
	at := key.Position
	if colon.Position.Line != at.Line || value.Position.Line != at.Line ||
		colon.Position.Column != at.Column+utf8.RuneCountInString(key.Value) ||
		value.Position.Column != colon.Position.Column+1 {
		return "", false
	}
	return key.Value + ":" + value.Value, true
}

// plain says whether a token is a scalar without quotes.
func plain(tk *token.Token) bool {
	switch tk.Type {
	case token.StringType, token.IntegerType, token.FloatType, token.BoolType:
		return tk.Position != nil
	default:
		return false
	}
}

var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${VAR} and ${VAR:-x}, and $${ by ${. What comes out is not
// expanded again.
func (f yamlFile) expand(text string) (string, error) {
	var out strings.Builder
	for {
		i := strings.Index(text, "${")
		if i < 0 {
			out.WriteString(text)
			return out.String(), nil
		}
		if i > 0 && text[i-1] == '$' {
			out.WriteString(text[:i-1] + "${")
			text = text[i+2:]
			continue
		}
		out.WriteString(text[:i])
		inside, rest, closed := strings.Cut(text[i+2:], "}")
		if !closed {
			return "", errors.New("${ without }; write $${ for a literal ${")
		}
		name, fallback, hasFallback := strings.Cut(inside, ":-")
		if !variableName.MatchString(name) {
			return "", errors.New("${…} does not hold the name of a variable; write ${VAR} or ${VAR:-x}, and $${ for a literal ${")
		}
		f.expanded[name] = true
		value := f.env[name]
		switch {
		case value == "" && hasFallback:
			value = fallback
		case value == "":
			return "", fmt.Errorf("the variable %s is not set; ${%s:-x} gives it a default", name, name)
		}
		out.WriteString(value)
		text = rest
	}
}

// unknown reports a key that is none of ours, and the one that was perhaps meant.
func (f yamlFile) unknown(path string, key ast.Node, near string) {
	message := "is no setting of peil"
	if near != "" {
		message += "; did you mean " + near + "?"
	}
	f.problem(path, *position(key), "%s", message)
}

// describe names the kind of a node, never its content.
func describe(n ast.Node) string {
	switch n.(type) {
	case *ast.SequenceNode:
		return "a list stands"
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys stand"
	case *ast.AnchorNode, *ast.AliasNode:
		return "an anchor or alias stands"
	case *ast.TagNode:
		return "a tag stands"
	default:
		return "a single value stands"
	}
}

func isNull(n ast.Node) bool {
	_, ok := n.(*ast.NullNode)
	return ok
}

func isSetting(path string) bool {
	for _, s := range append(settings(), secretFiles()...) {
		if s.key == path {
			return true
		}
	}
	return false
}

func isSection(path string) bool {
	for _, s := range settings() {
		if strings.HasPrefix(s.key, path+".") {
			return true
		}
	}
	return false
}

// allPaths lists what a key may be, sections too.
func allPaths() []string {
	paths := []string{"feeds"}
	for _, s := range append(settings(), secretFiles()...) {
		paths = append(paths, s.key)
		for section := s.key; strings.Contains(section, "."); {
			section = section[:strings.LastIndex(section, ".")]
			paths = append(paths, section)
		}
	}
	return paths
}

// join2 appends a name to a path.
func join2(prefix, name string) string {
	if prefix == "" {
		return name
	}
	return prefix + "." + name
}
