package drivers

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"

	"github.com/pgweir/pgweir/integration/child"
)

// program is a driver in a process of its own.
type program struct {
	process *child.Process
	jobs    io.WriteCloser
	events  *bufio.Scanner
	said    *complaints
}

// complaints is the standard error of a program.
type complaints struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a part of it.
func (c *complaints) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(b)
}

// tail is the end of it.
func (c *complaints) tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.TrimSpace(c.text.String())
	return text[max(0, len(text)-4000):]
}

// startProgram starts a driver's program.
func startProgram(cmd *exec.Cmd) (*program, error) {
	p := &program{said: &complaints{}}
	var err error
	if p.jobs, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
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
		return fmt.Errorf("%w; it said: %s", err, p.said.tail())
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
	return fmt.Errorf("it ended: %w; it said: %s", errors.Join(p.events.Err(), ctx.Err(), io.ErrUnexpectedEOF), p.said.tail())
}

// Close ends the program.
func (p *program) Close() error {
	err := p.jobs.Close()
	<-p.process.Done()
	return errors.Join(err, p.process.Err())
}
