package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// stopBound is how long a process may take to end before it is killed.
const stopBound = 10 * time.Second

// anyCPU is a surrounding's cpu when the process may run everywhere.
const anyCPU = -1

// surroundings are where a process runs.
type surroundings struct {
	root string              // chroot; empty: none
	as   *syscall.Credential // nil: as ourselves
	cpu  int                 // the only core that it may use, or anyCPU
}

// process is a child. The kernel kills it when this program dies.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it was reaped
	err  error         // what Wait returned; read it only after done is closed
}

// launch starts cmd. The goroutine that starts it keeps its thread, pinned like the child,
// until the child was reaped: the parent-death signal is sent when that thread ends.
func launch(cmd *exec.Cmd, where surroundings) (*process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: syscall.SIGKILL,
		Chroot: where.root, Credential: where.as,
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var ours unix.CPUSet
		err := unix.SchedGetaffinity(0, &ours)
		if err == nil {
			err = pin(where.cpu)
		}
		if err == nil {
			err = cmd.Start()
			// The program's first thread never ends, and it may be this one.
			err = errors.Join(err, unix.SchedSetaffinity(0, &ours))
		}
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.done)
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// pin binds the calling thread, and what it starts, to one core.
func pin(cpu int) error {
	if cpu == anyCPU {
		return nil
	}
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("core %d: %w", cpu, err)
	}
	return nil
}

// pid is the process id.
func (p *process) pid() int { return p.cmd.Process.Pid }

// stop sends a signal and waits for the end; a process that does not listen is killed.
func (p *process) stop(s syscall.Signal) {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(s) // it may have ended by itself just now
	late := time.NewTimer(stopBound)
	defer late.Stop()
	select {
	case <-p.done:
	case <-late.C:
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// running says why a process that ought to run does not.
func (p *process) running() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself: %v", p.cmd.Path, p.err)
	default:
		return nil
	}
}

// unprivileged is the account that servers run as when we are root, who is refused by
// PostgreSQL and PgBouncer alike: nil if we are not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
		gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
		if uidErr == nil && gidErr == nil {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid), Groups: []uint32{}}, nil
		}
	}
	return nil, fmt.Errorf("no account postgres or nobody to run servers as")
}

// firstLine runs a program to its end and returns the first line that it prints.
func firstLine(ctx context.Context, where surroundings, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, stopBound)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: where.root, Credential: where.as}
	out, err := cmd.Output()
	line, _, _ := strings.Cut(string(out), "\n")
	if err != nil {
		return line, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return line, nil
}
