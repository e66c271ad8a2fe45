package config

import (
	"regexp"
	"slices"
	"strings"
)

// envPrefix begins the names of all our variables.
const envPrefix = "PEIL_"

// kubernetes matches what Kubernetes sets for services whose names begin with
// peil. They are no settings, and nobody can turn them off from inside.
var kubernetes = regexp.MustCompile(`_(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// otherVariables are ours but no settings.
func otherVariables() []string {
	return []string{"PEIL_CAPTURES", "PEIL_CONFIG", "PEIL_LOG_FORMAT", "PEIL_LOG_LEVEL"}
}

// environ makes a map of what os.Environ gives. The last one of a name counts,
// as for a process.
func environ(list []string) map[string]string {
	out := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		out[name] = value
	}
	return out
}

// environment takes the values of the variables and reports unknown ones. It
// runs after the file, which may name variables of its own.
func (l *loader) environment() {
	known := map[string]string{} // name of the variable: key
	for _, s := range append(settings(), secretFiles()...) {
		known[s.env()] = s.key
	}
	for name, text := range l.env {
		if !strings.HasPrefix(name, envPrefix) || text == "" {
			continue
		}
		origin := Origin{Kind: FromEnvironment, Name: name}
		if key, ok := known[name]; ok {
			l.levels[key] = append(l.levels[key], given{text: text, origin: origin})
			continue
		}
		if l.expanded[name] || slices.Contains(otherVariables(), name) ||
			strings.HasPrefix(name, envPrefix+"TEST_") || kubernetes.MatchString(name) {
			continue
		}
		message := "is no setting of peil"
		if strings.HasPrefix(name, envPrefix+"FEED") {
			message = "feeds are set in the file only"
		} else if near := nearest(name, mapKeys(known)); near != "" {
			message += "; did you mean " + near + "?"
		}
		l.problems = append(l.problems, &ProblemError{Origin: origin, Message: message})
	}
}

func mapKeys(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// nearest returns the word that differs least from what was written, or "" if
// none is near.
func nearest(written string, words []string) string {
	best, bestDistance := "", 1+max(1, len(written)/4)
	for _, word := range words {
		if d := distance(written, word); d < bestDistance {
			best, bestDistance = word, d
		}
	}
	return best
}

// distance is the number of bytes to insert, remove or replace (Levenshtein).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
