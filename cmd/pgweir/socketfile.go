package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// socketFile is a Unix listener that knows whether the file at its path is still its
// own: another process may have put its socket there, and that one has to stay.
type socketFile struct {
	*net.UnixListener
	path   string      // where clients look for it
	at     string      // where it is: path, or until appear another name
	own    fs.FileInfo // its inode
	closed sync.Once
}

// listenUnix opens a socket that appears at a path. What is there may be left behind
// by a dead process; with takeOver also the socket of a live one of this user, which
// keeps its clients, and those that have connected and are not accepted yet.
func listenUnix(path string, takeOver bool) (net.Listener, error) {
	if err := vacate(path, takeOver); err != nil {
		return nil, err
	}
	at := path
	if takeOver {
		// No longer than the path, which may have the greatest length that is possible.
		at = filepath.Join(filepath.Dir(path), ".w"+rand.Text()[:6])
	}
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: at})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("the directory %s is not there: make it, owned by the user that pgweir runs as (%w)", filepath.Dir(path), err)
	}
	if err != nil {
		return nil, err
	}
	own, err := os.Lstat(at)
	if err == nil {
		err = os.Chmod(at, 0o777) // as Postgres does: authentication decides
	}
	if err != nil {
		_ = ln.Close() // and remove
		return nil, err
	}
	ln.SetUnlinkOnClose(false) // we do it
	return &socketFile{UnixListener: ln, path: path, at: at, own: own}, nil
}

// appear puts the socket where clients look for it, in the place of what is there.
func (s *socketFile) appear() error {
	if s.at == s.path {
		return nil
	}
	if err := os.Rename(s.at, s.path); err != nil {
		return err
	}
	s.at = s.path
	return nil
}

// Addr is where clients find the socket.
func (s *socketFile) Addr() net.Addr { return &net.UnixAddr{Net: "unix", Name: s.path} }

// Close removes the file if it is still the socket's own, and closes the socket. In
// this order: until then its inode has no other file.
func (s *socketFile) Close() error {
	s.closed.Do(func() {
		if now, err := os.Lstat(s.at); err == nil && os.SameFile(now, s.own) {
			_ = os.Remove(s.at) // the next start removes it otherwise
		}
	})
	return s.UnixListener.Close()
}

// vacate makes sure that a socket can appear at a path. It removes the one of a dead
// process unless that is about to be replaced, and touches nothing else.
func vacate(path string, takeOver bool) error {
	file, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case file.Mode()&fs.ModeSocket == 0:
		return errors.New("there is a file, and it is not a socket")
	}
	conn, err := net.Dial("unix", path)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		if takeOver {
			return nil
		}
		return os.Remove(path)
	case err == nil:
		_ = conn.Close()
	case !errors.Is(err, syscall.EAGAIN): // which says that many are waiting
		return err
	}
	if !takeOver {
		return errors.New("another process listens there")
	}
	return replaceable(path, file)
}

// replaceable reports whether a live process's socket may be taken over. The rule is
// that of a shared TCP port, and the server that pgweir guards is not a pgweir.
func replaceable(path string, file fs.FileInfo) error {
	if stat, ok := file.Sys().(*syscall.Stat_t); !ok || int(stat.Uid) != os.Geteuid() {
		return errors.New("another user's process listens there")
	}
	if _, err := os.Lstat(path + ".lock"); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("another process listens there, and %s.lock says that it is Postgres", filepath.Base(path))
	}
	return nil
}
