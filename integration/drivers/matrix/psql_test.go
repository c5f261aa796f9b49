package matrix

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// psqlAgent is a process of psql for each connection, to which a script is said line by line.
type psqlAgent struct {
	programs pgtest.Programs

	mu    sync.Mutex
	dsn   map[string]string
	conns map[int]*psql
}

// psql is one process.
type psql struct {
	process *child.Process
	in      io.WriteCloser
	lines   chan string // what it prints and what it complains of, in order; closed at its end
	said    int
	alone   bool

	interrupted atomic.Bool
	lost        bool
}

func newPsql(programs pgtest.Programs) agent {
	return &psqlAgent{programs: programs, conns: make(map[int]*psql)}
}

func (a *psqlAgent) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.end()
	}
	a.conns = make(map[int]*psql)
	return nil
}

func (c *psql) end() {
	_ = c.in.Close()
	for range c.lines {
	}
	<-c.process.Done()
}

// start starts a process and waits for its login.
func (a *psqlAgent) start(o map[string]string) (*psql, error) {
	e := pgtest.Endpoint{Programs: a.programs, Host: o["host"]}
	if _, err := fmt.Sscan(o["port"], &e.Port); err != nil {
		return nil, err
	}
	cmd := e.Command(context.Background(), pgtest.Login{User: o["user"], Password: o["password"], Database: o["database"]},
		"psql", "-XAtq", "-v", "VERBOSITY=verbose", "-P", "null="+null, "-F", "\x1f", "-f", "-")
	return startPsql(cmd, o)
}

func startPsql(cmd *exec.Cmd, o map[string]string) (*psql, error) {
	if o["tz"] != "" {
		cmd.Env = append(cmd.Env, "PGTZ="+o["tz"])
	}
	if o["enc"] != "" {
		cmd.Env = append(cmd.Env, "PGCLIENTENCODING="+o["enc"])
	}
	c := &psql{lines: make(chan string, 64)}
	in, out, err := child.Pipes(cmd)
	if err != nil {
		return nil, err
	}
	c.in = in
	cmd.Stderr = cmd.Stdout
	if c.process, err = child.Start(cmd, child.Where{}); err != nil {
		return nil, err
	}
	go func() {
		defer close(c.lines)
		text := bufio.NewScanner(out)
		text.Buffer(nil, 1<<20)
		for text.Scan() {
			c.lines <- text.Text()
		}
	}()
	return c, nil
}

func (a *psqlAgent) do(conn int, verb string, args ...string) answer {
	switch verb {
	case "pool":
		_ = a.close()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.dsn = keyed(args)
		return nil
	case "connect", "open":
		a.mu.Lock()
		c, o := a.conns[conn], a.dsn
		a.mu.Unlock()
		if c != nil {
			return nil // it is kept between an open and the next
		}
		if verb == "connect" {
			o = keyed(args)
		}
		c, err := a.start(o)
		if err != nil {
			return answer{failure("", err.Error(), "", "")}
		}
		c.alone = verb == "connect"
		if reply := c.say(""); reply.code() != "" { // it answers when it has logged in
			return reply
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.conns[conn] = c
		return nil
	}
	a.mu.Lock()
	c := a.conns[conn]
	a.mu.Unlock()
	if c == nil && verb != "cancel" {
		return answer{failure("", "no connection", "", "")}
	}
	if verb == "cancel" {
		var n int
		_, _ = fmt.Sscan(args[0], &n) // a number
		a.mu.Lock()
		defer a.mu.Unlock()
		a.conns[n].interrupted.Store(true)
		a.conns[n].process.Signal(syscall.SIGINT)
		return nil
	}
	reply := c.carryOut(verb, args)
	if verb == "long" && reply.code() == "?" && c.interrupted.Load() {
		// A script ends at an interrupt, at times before it has printed the error.
		reply = append(reply[:len(reply)-1], failure("57014", "", "", ""))
		c.lost = true
	}
	if verb == "close" && c.alone || reply.code() == "57P01" || reply.code() == "?" || c.lost {
		c.end()
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.conns, conn)
	}
	return reply
}

func (c *psql) carryOut(verb string, args []string) answer {
	switch verb {
	case "close":
		return nil
	case "query", "exec", "long", "notices":
		text := args[0]
		for i, arg := range args[1:] {
			text = strings.ReplaceAll(text, fmt.Sprintf("$%d", i+1), "'"+strings.ReplaceAll(arg, "'", "''")+"'")
		}
		if verb == "exec" {
			text = strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(text), ";"), ";", `\;`)
		}
		return c.say(text + ";")
	case "begin":
		if len(args) > 0 {
			return c.say("begin isolation level " + args[0] + ";")
		}
		return c.say("begin;")
	case "commit", "rollback":
		return c.say(verb + ";")
	case "copyin":
		return c.say(args[0] + ";\n" + args[1] + `\.`)
	case "copyout":
		return c.say(args[0] + ";")
	case "ping":
		return c.say("select 1;")
	}
	return answer{{"no"}}
}

// say runs lines and reads up to a mark behind them.
func (c *psql) say(text string) answer {
	c.said++
	mark := fmt.Sprintf("said %d", c.said)
	if _, err := fmt.Fprintf(c.in, "%s\n\\echo %s\n", text, mark); err != nil && !errors.Is(err, syscall.EPIPE) {
		return answer{failure("", err.Error(), "", "")}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var a answer
	var e []string // the error
	for {
		select {
		case line, ok := <-c.lines:
			if line == mark || !ok {
				if e != nil {
					return append(a, e)
				} else if !ok {
					return append(a, failure("", "psql has ended", "", ""))
				}
				return append(a, []string{"end"})
			}
			a, e = heard(a, e, line)
		case <-timer.C:
			return append(a, failure("", "no answer", "", ""))
		}
	}
}

// heard adds what psql has printed.
func heard(a answer, e []string, line string) (answer, []string) {
	for _, severity := range []string{"FATAL:  ", "ERROR:  "} {
		if _, text, ok := strings.Cut(line, severity); ok {
			code, message, _ := strings.Cut(text, ": ")
			if len(code) != 5 { // of a connection that could not be opened
				code = ""
			}
			return a, failure(code, message, "", "")
		}
	}
	for i, name := range []string{"DETAIL:  ", "HINT:  "} {
		if text, ok := strings.CutPrefix(line, name); ok && e != nil {
			e[3+i] = text
			return a, e
		}
	}
	if e != nil {
		return a, e // the position of the error and what else there is
	}
	for _, name := range []string{"NOTICE:  ", "WARNING:  "} {
		if _, text, ok := strings.Cut(line, name); ok {
			_, message, _ := strings.Cut(text, ": ")
			return append(a, []string{"notice", name + message}), nil
		}
	}
	if strings.HasPrefix(line, "LOCATION:  ") {
		return a, nil
	}
	return append(a, append([]string{"row"}, strings.Split(line, "\x1f")...)), nil
}
