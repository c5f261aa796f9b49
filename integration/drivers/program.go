package drivers

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"syscall"

	"github.com/pgweir/pgweir/integration/child"
)

// program is a driver in a process of its own.
type program struct {
	process *child.Process
	jobs    io.WriteCloser
	events  *bufio.Scanner
	said    *child.Complaints
}

// startProgram starts a driver's program.
func startProgram(cmd *exec.Cmd) (*program, error) {
	p := &program{said: &child.Complaints{}}
	jobs, out, err := child.Pipes(cmd)
	if err != nil {
		return nil, err
	}
	p.jobs = jobs
	cmd.Stderr = p.said
	p.events = bufio.NewScanner(out)
	p.events.Buffer(nil, 1<<20)
	p.process, err = child.Start(cmd, child.Where{})
	return p, err
}

// Do sends a job and passes its events on.
func (p *program) Do(ctx context.Context, job Job, seen func(Event)) error {
	stop := context.AfterFunc(ctx, func() { p.process.Signal(syscall.SIGKILL) })
	defer stop()
	if _, err := io.WriteString(p.jobs, job.line()); err != nil {
		return fmt.Errorf("%w; it said: %s", err, p.said.Tail())
	}
	for p.events.Scan() {
		var e Event
		if err := json.Unmarshal(p.events.Bytes(), &e); err != nil {
			return fmt.Errorf("%q: %w", p.events.Text(), err)
		}
		seen(e)
		if e.Kind == Ready {
			if _, err := io.WriteString(p.jobs, "go\n"); err != nil {
				return err
			}
		}
		if e.Kind == Done {
			return nil
		}
	}
	return fmt.Errorf("it ended: %w; it said: %s", errors.Join(p.events.Err(), ctx.Err(), io.ErrUnexpectedEOF), p.said.Tail())
}

// Close ends the program.
func (p *program) Close() error {
	err := p.jobs.Close()
	<-p.process.Done()
	return errors.Join(err, p.process.Err())
}
