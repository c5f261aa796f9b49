package pgtest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Crash ends the server as a failure would: no checkpoint, no word to its clients, and
// recovery at the next Resume. Unless Settings say synchronous_commit = on, transactions
// that were committed a moment before may be lost.
func (c *Cluster) Crash() error {
	if c.server == nil {
		return errors.New("the cluster is not running")
	}
	s := c.server
	c.server = nil
	s.Signal(syscall.SIGQUIT)
	<-s.Done()
	return nil
}

// Freeze stops every process of the server where it is, as a machine that hangs: its
// kernel still accepts connections and acknowledges what it is sent, and nothing is ever
// answered. thaw lets them run on; call it in any case. They run on, too, when the calling
// process ends: else they would outlive it.
func (c *Cluster) Freeze() (thaw func() error, err error) {
	if c.server == nil {
		return nil, errors.New("the cluster is not running")
	}
	main := c.server.PID()
	guard := exec.Command("sh", "-c", `read -r pids; read -r end; kill -CONT $pids`)
	guard.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is not for it
	orders, err := guard.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := guard.Start(); err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(orders.Close(), guard.Wait()) }
	// The postmaster comes first: then it makes no more children.
	if err := syscall.Kill(main, syscall.SIGSTOP); err != nil {
		return nil, errors.Join(err, stop())
	}
	pids, err := children(main)
	if err != nil {
		return nil, errors.Join(err, syscall.Kill(main, syscall.SIGCONT), stop())
	}
	pids = append(pids, main)
	var list strings.Builder
	for _, pid := range pids {
		fmt.Fprintf(&list, "%d ", pid)
	}
	if _, err := io.WriteString(orders, list.String()+"\n"); err != nil {
		return nil, errors.Join(err, syscall.Kill(main, syscall.SIGCONT), stop())
	}
	for _, pid := range pids {
		// One that has ended meanwhile needs no stop.
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil && !errors.Is(err, syscall.ESRCH) {
			return nil, errors.Join(err, stop())
		}
	}
	return func() error {
		err := orders.Close()
		_ = guard.Wait() // kill complains of those that have ended
		return err
	}, nil
}

// children lists the processes whose parent is pid.
func children(pid int) (list []int, err error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state ppid ...; the name may hold anything.
		i := strings.LastIndexByte(string(b), ')')
		if i < 0 {
			continue
		}
		f := strings.Fields(string(b[i+1:]))
		if len(f) < 2 || f[1] != strconv.Itoa(pid) {
			continue
		}
		child, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			return nil, err
		}
		list = append(list, child)
	}
	return list, nil
}
