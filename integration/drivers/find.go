package drivers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// ErrMissing says that a driver or what runs it is not installed. `.ci/setup drivers`
// installs all.
var ErrMissing = errors.New("not installed")

// Names are the drivers: pgx with a pool by the rules of its own, lib/pq with database/sql's, psycopg2, psycopg
// (which is psycopg 3) and asyncpg with theirs, SQLAlchemy's pool over psycopg2, pgJDBC with
// HikariCP, node-postgres with its pool, and psql.
func Names() []string {
	return []string{"psql", "pgx", "pq", "psycopg2", "psycopg", "sqlalchemy", "asyncpg", "jdbc", "pg"}
}

// Careless is the driver "pg" with pool.query instead of a client of the pool: it throws its
// connection away after every error.
const Careless = "pg-query"

// Start starts a driver. The error wraps [ErrMissing] if it is not on this machine.
func Start(name string) (Driver, error) {
	switch name {
	case "psql":
		return opener(openPsql), nil
	case "pgx":
		return opener(openPgx), nil
	case "pq":
		return opener(openPq), nil
	}
	cmd, err := command(name)
	if err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, name)
	cmd.Env = append(cmd.Environ(), "PGPASSFILE=/nonexistent")
	return startProgram(cmd)
}

// command is how a program is run.
func command(name string) (*exec.Cmd, error) {
	_, file, _, ok := runtime.Caller(0)
	if !ok {
		return nil, errors.New("where this file is cannot be told")
	}
	here := filepath.Dir(file)
	switch name {
	case "pg", Careless:
		return node(here)
	case "jdbc":
		return java(here)
	}
	return python(here, name)
}

// python is that for which packages of the distribution are installed, or that of PATH.
func python(here, name string) (*exec.Cmd, error) {
	modules := map[string]string{
		"psycopg2": "psycopg2", "psycopg": "psycopg, psycopg_pool", "sqlalchemy": "sqlalchemy, psycopg2", "asyncpg": "asyncpg",
	}[name]
	if modules == "" {
		return nil, fmt.Errorf("there is no driver %q", name)
	}
	for _, python := range []string{"/usr/bin/python3", "python3"} {
		if exec.Command(python, "-c", "import "+modules).Run() == nil {
			return exec.Command(python, filepath.Join(here, "python", "agent.py")), nil
		}
	}
	return nil, fmt.Errorf("%w: no python3 with %s", ErrMissing, modules)
}

// node finds its modules where Debian's packages have them, or where .ci/setup has unpacked
// these packages.
func node(here string) (*exec.Cmd, error) {
	env := append(os.Environ(), "NODE_PATH="+strings.Join([]string{
		os.Getenv("NODE_PATH"), "/usr/share/nodejs", filepath.Join(here, "../../bin/drivers/usr/share/nodejs"),
	}, ":"))
	for _, try := range []string{"node", "nodejs"} {
		probe := exec.Command(try, "-e", "require('pg')")
		probe.Env = env
		if probe.Run() == nil {
			cmd := exec.Command(try, filepath.Join(here, "node", "agent.js"))
			cmd.Env = env
			return cmd, nil
		}
	}
	return nil, fmt.Errorf("%w: no node with the module pg", ErrMissing)
}

// java runs a source file, for which it needs a compiler.
func java(here string) (*exec.Cmd, error) {
	const dir = "/usr/share/java"
	var jars []string
	for _, name := range []string{"postgresql.jar", "HikariCP.jar", "slf4j-api.jar", "slf4j-simple.jar"} {
		jar := filepath.Join(dir, name)
		if _, err := os.Stat(jar); err != nil {
			return nil, fmt.Errorf("%w: %v", ErrMissing, err)
		}
		jars = append(jars, jar)
	}
	if _, err := exec.LookPath("javac"); err != nil {
		return nil, fmt.Errorf("%w: %v", ErrMissing, err)
	}
	return exec.Command("java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
		"-cp", strings.Join(jars, ":"), filepath.Join(here, "java", "Agent.java")), nil
}
