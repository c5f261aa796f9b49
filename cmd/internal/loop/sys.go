package loop

import (
	"math"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls that never block go through RawSyscall6: the scheduler need not
// know of them. With an ordinary system call, a send that the kernel preempts
// looks blocked, and the runtime starts another thread for nothing. The wait
// that may block goes through the ordinary way and gives the processor up.

const (
	evIn    = unix.EPOLLIN
	evOut   = unix.EPOLLOUT
	evRdHup = unix.EPOLLRDHUP
	evHup   = unix.EPOLLHUP
	evErr   = unix.EPOLLERR
	evEdge  = 1 << 31 // EPOLLET; x/sys has it as a negative number on some platforms

	maxIov = 64 // spans that one sendmsg takes; more spans take more calls
)

// recv reads what is there into p, which must not be empty. (0, 0) is the end
// of the stream.
func recv(fd int32, p []byte) (int, syscall.Errno) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT, 0, 0)
		if e == 0 {
			raceWrite(p[:n])
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// send offers p to the kernel and returns how much it took.
func send(fd int32, p []byte) (int, syscall.Errno) {
	raceRead(p)
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// vector is the reusable argument of sendmsg. It lives on the heap with the
// loop, so that spans stored in it cannot be on a stack that moves.
type vector struct {
	hdr unix.Msghdr
	iov [maxIov]unix.Iovec
}

// send offers at most maxIov of spans, none of them empty, to the kernel.
func (v *vector) send(fd int32, spans [][]byte) (int, syscall.Errno) {
	n := 0
	for _, s := range spans {
		if n == maxIov {
			break
		}
		raceRead(s)
		v.iov[n].Base = unsafe.SliceData(s)
		v.iov[n].SetLen(len(s))
		n++
	}
	v.hdr.Iov = &v.iov[0]
	v.hdr.SetIovlen(n)
	defer v.clear(n)
	for {
		r, _, e := unix.RawSyscall6(unix.SYS_SENDMSG, uintptr(fd), uintptr(unsafe.Pointer(&v.hdr)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0, 0)
		if e == 0 {
			return int(r), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// clear forgets the spans, so that they can be collected.
func (v *vector) clear(n int) {
	for i := range n {
		v.iov[i].Base = nil
	}
}

// pollNow is epoll_wait without waiting.
func pollNow(epfd int, ev []unix.EpollEvent) (int, syscall.Errno) {
	n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
		uintptr(unsafe.Pointer(unsafe.SliceData(ev))), uintptr(len(ev)), 0, 0, 0)
	return int(n), e
}

// pollUntil is epoll_wait for at most d nanoseconds, math.MaxInt64 for ever.
// Without fine it is rounded up to whole milliseconds.
func pollUntil(epfd int, ev []unix.EpollEvent, d int64, fine bool) (int, error) {
	if d == math.MaxInt64 {
		return unix.EpollWait(epfd, ev, -1)
	}
	if !fine {
		return unix.EpollWait(epfd, ev, int(min((d-1)/1e6+1, math.MaxInt32)))
	}
	ts := unix.NsecToTimespec(d)
	n, _, e := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epfd),
		uintptr(unsafe.Pointer(unsafe.SliceData(ev))), uintptr(len(ev)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// hasFineWait reports whether epoll_pwait2 may be called: it is absent before
// Linux 5.11 and refused by some containers' system call filters.
func hasFineWait(epfd int) bool {
	var ev [1]unix.EpollEvent
	var ts unix.Timespec
	_, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epfd),
		uintptr(unsafe.Pointer(&ev[0])), 1, uintptr(unsafe.Pointer(&ts)), 0, 0)
	return e == 0 || e == unix.EINTR
}
