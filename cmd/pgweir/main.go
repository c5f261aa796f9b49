// Command pgweir is a connection pooler for Postgres that guards it: one budget of
// connections, a short queue, and a clear refusal for what Postgres could not finish in
// time.
//
// Each subcommand has a file of its own; `pgweir help` lists them.
package main

import (
	"context"
	"os"
)

func main() {
	os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr, os.Getenv))
}
