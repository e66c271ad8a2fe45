// Command peil turns public transport feeds into exact rows in SQL.
package main

import (
	"context"
	"os"

	"github.com/peil-stream/peil/internal/cli"
)

func main() {
	os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Environ()))
}
