// Package api is the HTTP interface: what the tables and the log say, as JSON,
// beside metrics and health. It only reads. It also computes the status that the
// command line shows.
//
// Invariants:
//
//   - I1: Every instant is RFC 3339 in UTC with milliseconds, or null where it is
//     not known; infinity is 9999-12-31T23:59:59.999Z. Field names are a
//     contract: fields are added, never renamed.
//   - I2: What a request says reaches the tables as bound values only, and what
//     it may choose from is checked against a fixed list.
//   - I3: No answer grows with the tables or the log: rows, windows and counted
//     records have named bounds, and an answer that was cut says so.
//   - I4: Windows that are not final are listed without values.
//   - I5: An error is {"error": …, "hint": …}; what the database or the log said
//     about it goes to the logger only, because it may hold addresses.
//
// Handlers are safe for concurrent use.
package api
