package upstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode"
)

// Bounds of a password command.
const (
	commandTimeout = 10 * time.Second
	outputWait     = 200 * time.Millisecond // for the output, after the shell's end
	maxComplaint   = 200                    // bytes of a command's own words in an error
	keptStderr     = 4096                   // bytes
)

// Command is a command line for /bin/sh. The first line that it prints is the
// password. It is run at each log-in, in a process group of its own, for at most 10 s.
type Command string

// Password runs the command. It fails if the command does, if it prints more than
// 64 KiB, or if ctx ends; all that runs in the command's process group is then
// killed. The error has the last line of what the command complained, without the
// password.
func (c Command) Password(ctx context.Context) (string, error) {
	late := fmt.Errorf("password command not done after %v", commandTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, commandTimeout, late)
	defer cancel()
	var out head
	var complaints tail
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", string(c))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Stdout, cmd.Stderr = &out, &complaints
	// The leader of the group is not reaped yet, so the number is still its own.
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputWait
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // it has ended well and left a process that holds its output
	}
	switch {
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case out.over:
		err = fmt.Errorf("password command: output: %w", errTooLong)
	case err != nil:
		err = fmt.Errorf("password command: %w", err)
	}
	if err == nil {
		password, bad := firstLine(out.b)
		if bad == nil {
			return password, nil
		}
		err = fmt.Errorf("password command: output: %w", bad)
	}
	if said := complaints.last(out.b); said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", err
}

// errTooLong ends a command that prints too much.
var errTooLong = fmt.Errorf("more than %d bytes", maxSecret)

// head keeps what is written up to the bound, and fails then.
type head struct {
	b    []byte
	over bool
}

func (h *head) Write(p []byte) (int, error) {
	if len(h.b)+len(p) > maxSecret {
		h.over = true
		return 0, errTooLong
	}
	h.b = append(h.b, p...)
	return len(p), nil
}

// tail keeps the end of what is written.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if over := len(t.b) - keptStderr; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

// last is the last line that is not empty, made fit for a log line. A shell that
// traces its commands shows what it prints, so the secret is taken out.
func (t *tail) last(secret []byte) string {
	text := strings.TrimSpace(string(t.b))
	text = strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
	if line, _, _ := bytes.Cut(secret, []byte{'\n'}); len(bytes.TrimSpace(line)) > 0 {
		text = strings.ReplaceAll(text, string(bytes.TrimSpace(line)), "****")
	}
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	return strings.ToValidUTF8(text[:min(len(text), maxComplaint)], "")
}
