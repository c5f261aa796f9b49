package main

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pgweir/pgweir/config"
)

// listening listens until the end of the test.
func listening(t *testing.T, reusePort bool, places ...config.Listen) []net.Listener {
	t.Helper()
	list, err := listen(places, reusePort)
	if err != nil {
		t.Fatal(err)
	}
	for _, ln := range list {
		t.Cleanup(func() { _ = ln.Close() })
		deadline := ln.(interface{ SetDeadline(time.Time) error })
		if err := deadline.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// refused wants an error with certain words.
func refused(t *testing.T, words string, reusePort bool, places ...config.Listen) {
	t.Helper()
	list, err := listen(places, reusePort)
	for _, ln := range list {
		_ = ln.Close()
	}
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("%v, want %q", err, words)
	}
}

// call connects and leaves one byte.
func call(t *testing.T, network, address string, b byte) {
	t.Helper()
	conn, err := net.Dial(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := conn.Write([]byte{b}); err != nil {
		t.Fatal(err)
	}
}

// hears accepts connections until one has said something, which must be what call has
// left. Silent ones are of processes that looked whether anybody is there.
func hears(t *testing.T, ln net.Listener, want byte) {
	t.Helper()
	for {
		conn, err := ln.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		n, err := conn.Read(b[:])
		_ = conn.Close()
		if n == 1 && b[0] != want {
			t.Errorf("got %q, want %q", b, want)
		}
		if n == 1 {
			return
		}
		if !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

// sharedTCP is a listener on a free port, and the place to listen on it too.
func sharedTCP(t *testing.T, reusePort bool) (net.Listener, config.Listen) {
	t.Helper()
	ln := listening(t, reusePort, config.Listen{Network: "tcp", Address: "127.0.0.1:0"})[0]
	return ln, config.Listen{Network: "tcp", Address: ln.Addr().String()}
}

func TestSharedPort(t *testing.T) {
	first, place := sharedTCP(t, true)
	second := listening(t, true, place)[0]
	from := make(chan int, 2)
	for i, ln := range []net.Listener{first, second} {
		go func() {
			if conn, err := ln.Accept(); err == nil {
				_ = conn.Close()
			}
			from <- i
		}()
	}
	for range 64 { // each goes to either; that one gets all has a chance of 2^-63
		call(t, "tcp", place.Address, 'x')
	}
	if a, b := <-from, <-from; a == b {
		t.Errorf("both from %d", a)
	}
	_ = first.Close()
	call(t, "tcp", place.Address, 'y')
	for got := byte(0); got != 'y'; { // what is not accepted yet comes before
		conn, err := second.Accept()
		if err != nil {
			t.Fatal(err)
		}
		var b [1]byte
		_, _ = conn.Read(b[:])
		got = b[0]
		_ = conn.Close()
	}
}

func TestPortIsNotShared(t *testing.T) {
	_, alone := sharedTCP(t, false)
	refused(t, "address already in use", false, alone)
	refused(t, "does not share it (so_reuseport)", true, alone)
	_, shared := sharedTCP(t, true)
	refused(t, "address already in use", false, shared)
}

// socketPlace is where a Unix socket can be, in an empty directory.
func socketPlace(t *testing.T) config.Listen {
	return config.Listen{Network: "unix", Address: filepath.Join(t.TempDir(), ".s.PGSQL.6432")}
}

// files lists the directory of a place.
func files(t *testing.T, place config.Listen) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(place.Address))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestSocketFile(t *testing.T) {
	for _, reusePort := range []bool{false, true} {
		place := socketPlace(t)
		ln := listening(t, reusePort, place)[0]
		if ln.Addr().String() != place.Address || ln.Addr().Network() != "unix" {
			t.Errorf("address %v, want %s", ln.Addr(), place)
		}
		if info, err := os.Lstat(place.Address); err != nil || info.Mode().Perm() != 0o777 {
			t.Errorf("mode %v, %v", info.Mode(), err)
		}
		call(t, "unix", place.Address, 'a')
		hears(t, ln, 'a')
		if err := ln.Close(); err != nil {
			t.Error(err)
		}
		if left := files(t, place); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	}
}

// A new process is at the path at once; the old one has who connected before, and
// its end changes nothing.
func TestSocketIsTakenOver(t *testing.T) {
	place := socketPlace(t)
	old := listening(t, false, place)[0]
	call(t, "unix", place.Address, 'a')
	ln := listening(t, true, place)[0]
	call(t, "unix", place.Address, 'b')
	hears(t, old, 'a')
	hears(t, ln, 'b')
	for range 2 {
		_ = old.Close()
	}
	call(t, "unix", place.Address, 'c')
	hears(t, ln, 'c')
	if names := files(t, place); !slices.Equal(names, []string{".s.PGSQL.6432"}) {
		t.Errorf("files %q", names)
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if left := files(t, place); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	again := listening(t, false, place)[0]
	_ = ln.Close() // a second time, when the inode's number may be another's
	call(t, "unix", place.Address, 'd')
	hears(t, again, 'd')
}

// Who fails must not have taken anything over.
func TestNothingIsTakenOverByAFailure(t *testing.T) {
	place := socketPlace(t)
	old := listening(t, true, place)[0]
	_, taken := sharedTCP(t, false)
	refused(t, "address already in use", true, place, taken)
	call(t, "unix", place.Address, 'a')
	hears(t, old, 'a')
	if names := files(t, place); !slices.Equal(names, []string{".s.PGSQL.6432"}) {
		t.Errorf("files %q", names)
	}
}

// dead leaves a socket as a killed process does.
func dead(t *testing.T, path string) {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: path})
	if err != nil {
		t.Fatal(err)
	}
	ln.SetUnlinkOnClose(false)
	_ = ln.Close()
}

func TestSocketOfADeadProcess(t *testing.T) {
	for _, reusePort := range []bool{false, true} {
		place := socketPlace(t)
		dead(t, place.Address)
		ln := listening(t, reusePort, place)[0]
		call(t, "unix", place.Address, 'a')
		hears(t, ln, 'a')
	}
}

func TestSocketThatMustStay(t *testing.T) {
	place := socketPlace(t)
	other := listening(t, false, place)[0]
	refused(t, "another process listens there", false, place)

	lock := place.Address + ".lock"
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, ".s.PGSQL.6432.lock says that it is Postgres", true, place)
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := os.Lchown(place.Address, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		refused(t, "another user's process", true, place)
	}
	call(t, "unix", place.Address, 'a')
	hears(t, other, 'a')
}

func TestFileThatIsNoSocket(t *testing.T) {
	for _, reusePort := range []bool{false, true} {
		place := socketPlace(t)
		if err := os.WriteFile(place.Address, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, "not a socket", reusePort, place)
		if b, err := os.ReadFile(place.Address); string(b) != "precious" {
			t.Errorf("%q, %v", b, err)
		}
	}
	absent := config.Listen{Network: "unix", Address: filepath.Join(t.TempDir(), "absent", ".s.PGSQL.6432")}
	refused(t, "is not there: make it, owned by the user that pgweir runs as", true, absent)
}

// A process whose queue is full is alive: its socket is no litter.
func TestSocketOfABusyProcess(t *testing.T) {
	place := socketPlace(t)
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: place.Address}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	call(t, "unix", place.Address, 'a')
	refused(t, "another process listens there", false, place)
	ln := listening(t, true, place)[0]
	call(t, "unix", place.Address, 'b')
	hears(t, ln, 'b')
}

func TestLongestSocketPath(t *testing.T) {
	dir := t.TempDir()
	dir = filepath.Join(dir, strings.Repeat("d", 107-len(".s.PGSQL.1")-2-len(dir)))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	place := config.Listen{Network: "unix", Address: filepath.Join(dir, ".s.PGSQL.1")}
	ln := listening(t, true, place)[0]
	call(t, "unix", place.Address, 'a')
	hears(t, ln, 'a')
}

func TestSharedName(t *testing.T) {
	tcp := func(a string) config.Listen { return config.Listen{Network: "tcp", Address: a} }
	socket := func(a string) config.Listen { return config.Listen{Network: "unix", Address: a} }
	for want, places := range map[string][]config.Listen{
		"6432":      {tcp("127.0.0.1:6432"), socket("/run/pgweir/.s.PGSQL.6432"), tcp("[::1]:6432")},
		"6432,6433": {tcp(":6433"), tcp("0.0.0.0:6432")},
		"/a,/b":     {socket("/b"), socket("/a")},
	} {
		if got := sharedName(places); got != want {
			t.Errorf("%v: %q, want %q", places, got, want)
		}
	}
}
