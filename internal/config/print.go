package config

// Entry is one setting of a loaded configuration, without secrets.
type Entry struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	Origin string `json:"origin"`
}

// Entries lists all settings in the order of the table, those of feeds last.
func (l *Loaded) Entries() []Entry {
	c := l.Config
	var out []Entry
	add := func(key string, v value) {
		out = append(out, Entry{Key: key, Value: v.show(), Origin: l.origins[key].String()})
	}
	for _, s := range settings() {
		add(s.key, s.at(&c))
	}
	for i := range c.Feeds {
		for _, s := range feedSettings() {
			add(feedKey(i, s.key), s.at(&c.Feeds[i]))
		}
	}
	return out
}

// Setting describes one key, for flags and reference pages.
type Setting struct {
	Key     string
	Doc     string
	Default string
	// Env is the name of the variable; empty for the keys of a feed.
	Env string
}

// Settings lists all keys but those of feeds.
func Settings() []Setting {
	var out []Setting
	for _, s := range append(settings(), secretFiles()...) {
		out = append(out, Setting{Key: s.key, Doc: s.doc, Default: s.preset, Env: s.env()})
	}
	return out
}
