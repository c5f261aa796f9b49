package loop

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What x/sys does not have of linux/io_uring.h.
const (
	uringOpSend     = 26         // IORING_OP_SEND
	uringGetEvents  = 1 << 0     // IORING_ENTER_GETEVENTS
	uringSingleMmap = 1 << 0     // IORING_FEAT_SINGLE_MMAP
	uringNoDrop     = 1 << 1     // IORING_FEAT_NODROP
	uringOffEntries = 0x10000000 // IORING_OFF_SQES; the rings are at 0
)

// uringParams is struct io_uring_params.
type uringParams struct {
	sqEntries, cqEntries, flags, sqThreadCPU, sqThreadIdle, features, wqFd uint32

	_  [3]uint32
	sq struct {
		head, tail, mask, entries, flags, dropped, array, _ uint32
		_                                                   uint64
	}
	cq struct {
		head, tail, mask, entries, overflow, cqes, flags, _ uint32
		_                                                   uint64
	}
}

// uringEntry is struct io_uring_sqe as a send has it.
type uringEntry struct {
	op       uint8
	_        uint8
	prio     uint16 // must be 0
	fd       int32
	_        uint64
	addr     uint64
	len      uint32
	msgFlags uint32
	name     uint64
	_        [3]uint64
}

// uringResult is struct io_uring_cqe.
type uringResult struct {
	name  uint64
	res   int32
	flags uint32
}

// ring sends to many sockets with one system call, by io_uring. What it costs to enter the kernel
// is little of what that saves: a send wakes somebody, who on a busy machine gets the processor as
// soon as the kernel is left; here that is once for all of them. Nothing stays with the kernel:
// the sends do not wait (MSG_DONTWAIT), so all of them are over when the call returns. A ring
// belongs to the loop thread.
type ring struct {
	fd             int
	rings, entries []byte // mapped

	subs         []uringEntry
	sqTail       *uint32 // ours; the kernel looks at it when it is called
	sqMask       uint32
	added        uint32 // entries behind sqTail
	results      []uringResult
	cqHead       *uint32 // ours
	cqTail       *uint32 // the kernel's
	cqMask       uint32
	beforeSubmit func() // tests
}

// newRing makes a ring for at most n sends at once, n a power of two. It fails where the kernel has
// no io_uring of Linux 5.6 or later, or does not let us use it: kernel.io_uring_disabled, and the
// system call filters of container engines.
func newRing(n uint32) (*ring, error) {
	var p uringParams
	fd, _, e := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(n), uintptr(unsafe.Pointer(&p)), 0)
	if e != 0 {
		return nil, os.NewSyscallError("io_uring_setup", e)
	}
	r := &ring{fd: int(fd)}
	if err := r.open(&p); err != nil {
		r.close()
		return nil, err
	}
	return r, nil
}

// open maps what the kernel shares with us.
func (r *ring) open(p *uringParams) (err error) {
	if need := uint32(uringSingleMmap | uringNoDrop); p.features&need != need {
		return errors.New("io_uring: the kernel's is older than Linux 5.6")
	}
	size := max(p.sq.array+p.sqEntries*4, p.cq.cqes+p.cqEntries*uint32(unsafe.Sizeof(uringResult{})))
	if r.rings, err = r.mmap(0, uintptr(size)); err != nil {
		return err
	}
	if r.entries, err = r.mmap(uringOffEntries, uintptr(p.sqEntries)*unsafe.Sizeof(uringEntry{})); err != nil {
		return err
	}
	at := func(off uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.rings[off])) }
	r.sqTail, r.sqMask = at(p.sq.tail), *at(p.sq.mask)
	r.cqHead, r.cqTail, r.cqMask = at(p.cq.head), at(p.cq.tail), *at(p.cq.mask)
	r.subs = unsafe.Slice((*uringEntry)(unsafe.Pointer(&r.entries[0])), p.sqEntries)
	r.results = unsafe.Slice((*uringResult)(unsafe.Pointer(&r.rings[p.cq.cqes])), p.cqEntries)
	for i := range p.sqEntries { // an index of entries that for us is always in order
		*at(p.sq.array + 4*i) = i
	}
	return r.probe()
}

func (r *ring) mmap(offset int64, size uintptr) ([]byte, error) {
	b, err := unix.Mmap(r.fd, offset, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil, fmt.Errorf("io_uring: %w", os.NewSyscallError("mmap", err))
	}
	return b, nil
}

// probe has the ring send nothing to nobody: whoever may make a ring may still not be allowed to
// use it, and a kernel that does not know sends says EINVAL instead of EBADF.
func (r *ring) probe() error {
	r.add(-1, nil, 0)
	if n, e := r.submit(); n != 1 {
		return os.NewSyscallError("io_uring_enter", e)
	}
	if _, _, e := r.result(); e != unix.EBADF {
		return fmt.Errorf("io_uring: a send to no socket says %v", e)
	}
	return nil
}

func (r *ring) close() {
	if r.rings != nil {
		_ = unix.Munmap(r.rings)
	}
	if r.entries != nil {
		_ = unix.Munmap(r.entries)
	}
	if r.fd >= 0 {
		_ = unix.Close(r.fd)
	}
}

// add prepares a send of p, which is not on a stack, under a name of the caller's. There is room
// for as many as newRing was told.
func (r *ring) add(fd int32, p []byte, name int) {
	raceRead(p)
	r.subs[(*r.sqTail+r.added)&r.sqMask] = uringEntry{
		op: uringOpSend, fd: fd, name: uint64(name), addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))),
		len: uint32(len(p)), msgFlags: unix.MSG_DONTWAIT | unix.MSG_NOSIGNAL,
	}
	r.added++
}

// submit sends what was added, and returns how many of that, from the first on, the kernel has
// dealt with; each of them has a result. If they are not all then e may say why.
func (r *ring) submit() (n int, e syscall.Errno) {
	if r.beforeSubmit != nil {
		r.beforeSubmit()
	}
	was, added := *r.sqTail, r.added
	r.added = 0
	atomic.StoreUint32(r.sqTail, was+added)
	k, _, e := unix.RawSyscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(added), 0, 0, 0, 0)
	if e != 0 {
		k = 0
	}
	atomic.StoreUint32(r.sqTail, was+uint32(k)) // the rest does not wait for the next call
	return int(k), e
}

// result takes the next result: of which send, how many bytes, what error. It is called once for
// each send that submit returned.
func (r *ring) result() (name, n int, e syscall.Errno) {
	head := *r.cqHead
	for head == atomic.LoadUint32(r.cqTail) {
		// A send that does not wait is over by now; should a kernel see that otherwise, its buffer must not be
		// touched before.
		_, _, e := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), 0, 1, uringGetEvents, 0, 0)
		if e != 0 && e != unix.EINTR {
			panic("loop: io_uring does not tell what became of a send: " + e.Error())
		}
	}
	c := r.results[head&r.cqMask]
	atomic.StoreUint32(r.cqHead, head+1)
	if c.res < 0 {
		return int(c.name), 0, syscall.Errno(-c.res)
	}
	return int(c.name), int(c.res), 0
}
