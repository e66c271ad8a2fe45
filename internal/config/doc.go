// Package config reads what a user sets: peil.yaml, variables of the environment
// and flags, over documented defaults.
//
// One table (settings.go) declares every key once: its documentation, default,
// bounds and place in [Config]. Parsing, validation, the names of environment
// variables, the JSON schema and `peil config print` all come from that table.
//
// Invariants:
//
//   - I1: A flag wins over the environment, the environment over the file, the
//     file over the default; per key, never per section.
//   - I2: All problems are reported at once, each with file:line:column, the name
//     of the variable, or the name of the flag.
//   - I3: No secret appears in an error, in a printed or marshalled
//     configuration, or in any fmt verb: not passwords, not the password of a
//     URL, not its sensitive query parameters.
//   - I4: The zero value of every field stands for its default, and a value that
//     may be zero (a lateness of 0s) is kept apart from one that is not set.
//
// # Environment
//
// Every scalar key and every list has a variable: PEIL_ and the key in upper
// case with underscores (window.size is PEIL_WINDOW_SIZE). Lists are separated
// by commas. Feeds are set in the file only. An empty variable counts as not
// set.
//
// A variable that starts with PEIL_ and is none of ours is an error, because a
// misspelt setting that is silently ignored costs more than a renamed variable.
// Let through are: variables that the file itself names as ${VAR}; PEIL_CONFIG,
// PEIL_LOG_LEVEL, PEIL_LOG_FORMAT and PEIL_CAPTURES; those that start with
// PEIL_TEST_; and those that Kubernetes sets for a service called peil or peil-x
// (…_SERVICE_HOST, …_SERVICE_PORT, …_PORT and their variants).
//
// # File
//
// In values, not in keys, ${VAR} stands for a variable of the environment, and
// ${VAR:-x} for x where that is not set or empty; $${ is a literal ${. An
// expanded value is one scalar, whatever it contains. Duplicate keys, anchors,
// aliases and merge keys are refused. A key without a value is not set.
//
// kafka.sasl.password and sink.url can be kept in a file of their own, named by
// kafka.sasl.password_file and sink.url_file; one line break at its end is
// dropped.
//
// The values of this package are not safe for concurrent change.
package config
