// Package child runs processes that end with this one, and tells what they cost: CPU time,
// memory, wake-ups.
//
// The kernel ends a child when its parent dies, however that comes about; so a test, a
// measurement or a demonstration that is killed leaves no server behind.
package child

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Where says how a process runs. The zero value is: as ourselves, on any core, and killed
// when we die.
type Where struct {
	Root    string              // chroot; empty: none. Needs root's rights
	As      *syscall.Credential // whom it runs as; nil: as ourselves
	Cores   []int               // the only cores that it may use; empty: any
	OnDeath syscall.Signal      // what it gets when we die; 0: SIGKILL
}

// Process is a child. Its methods are safe for concurrent use.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // what Wait returned; read it only after done is closed
}

// Start starts cmd in a process group of its own, so that a Ctrl-C in the terminal reaches
// only us, and we end the children in their order.
//
// The kernel sends a parent-death signal when the *thread* that forked ends. So a goroutine
// keeps that thread, pinned like the child, until it has reaped the child: the signal then
// means that this whole process died.
func Start(cmd *exec.Cmd, where Where) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setpgid: true, Pdeathsig: where.OnDeath, Chroot: where.Root, Credential: where.As,
	}
	if where.OnDeath == 0 {
		cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := startPinned(cmd, where.Cores)
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("starting %s: %w", cmd.Path, err)
	}
	return p, nil
}

// startPinned starts cmd on some cores only, and leaves the calling thread as it was.
func startPinned(cmd *exec.Cmd, cores []int) error {
	if len(cores) == 0 {
		return cmd.Start()
	}
	var ours, theirs unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		return err
	}
	for _, core := range cores {
		theirs.Set(core)
	}
	if err := unix.SchedSetaffinity(0, &theirs); err != nil {
		return fmt.Errorf("cores %v: %w", cores, err)
	}
	err := cmd.Start()
	// The program's first thread never ends, and it may be this one.
	return errors.Join(err, unix.SchedSetaffinity(0, &ours))
}

// PID is the process id, also after the end of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err is how the process ended, as [exec.Cmd.Wait] says it: nil is code 0. It waits for the
// end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// Ended says why a process that ought to run does not; nil as long as it runs.
func (p *Process) Ended() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s ended by itself: %v", p.cmd.Path, p.cmd.ProcessState)
	default:
		return nil
	}
}

// Signal sends a signal; a process that has ended is left alone.
func (p *Process) Signal(s syscall.Signal) {
	if p.Ended() == nil {
		_ = p.cmd.Process.Signal(s) // it may have ended just now, and all is well
	}
}

// Wait waits for the end of the process. It returns ctx's cause when that comes first.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Stop sends a signal and waits for the end. A process that has not ended after bound is
// killed, and Stop returns false.
func (p *Process) Stop(s syscall.Signal, bound time.Duration) bool {
	p.Signal(s)
	late := time.NewTimer(bound)
	defer late.Stop()
	select {
	case <-p.done:
		return true
	case <-late.C:
		p.Signal(syscall.SIGKILL)
		<-p.done
		return false
	}
}

// FirstLine runs a program to its end, within bound, and returns the first line that it
// prints.
func FirstLine(ctx context.Context, where Where, bound time.Duration, argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: where.Root, Credential: where.As}
	out, err := cmd.Output()
	line, _, _ := strings.Cut(string(out), "\n")
	if err != nil {
		return line, fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return line, nil
}
