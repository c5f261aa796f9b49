package pgtest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
)

// Endpoint is a place that speaks the protocol of PostgreSQL: a [Cluster], or a [Proc]
// before it. A test written against an Endpoint runs against either.
type Endpoint struct {
	Programs Programs // the installation whose psql and pgbench are used
	Host     string   // an address, or the directory of a Unix socket
	Port     int
	SSLMode  string // of its clients, as libpq has it; empty: disable
}

// Login is who logs in where. An empty Database means the one of the user's name.
type Login struct {
	User     string
	Password string // empty: none is sent
	Database string
}

// Addr is "host:port" of a TCP endpoint.
func (e Endpoint) Addr() string { return net.JoinHostPort(e.Host, strconv.Itoa(e.Port)) }

// sslMode is how its clients connect.
func (e Endpoint) sslMode() string { return cmp.Or(e.SSLMode, "disable") }

// DSN is a connection URL without password.
func (e Endpoint) DSN(user, db string) string { return e.URL(Login{User: user, Database: db}) }

// URL is a connection URL for l.
func (e Endpoint) URL(l Login) string {
	u := url.URL{Scheme: "postgres", Path: "/" + l.Database, User: url.User(l.User)}
	if l.Password != "" {
		u.User = url.UserPassword(l.User, l.Password)
	}
	q := url.Values{"sslmode": {e.sslMode()}}
	if strings.HasPrefix(e.Host, "/") {
		q.Set("host", e.Host)
		q.Set("port", strconv.Itoa(e.Port))
	} else {
		u.Host = e.Addr()
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Command is a client program of the installation (psql, pgbench, pg_dump ...), aimed at
// the endpoint through libpq's environment variables. ctx kills it.
func (e Endpoint) Command(ctx context.Context, l Login, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, e.Programs.Path(program), args...)
	cmd.Env = CleanEnv(
		"PGHOST="+e.Host,
		"PGPORT="+strconv.Itoa(e.Port),
		"PGUSER="+l.User,
		"PGDATABASE="+l.Database,
		"PGSSLMODE="+e.sslMode(),
		"PGCONNECT_TIMEOUT=30",
		"PGPASSFILE=/nonexistent", // never the password file of whoever runs the tests
	)
	if l.Password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+l.Password)
	}
	return cmd
}

// Psql runs a script through psql and returns what it printed: unaligned rows, no
// headings. Statements that come in one line are sent one after the other; the first
// error ends the script and becomes the error returned.
func (e Endpoint) Psql(ctx context.Context, l Login, script string) (string, error) {
	cmd := e.Command(ctx, l, "psql", "-XAtq", "-w", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-f", "-")
	cmd.Stdin = strings.NewReader(script)
	return output(cmd)
}

// Pgbench runs pgbench and returns its standard output. The error carries its messages.
func (e Endpoint) Pgbench(ctx context.Context, l Login, args ...string) (string, error) {
	return output(e.Command(ctx, l, "pgbench", args...))
}

// output is Cmd.Output with all of standard error in the error.
func output(cmd *exec.Cmd) (string, error) {
	var out, messages bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &messages
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", cmd.Args[0], err, strings.TrimSpace(messages.String()))
	}
	return out.String(), nil
}
