package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Programs is the directory of one PostgreSQL installation's programs.
type Programs string

// FindPrograms looks for initdb and postgres in the directories of PATH, and then where
// distributions keep them, the newest major version first. The error wraps
// [ErrNoPostgres].
func FindPrograms() (Programs, error) {
	dirs := filepath.SplitList(os.Getenv("PATH"))
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", // Debian, Ubuntu
		"/usr/pgsql-*/bin",          // Red Hat, from postgresql.org
		"/usr/lib/postgresql*/bin",  // SUSE
		"/usr/libexec/postgresql*",  // Alpine
		"/usr/local/pgsql/bin",      // built from source
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("searching %s: %w", pattern, err)
		}
		slices.SortStableFunc(found, func(a, b string) int { return major(b) - major(a) })
		dirs = append(dirs, found...)
	}
	for _, dir := range dirs {
		if complete(dir) {
			return Programs(dir), nil
		}
	}
	return "", fmt.Errorf("%w (searched: %s)", ErrNoPostgres, strings.Join(dirs, " "))
}

// programsIn is the newest installation in a Debian tree, as it is called there. The error wraps
// [ErrNoPostgres].
func programsIn(root string) (Programs, error) {
	found, err := filepath.Glob(filepath.Join(root, "/usr/lib/postgresql/*/bin"))
	if err != nil {
		return "", fmt.Errorf("searching %s: %w", root, err)
	}
	slices.SortStableFunc(found, func(a, b string) int { return major(strings.TrimPrefix(b, root)) - major(strings.TrimPrefix(a, root)) })
	for _, dir := range found {
		if complete(dir) {
			return Programs(strings.TrimPrefix(dir, filepath.Clean(root))), nil
		}
	}
	return "", fmt.Errorf("%w in %s", ErrNoPostgres, root)
}

// complete reports whether dir holds what a Cluster needs. A symbolic link is followed:
// PATH often has /usr/bin/psql, but a server needs its neighbours.
func complete(dir string) bool {
	for _, name := range []string{"initdb", "postgres"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
			return false
		}
	}
	return true
}

// major is the first number in a path, 0 without one.
func major(path string) int {
	start := strings.IndexAny(path, "0123456789")
	if start < 0 {
		return 0
	}
	end := start
	for end < len(path) && path[end] >= '0' && path[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(path[start:end])
	if err != nil {
		return 0
	}
	return n
}

// Path is the path of one program. One that is not beside the server, such as a psql
// packaged elsewhere, is looked for in PATH; what is nowhere is returned as it would be
// beside the server, so that running it gives an error that names it.
func (p Programs) Path(name string) string {
	beside := filepath.Join(string(p), name)
	if _, err := os.Stat(beside); err == nil {
		return beside
	}
	if other, err := exec.LookPath(name); err == nil {
		return other
	}
	return beside
}

// CleanEnv is the environment without PG* variables: they would redirect libpq and the
// server to what the caller uses every day. more is appended.
func CleanEnv(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		return strings.HasPrefix(kv, "PG") && !strings.HasPrefix(kv, "PGWEIR_")
	})
	return append(env, more...)
}
