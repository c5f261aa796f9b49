package drivers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// openPsql opens so many processes of psql.
func openPsql(ctx context.Context, job Job) (pool, error) {
	p := &psqlPool{free: make(chan *psql, job.Workers)}
	for range job.Workers {
		cmd := job.To.Command(ctx, pgtest.Login{User: job.User, Database: job.Database}, "psql", "-XAtq", "-w", "-v", "VERBOSITY=verbose", "-f", "-")
		cmd.Env = append(cmd.Env, "PGAPPNAME="+job.Application)
		c, err := startPsql(cmd)
		if err != nil {
			p.close()
			return nil, err
		}
		p.free <- c
	}
	return p, nil
}

type psqlPool struct{ free chan *psql }

func (p *psqlPool) lend(ctx context.Context, do func(conn) error) error {
	select {
	case c := <-p.free:
		defer func() { p.free <- c }()
		return do(c)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *psqlPool) close() {
	for {
		select {
		case c := <-p.free:
			_ = c.in.Close()
			_ = c.cmd.Wait() // how it ended was said before, if it matters
		default:
			return
		}
	}
}

// psql is one process, to which statements are said as a script says them.
type psql struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner // what it prints and what it complains of, in order
	said int
}

// startPsql starts one and waits for its login.
func startPsql(cmd *exec.Cmd) (*psql, error) {
	c := &psql{cmd: cmd}
	in, out, err := child.Pipes(cmd)
	if err != nil {
		return nil, err
	}
	c.in = in
	cmd.Stderr = cmd.Stdout
	c.out = bufio.NewScanner(out)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return c, c.say("") // it answers when it has logged in
}

// pid is not told: only the server could say it.
func (c *psql) pid() int { return 0 }

func (c *psql) plain(_ context.Context, sql string) error { return c.say(sql + ";") }

// several sends one string.
func (c *psql) several(_ context.Context, sql string) error {
	return c.say(sql + `\;` + sql + `\;` + sql + ";")
}

func (c *psql) tx(_ context.Context, sql string, inside func(func(string) error)) error {
	if err := c.say("begin;"); err != nil {
		return fmt.Errorf("a BEGIN: %v", err)
	}
	if err := c.say(sql + ";"); err != nil {
		inside(func(sql string) error { return c.say(sql + ";") })
		if rollback := c.say("rollback;"); rollback != nil {
			return fmt.Errorf("a ROLLBACK: %v", rollback)
		}
		return err
	}
	return c.say("commit;")
}

// say runs a line and reads up to a mark behind it.
func (c *psql) say(line string) error {
	c.said++
	mark := fmt.Sprintf("said %d", c.said)
	if _, err := fmt.Fprintf(c.in, "%s\n\\echo %s :SQLSTATE\n", line, mark); err != nil {
		return err
	}
	var r *refusal
	for c.out.Scan() {
		text := c.out.Text()
		if code, ok := strings.CutPrefix(text, mark+" "); ok {
			if r == nil {
				return nil
			}
			if r.code != code {
				return fmt.Errorf("SQLSTATE is %s after %v", code, r)
			}
			return r
		}
		if _, message, ok := strings.Cut(text, "ERROR:  "); ok {
			r = &refusal{}
			r.code, _, _ = strings.Cut(message, ":")
		}
		if strings.Contains(text, "FATAL:  ") {
			return errors.New(text)
		}
		if detail, ok := strings.CutPrefix(text, "DETAIL:  "); ok && r != nil {
			r.detail = detail
		}
		if hint, ok := strings.CutPrefix(text, "HINT:  "); ok && r != nil {
			r.hint = hint
		}
	}
	return errors.Join(io.ErrUnexpectedEOF, c.out.Err())
}
