package matrix

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/child"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// patience bounds every wait. It is wide: a loaded machine is slow, not broken.
const patience = 60 * time.Second

// null stands for NULL in a cell.
const null = "␀"

// agent carries out commands with a driver.
type agent interface {
	// do carries out one for a connection; see the package's doc. From one goroutine for each
	// connection.
	do(conn int, verb string, args ...string) answer
	close() error
}

// answer is what a command has come to: lines of a kind and its fields.
type answer [][]string

// code is the SQLSTATE of the first error: "" if there is none, "?" if it has none.
func (a answer) code() string {
	if e := a.first("error"); e != nil {
		if e[1] == "" {
			return "?"
		}
		return e[1]
	}
	return ""
}

// first is the first line of a kind.
func (a answer) first(kind string) []string {
	for _, line := range a {
		if line[0] == kind {
			return line
		}
	}
	return nil
}

// can says that the driver has means for the verb.
func (a answer) can() bool { return a.first("no") == nil }

// cell is the first cell of the first row.
func (a answer) cell() string {
	if row := a.first("row"); len(row) > 1 {
		return row[1]
	}
	return ""
}

// String is the answer in one line.
func (a answer) String() string {
	parts := make([]string, 0, len(a))
	for _, line := range a {
		parts = append(parts, strings.Join(line, ","))
	}
	return strings.Join(parts, " | ")
}

// failure is an error's line.
func failure(code, message, detail, hint string) []string {
	return []string{"error", code, message, detail, hint}
}

// processes are agents of other languages: one process, or one for each connection.
type processes struct {
	command func() *exec.Cmd
	each    bool // one for each connection

	mu     sync.Mutex
	pool   []string
	byConn map[int]*program
}

func (p *processes) do(conn int, verb string, args ...string) answer {
	if verb == "pool" {
		return p.newPool(args)
	}
	to := conn
	if verb == "cancel" && p.each {
		to, _ = strconv.Atoi(args[0]) // a number
		if program, err := p.of(to); err == nil {
			return program.do(conn, verb, args...)
		}
	}
	program, err := p.of(to)
	if err != nil {
		return answer{failure("", err.Error(), "", "")}
	}
	return program.do(conn, verb, args...)
}

// newPool tells all programs of a pool, also those that are started later.
func (p *processes) newPool(args []string) answer {
	p.mu.Lock()
	p.pool = args
	list := make(map[int]*program)
	for conn, program := range p.byConn {
		list[conn] = program
	}
	p.mu.Unlock()
	if !p.each {
		program, err := p.of(0)
		if err != nil {
			return answer{failure("", err.Error(), "", "")}
		}
		return program.do(0, "pool", args...)
	}
	for conn, program := range list {
		if a := program.do(conn, "pool", args...); a.code() != "" {
			return a
		}
	}
	return nil
}

// of is the program for a connection.
func (p *processes) of(conn int) (*program, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.each {
		conn = 0
	}
	if program := p.byConn[conn]; program != nil {
		return program, nil
	}
	started, err := startProgram(p.command())
	if err != nil {
		return nil, err
	}
	if p.byConn == nil {
		p.byConn = make(map[int]*program)
	}
	p.byConn[conn] = started
	if p.each && p.pool != nil {
		if a := started.do(conn, "pool", p.pool...); a.code() != "" {
			return nil, errors.New(a.String())
		}
	}
	return started, nil
}

func (p *processes) close() error {
	var list []error
	for _, program := range p.byConn {
		list = append(list, program.in.Close())
	}
	for _, program := range p.byConn {
		<-program.process.Done()
		list = append(list, program.process.Err())
	}
	return errors.Join(list...)
}

// program is one process.
type program struct {
	process *child.Process
	said    child.Complaints

	mu      sync.Mutex
	in      io.WriteCloser
	answers map[int]chan []string // nil lines: the program has ended
	ended   error
}

func startProgram(cmd *exec.Cmd) (*program, error) {
	p := &program{answers: make(map[int]chan []string)}
	if cmd.Env == nil {
		cmd.Env = pgtest.CleanEnv()
	}
	cmd.Env = append(cmd.Env, "PGPASSFILE=/nonexistent")
	in, out, err := child.Pipes(cmd)
	if err != nil {
		return nil, err
	}
	p.in = in
	cmd.Stderr = &p.said
	if p.process, err = child.Start(cmd, child.Where{}); err != nil {
		return nil, err
	}
	go p.read(out)
	return p, nil
}

// read passes lines on to those who wait for them.
func (p *program) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 4<<20)
	var err error
	for lines.Scan() {
		fields := strings.Split(lines.Text(), "\t")
		n, bad := strconv.Atoi(fields[0])
		p.mu.Lock()
		ch := p.answers[n]
		p.mu.Unlock()
		if bad != nil || ch == nil || len(fields) < 2 {
			err = fmt.Errorf("it printed %q", lines.Text())
			break
		}
		for i := range fields {
			fields[i] = decode(fields[i])
		}
		ch <- fields[1:]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended = errors.Join(errors.New("the program has ended"), err, lines.Err())
	for _, ch := range p.answers {
		close(ch)
	}
	_, _ = io.Copy(io.Discard, out)
}

func (p *program) do(conn int, verb string, args ...string) answer {
	line := strconv.Itoa(conn) + "\t" + verb
	for _, arg := range args {
		line += "\t" + encode(arg)
	}
	p.mu.Lock()
	ch := p.answers[conn]
	if ch == nil {
		ch = make(chan []string, 64)
		p.answers[conn] = ch
	}
	err := p.ended
	if err == nil {
		_, err = io.WriteString(p.in, line+"\n")
	}
	p.mu.Unlock()
	if err != nil {
		return answer{failure("", fmt.Sprintf("%v; it said: %s", err, p.said.Tail()), "", "")}
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var a answer
	for {
		select {
		case line, ok := <-ch:
			if !ok {
				<-p.process.Done() // all of its complaints are there
				return answer{failure("", fmt.Sprintf("%v; it said: %s", p.ended, p.said.Tail()), "", "")}
			}
			if line[0] == "done" {
				return a
			}
			a = append(a, line)
		case <-timer.C:
			return append(a, failure("", fmt.Sprintf("no answer to %s in %v; it said: %s", verb, patience, p.said.Tail()), "", ""))
		}
	}
}

func encode(s string) string {
	if s == null {
		return `\N`
	}
	return strings.NewReplacer("\\", `\\`, "\t", `\t`, "\n", `\n`, "\r", `\r`).Replace(s)
}

func decode(s string) string {
	if s == `\N` {
		return null
	}
	return strings.NewReplacer(`\\`, "\\", `\t`, "\t", `\n`, "\n", `\r`, "\r").Replace(s)
}

// What is written can be read.
func TestEncoding(t *testing.T) {
	for _, s := range []string{"", "a", "\t\n\r\\", `\N`, null, `\\t`, "ä\\n"} {
		if got := decode(encode(s)); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}
