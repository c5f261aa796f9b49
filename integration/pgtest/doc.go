// Package pgtest starts a real, temporary PostgreSQL, and pgweir in front of it, with
// nothing but os/exec. The black-box tests use it, and so does `pgweir demo`.
//
// A [Cluster] lives in a directory of its own below the system's temporary directory,
// listens on 127.0.0.1 and on a Unix socket in that directory, and is gone after Stop. It
// is tuned for short lives: nothing is synced to disk, so a crash of the machine loses it.
//
// Three properties are kept throughout:
//
//   - Nothing waits for a fixed time. Ready means that the postmaster said so in its pid
//     file and that the port answers; stopped means that the process was reaped.
//   - No server outlives its starter. Every child gets a parent-death signal, and the
//     thread that made it is kept for as long as the child lives.
//   - No PG* variable of the caller's environment reaches a child.
//
// PostgreSQL refuses to run as root. Started by root, the package runs it as the account
// "postgres" (else "nobody"), which then owns the data directory.
//
// The package does not import testing: what it needs of a test is the interface [TB].
package pgtest

import "errors"

// ErrNoPostgres says that no complete set of server programs (initdb, postgres) was found
// in PATH or in the usual places of a distribution's packages. It is wrapped with the
// directories that were searched.
var ErrNoPostgres = errors.New("no PostgreSQL server programs found; install them, " +
	"e.g. `apt-get install postgresql` on Debian and Ubuntu or " +
	"`dnf install postgresql-server` on Fedora, or put the directory of initdb into PATH")

// Superuser is the bootstrap superuser of every Cluster. It has no password; over the Unix
// socket everyone may log in as it.
const Superuser = "postgres"

// TB is the part of testing.TB that this package uses.
type TB interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(func())
	Failed() bool
	TempDir() string
}
