package pgtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// binaryEnv names a ready-made pgweir to test instead of one built from this tree.
const binaryEnv = "PGWEIR_TEST_BINARY"

// builtBinary memoises [buildBinary]: one process of tests builds once. It is the only
// state of the package, and nothing depends on when it is filled.
var builtBinary = sync.OnceValues(buildBinary)

// Binary is the path of a pgweir that was built from this tree, with the race detector if
// this process has it.
func Binary() (string, error) { return builtBinary() }

// buildBinary compiles ./cmd/pgweir into the module's bin directory, with the race
// detector if this process has it, and returns its path. The go command skips the link
// when the binary is up to date; a lock keeps test processes from building it at once.
func buildBinary() (string, error) {
	if path := os.Getenv(binaryEnv); path != "" {
		return path, nil
	}
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	bin := filepath.Join(root, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return "", err
	}
	if err := touchSources(root); err != nil {
		return "", err
	}
	args, name := []string{"build", "-buildvcs=false"}, "pgweir.test-norace"
	if raceEnabled {
		args, name = append(args, "-race"), "pgweir.test-race"
	}
	path := filepath.Join(bin, name)
	err = withLock(path+".lock", func() error {
		cmd := exec.Command("go", append(args, "-o", path, "./cmd/pgweir")...)
		cmd.Dir = root
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("building pgweir: %w: %s", err, out)
		}
		return nil
	})
	return path, err
}

// moduleRoot is the directory of the go.mod around the working directory.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("not inside the module of pgweir")
	}
	return filepath.Dir(mod), nil
}

// touchSources looks at every Go file of the module. `go test` remembers the files that a
// test asked for and repeats a test when one changed; what a child process reads it does
// not see. Without this, a change in pgweir would leave its black-box tests "(cached)".
func touchSources(root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil // an editor's temporary file
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != root:
			return fs.SkipDir
		case !entry.IsDir() && (strings.HasSuffix(path, ".go") || entry.Name() == "go.mod"):
			if _, err := os.Stat(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	})
}
