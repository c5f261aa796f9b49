package loop

import (
	"os"

	"golang.org/x/sys/unix"
)

// nearby is how soon, in nanoseconds, something must be due for the wait itself
// to be bounded by it. A bounded wait programs a timer whenever it blocks, which
// in virtual machines is dear; what is due later is left to a timer descriptor,
// which is programmed once.
const nearby = 20_000_000

// alarm is a timer descriptor that wakes the loop by an event of no connection.
type alarm struct {
	fd int
	at int64 // when it goes off; in the past if it is not set
}

func newAlarm(epfd int) (fd int, err error) {
	if fd, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return -1, os.NewSyscallError("timerfd_create", err)
	}
	// Edge triggered, so it need not be read: each time that it goes off is an edge.
	ev := unix.EpollEvent{Events: evIn | evEdge, Fd: -1}
	if err = unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("epoll_ctl", err)
	}
	return fd, nil
}

// set makes the alarm go off no later than at. One that is set for earlier
// stays: the loop then looks what is due and sets it again.
func (a *alarm) set(now, at int64) {
	if a.at > now && a.at <= at {
		return
	}
	a.at = at
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(at - now)}
	if err := unix.TimerfdSettime(a.fd, 0, &spec, nil); err != nil {
		panic("loop: timerfd_settime: " + err.Error()) // only arguments can be wrong
	}
}
