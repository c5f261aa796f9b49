package pgtest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// initdbArgs make every template alike. The authentication methods only say what the first
// pg_hba.conf holds: each Cluster writes its own.
func initdbArgs() []string {
	return []string{
		"--no-sync", "--encoding=UTF8", "--locale=C", "--username=" + Superuser,
		"--auth-local=trust", "--auth-host=reject",
	}
}

// makeDataDir fills dir, which must not exist, with a fresh cluster owned by as.
//
// initdb takes most of a second of CPU, a copy of its result a fifth. So the first run
// leaves a template in the user's cache directory, one per version of PostgreSQL, and the
// others copy it. Without a cache directory every Cluster runs initdb.
func makeDataDir(ctx context.Context, p Programs, dir string, as account) error {
	cache, err := os.UserCacheDir()
	if err != nil {
		return initdb(ctx, p, dir, as, "")
	}
	cache = filepath.Join(cache, "pgweir", "pgtest")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return initdb(ctx, p, dir, as, "")
	}
	key, err := templateKey(ctx, p)
	if err != nil {
		return err
	}
	template := filepath.Join(cache, key)
	if err := withLock(template+".lock", func() error {
		if _, err := os.Stat(template); err == nil {
			return nil
		}
		return makeTemplate(ctx, p, template, dir, as)
	}); err != nil {
		return err
	}
	if _, err := os.Stat(dir); err == nil {
		return nil // it was the model of the template
	}
	return copyTree(template, dir, as)
}

// templateKey names a template by all that decides its contents.
func templateKey(ctx context.Context, p Programs) (string, error) {
	cmd := exec.CommandContext(ctx, p.Path("initdb"), "--version")
	cmd.Env = CleanEnv()
	version, err := output(cmd)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(append(initdbArgs(), string(p), version), "\x00")))
	return fmt.Sprintf("%x", sum[:8]), nil
}

// makeTemplate runs initdb in dir, where the account may write, and copies the result to
// template, which appears complete or not at all.
func makeTemplate(ctx context.Context, p Programs, template, dir string, as account) error {
	if err := initdb(ctx, p, dir, as, ""); err != nil {
		return err
	}
	half := template + ".half"
	if err := os.RemoveAll(half); err != nil {
		return err
	}
	if err := copyTree(dir, half, account{}); err != nil {
		return err
	}
	return os.Rename(half, template)
}

// initdb makes the data directory dir. Its parent must belong to the account. With a root all is
// as it is called there.
func initdb(ctx context.Context, p Programs, dir string, as account, root string) error {
	args := append(initdbArgs(), "--pgdata="+dir)
	cmd := exec.CommandContext(ctx, filepath.Join(string(p), "initdb"), args...)
	cmd.Env = CleanEnv("TZ=UTC")
	cmd.Dir = filepath.Dir(dir) // the account may not be able to enter ours
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
	as.apply(cmd.SysProcAttr)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}

// withLock runs f while it holds the lock file at path: test binaries of several packages
// run at once.
func withLock(path string, f func() error) (err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // closing unlocks
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return fmt.Errorf("locking %s: %w", path, err)
	}
	return f()
}

// copyTree copies directories and regular files with their modes, for the account.
func copyTree(from, to string, as account) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case entry.IsDir():
			err = os.Mkdir(target, 0o700) // initdb's mode for all of them
		case entry.Type().IsRegular():
			err = copyFile(path, target)
		default:
			return fmt.Errorf("%s: neither a file nor a directory", path)
		}
		if err != nil {
			return err
		}
		return as.own(target)
	})
}

// copyFile copies one file; between two files of one disk the kernel does it.
func copyFile(from, to string) (err error) {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	_, err = io.Copy(dst, src)
	return err
}
