package status

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// manager listens as a service manager does.
func manager(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return c
}

func heard(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	b := make([]byte, 1000)
	n, err := c.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@pgweir-test-" + strconv.Itoa(os.Getpid())} {
		c := manager(t, name)
		for _, state := range []string{Ready, Stopping, Status("%d clients", 5)} {
			if err := Notify(state); err != nil {
				t.Fatal(err)
			}
			if got := heard(t, c); got != state {
				t.Errorf("%q, want %q", got, state)
			}
		}
	}
}

func TestNotifyWithoutAManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Notify(Ready); err != nil {
		t.Error(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if err := Notify(Ready); err == nil {
		t.Error("no error although nobody listens")
	}
}

func TestReloadingTellsTheTime(t *testing.T) {
	now := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano() / 1e3
	}
	before := now()
	m := regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=(\d+)$`).FindStringSubmatch(Reloading())
	if m == nil {
		t.Fatal("no time")
	}
	if at, _ := strconv.ParseInt(m[1], 10, 64); at < before || at > now() {
		t.Errorf("%d is not between %d and now", at, before)
	}
}

func TestWatchdog(t *testing.T) {
	c := manager(t, filepath.Join(t.TempDir(), "notify"))
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	stuck := make(chan bool, 1)
	stuck <- false
	go func() {
		defer close(ended)
		Watchdog(ctx, func(ctx context.Context) error {
			is := <-stuck
			stuck <- is
			if is {
				<-ctx.Done() // as a loop that does not answer
				return ctx.Err()
			}
			return nil
		})
	}()
	for range 3 {
		if got := heard(t, c); got != "WATCHDOG=1" {
			t.Fatal(got)
		}
	}
	<-stuck
	stuck <- true
	// What was under way when it got stuck may still arrive; then there is silence.
	silent := false
	for range 3 {
		_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
		_, err := c.Read(make([]byte, 100))
		silent = err != nil && strings.Contains(err.Error(), "timeout")
		if silent {
			break
		}
	}
	if !silent {
		t.Error("a stuck process goes on saying that it is alive")
	}
	cancel()
	<-ended
}

func TestWatchdogOnlyIfAsked(t *testing.T) {
	for _, c := range []struct{ usec, pid string }{{"", ""}, {"0", ""}, {"x", ""}, {"-5", ""}, {"20000", "1"}} {
		t.Setenv("WATCHDOG_USEC", c.usec)
		t.Setenv("WATCHDOG_PID", c.pid)
		Watchdog(t.Context(), func(context.Context) error { t.Error("asked"); return nil })
	}
}
