// Package pb is generated code: the messages of GTFS-Realtime and of OVapi's
// extension of it. Regenerate with protoc-gen-go v1.36 after a change of the
// schema; nothing else is written by hand here.
package pb

//go:generate protoc --go_out=. --go_opt=paths=source_relative gtfs-realtime.proto ovapi.proto
