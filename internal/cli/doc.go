// Package cli is the command line: one file for each command, over a frame that
// gives them configuration, log, output and exit codes.
//
// A command is a constructor newXxxCommand(a *app) *cobra.Command in a file of its
// own, and a line in the list in root.go.
//
// Invariants:
//
//   - I1: Standard output carries data only. Messages, the log and errors go to
//     standard error; an error is one line "peil: …" per problem and may be
//     followed by a line "hint: …".
//   - I2: The exit code is one of the named constants. What was wrong with the
//     command line or the configuration is [ExitUsage], never [ExitFailure].
//   - I3: The first SIGINT or SIGTERM cancels the context of the command; the
//     second ends the process at once with [ExitSignal].
//   - I4: Every command has a one-sentence description, examples, and a group.
//
// Nothing here is kept between two runs of [Main], so that tests run it in their
// own process.
package cli
