package child

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"sync"
)

// Complaints takes the standard error of a process. Its methods are safe for concurrent use, its
// zero value is ready.
type Complaints struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write takes a part of it.
func (c *Complaints) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(b)
}

// Tail is the end of it, at most 4,000 bytes.
func (c *Complaints) Tail() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := strings.TrimSpace(c.text.String())
	return text[max(0, len(text)-4000):]
}

// Pipes are a command's standard input, and its standard output to read from, before it starts.
func Pipes(cmd *exec.Cmd) (in io.WriteCloser, out io.Reader, err error) {
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, err
	}
	out, err = cmd.StdoutPipe()
	return in, out, err
}
