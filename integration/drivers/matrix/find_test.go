package matrix

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/integration/pgtest"
)

// requireEnv makes a driver that is not installed a failure.
const requireEnv = "PGWEIR_REQUIRE_DRIVERS"

// errMissing says that a driver is not installed.
var errMissing = errors.New("not installed")

// names are the drivers in the order of the table, by their folders. psql, pgbench, pgx, pq
// and sql are run from Go.
func names() []string {
	return []string{
		"psql", "pgbench", "pgx", "pq", "sql", "libpq", "psycopg2", "psycopg", "sqlalchemy", "asyncpg", "jdbc", "pg", "postgresjs", "pdo", "ruby", "dbd",
		"django", "rails",
	}
}

// find makes an agent of a driver. The error wraps errMissing if it is not installed.
func find(t *testing.T, name string, programs pgtest.Programs) (agent, error) {
	t.Helper()
	switch name {
	case "psql":
		return newPsql(programs), nil
	case "pgbench":
		return pgbench{}, nil
	case "pgx":
		return newPgx(), nil
	case "pq":
		return newPq(), nil
	case "sql":
		return newSQL(), nil
	case "libpq":
		return compiled(t)
	case "jdbc":
		return java()
	}
	run, each, err := interpreter(name)
	if err != nil {
		return nil, err
	}
	return &processes{command: run, each: each}, nil
}

// interpreter is what runs a driver's program, and whether each connection needs one.
func interpreter(name string) (run func() *exec.Cmd, each bool, err error) {
	cmd := func(env []string, args ...string) func() *exec.Cmd {
		return func() *exec.Cmd {
			c := exec.Command(args[0], args[1:]...)
			c.Env = pgtest.CleanEnv(env...)
			return c
		}
	}
	modules := "/usr/share/nodejs"
	if unpacked, err := filepath.Abs("../../../bin/drivers"); err == nil {
		modules = strings.Join([]string{os.Getenv("NODE_PATH"), modules, unpacked + "/usr/share/nodejs", unpacked + "/node_modules"}, ":")
	}
	for _, try := range []struct {
		driver string
		each   bool
		env    []string
		probe  []string // fails if it is missing
		run    []string
	}{
		{"psycopg2", false, nil, []string{"/usr/bin/python3", "-c", "import psycopg2"}, []string{"/usr/bin/python3", "psycopg2/agent.py"}},
		{"psycopg", false, nil, []string{"/usr/bin/python3", "-c", "import psycopg, psycopg_pool"}, []string{"/usr/bin/python3", "psycopg/agent.py"}},
		{"sqlalchemy", false, nil, []string{"/usr/bin/python3", "-c", "import sqlalchemy, psycopg2"}, []string{"/usr/bin/python3", "sqlalchemy/agent.py"}},
		{"asyncpg", false, nil, []string{"/usr/bin/python3", "-c", "import asyncpg"}, []string{"/usr/bin/python3", "asyncpg/agent.py"}},
		{"pg", false, []string{"NODE_PATH=" + modules}, []string{"node", "-e", "require('pg');require('pg-copy-streams')"}, []string{"node", "pg/agent.js"}},
		{"postgresjs", false, []string{"NODE_PATH=" + modules}, []string{"node", "-e", "require('postgres')"}, []string{"node", "postgresjs/agent.js"}},
		{"pdo", true, nil, []string{"php", "-r", "exit(in_array('pgsql', PDO::getAvailableDrivers()) ? 0 : 1);"}, []string{"php", "-d", "error_reporting=0", "pdo/agent.php"}},
		{"ruby", false, nil, []string{"ruby", "-e", "require 'pg'"}, []string{"ruby", "ruby/agent.rb"}},
		{"django", false, nil, []string{"/usr/bin/python3", "-c", "import django, psycopg2"}, []string{"/usr/bin/python3", "django/agent.py"}},
		{"rails", false, nil, []string{"ruby", "-e", "require 'active_record'; require 'pg'"}, []string{"ruby", "rails/agent.rb"}},
		{"dbd", true, nil, []string{"/usr/bin/perl", "-e", "use DBD::Pg"}, []string{"/usr/bin/perl", "dbd/agent.pl"}},
	} {
		if try.driver != name {
			continue
		}
		if out, err := cmd(try.env, try.probe...)().CombinedOutput(); err != nil {
			return nil, false, fmt.Errorf("%w: %v %s", errMissing, err, out)
		}
		return cmd(try.env, try.run...), try.each, nil
	}
	return nil, false, fmt.Errorf("there is no driver %q", name)
}

// compiled compiles the program of libpq.
func compiled(t *testing.T) (agent, error) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "agent")
	// /usr/include/postgresql is Debian's; elsewhere the compiler finds the header by itself.
	out, err := exec.Command("cc", "-Wall", "-O1", "-I/usr/include/postgresql", "-o", binary, "libpq/agent.c", "-lpq", "-lpthread").CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %v %s", errMissing, err, out)
	}
	return &processes{command: func() *exec.Cmd { return exec.Command(binary) }, each: true}, nil
}

// java runs a source file, for which it needs a compiler.
func java() (agent, error) {
	var jars []string
	for _, name := range []string{"postgresql.jar", "HikariCP.jar", "slf4j-api.jar", "slf4j-simple.jar"} {
		jar := filepath.Join("/usr/share/java", name)
		if _, err := os.Stat(jar); err != nil {
			return nil, fmt.Errorf("%w: %v", errMissing, err)
		}
		jars = append(jars, jar)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		return nil, fmt.Errorf("%w: %v", errMissing, err)
	}
	return &processes{command: func() *exec.Cmd {
		return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
			"-cp", strings.Join(jars, ":"), "jdbc/Agent.java")
	}}, nil
}
