package status

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// States for Notify, as systemd knows them.
const (
	Ready    = "READY=1"
	Stopping = "STOPPING=1"
	alive    = "WATCHDOG=1"
)

// Reloading is the state that goes ahead of a reload. Type=notify-reload wants the time with
// it; Ready says that it is over.
func Reloading() string {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "RELOADING=1" // can't fail on Linux; without the time it is the older protocol
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1e3)
}

// Status is a state that systemctl status shows, one line.
func Status(format string, args ...any) string { return "STATUS=" + fmt.Sprintf(format, args...) }

// Notify tells the service manager a state. It does nothing and returns nil if there is none,
// that is without NOTIFY_SOCKET; a name that starts with @ is in the abstract namespace.
func Notify(state string) error {
	name := os.Getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	defer func() { _ = c.Close() }() // datagrams have no goodbye
	if _, err := c.Write([]byte(state)); err != nil {
		return fmt.Errorf("notify: %w", err)
	}
	return nil
}

// Watchdog tells the service manager that the process is alive, twice in each of the times
// that WATCHDOG_USEC asks for, while works returns nil within that half. It returns when ctx
// ends, or at once if nobody has asked.
func Watchdog(ctx context.Context, works func(context.Context) error) {
	every := watchdogInterval()
	if every == 0 {
		return
	}
	t := time.NewTicker(every)
	defer t.Stop()
	for {
		asked, cancel := context.WithTimeout(ctx, every)
		if works(asked) == nil {
			_ = Notify(alive) // a lost one shows in the manager's own timer
		}
		cancel()
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

// watchdogInterval is how often to tell; 0 = never.
func watchdogInterval() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0 // it is meant for a parent of ours
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 {
		return 0
	}
	return max(time.Duration(us)*time.Microsecond/2, time.Millisecond)
}
