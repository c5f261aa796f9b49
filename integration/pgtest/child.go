package pgtest

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
)

// child is a process with one owner: the goroutine that starts it and reaps it.
type child struct {
	cmd *exec.Cmd

	done chan struct{} // closed once the process was reaped
	err  error         // what Wait returned; read it only after done is closed
}

// startChild starts cmd in a process group of its own, so that a Ctrl-C in the terminal
// reaches only us and we end the children in their order.
//
// The kernel sends a parent-death signal when the *thread* that forked ends, and Go ends a
// thread whose locked goroutine returned. So the owner holds its thread until it has
// reaped the child: the signal then means that this whole process died.
func startChild(cmd *exec.Cmd, onParentDeath syscall.Signal, as account) (*child, error) {
	attr := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: onParentDeath}
	as.apply(attr)
	cmd.SysProcAttr = attr

	c := &child{cmd: cmd, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		c.err = cmd.Wait()
		close(c.done)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// signal sends s to the process; one that has ended is left alone.
func (c *child) signal(s syscall.Signal) {
	select {
	case <-c.done:
	default:
		// It may end at this very moment; os.Process then reports that, and all is well.
		_ = c.cmd.Process.Signal(s)
	}
}

// wait waits for the end of the process. It returns ctx's error when that comes first.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// pid is the process id, also after the end of the process.
func (c *child) pid() int { return c.cmd.Process.Pid }
