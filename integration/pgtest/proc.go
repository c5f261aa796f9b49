package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/pgweir/pgweir/integration/child"
)

// Proc is a running `pgweir serve`. Its Endpoint is where clients connect.
type Proc struct {
	Endpoint
	ConfigFile string
	LogFile    string // standard output and error

	child *child.Process
}

// Pgweir builds pgweir, once per process, and runs it with a configuration until the end
// of the test. `listen` (a free port of 127.0.0.1), `http = "none"` and a drain without
// delay are put in front of the text unless it has these keys; a text with a `listen` of
// its own names a port of 127.0.0.1 in it, e.g. one of [FreePort].
//
// When the test ends the process gets SIGTERM, and the test fails unless it ends with code
// 0 and has printed neither a panic nor a data race. A failed test shows the end of the log.
func Pgweir(t TB, config string) *Proc {
	t.Helper()
	p, err := startPgweir(t, config)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		t.Helper()
		p.finish(t)
	})
	return p
}

// startPgweir is Pgweir without the clean-up.
func startPgweir(t TB, config string) (*Proc, error) {
	programs, err := FindPrograms()
	if err != nil {
		return nil, err
	}
	binary, err := builtBinary()
	if err != nil {
		return nil, err
	}
	dir := t.TempDir()
	for attempt := 1; ; attempt++ {
		p := &Proc{
			Endpoint:   Endpoint{Programs: programs, Host: "127.0.0.1"},
			ConfigFile: filepath.Join(dir, "pgweir.toml"),
			LogFile:    filepath.Join(dir, "pgweir.log"),
		}
		var text string
		if text, p.Port, err = withDefaults(config); err != nil {
			return nil, err
		}
		if err := os.WriteFile(p.ConfigFile, []byte(text), 0o600); err != nil {
			return nil, err
		}
		err = p.start(binary)
		if err == nil || attempt == 5 || !strings.Contains(tail(p.LogFile, 100), "address already in use") {
			return p, err
		}
	}
}

// withDefaults completes a configuration and tells the port of its listener.
func withDefaults(config string) (text string, port int, err error) {
	listen := regexp.MustCompile(`(?m)^\s*listen\s*=.*127\.0\.0\.1:(\d+)`).FindStringSubmatch(config)
	if listen != nil {
		_, err = fmt.Sscan(listen[1], &port)
	} else {
		port, err = FreePort()
	}
	var b strings.Builder
	for _, line := range []string{
		fmt.Sprintf(`listen = ["127.0.0.1:%d"]`, port), `http = "none"`, `drain_delay = "0s"`,
	} {
		key, _, _ := strings.Cut(line, " ")
		if !regexp.MustCompile(`(?m)^\s*` + key + `\s*=`).MatchString(config) {
			b.WriteString(line + "\n")
		}
	}
	return b.String() + config, port, err
}

// start runs the binary and waits until it listens.
func (p *Proc) start(binary string) error {
	log, err := os.Create(p.LogFile)
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }() // the process has its own descriptor

	cmd := exec.Command(binary, "serve", p.ConfigFile)
	// Without the last one the race detector holds every exit back for a second.
	cmd.Env = CleanEnv("GORACE=halt_on_error=0 exitcode=66 atexit_sleep_ms=10")
	cmd.Stdout, cmd.Stderr = log, log
	if p.child, err = child.Start(cmd, child.Where{}); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), startBound, errors.New("not ready in time"))
	defer cancel()
	if err := p.awaitReady(ctx); err != nil {
		p.child.Signal(syscall.SIGKILL)
		<-p.child.Done()
		return fmt.Errorf("pgweir serve: %w; its log ends:\n%s", err, tail(p.LogFile, 100))
	}
	return nil
}

// awaitReady waits until the process listens on its port.
func (p *Proc) awaitReady(ctx context.Context) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ok, err := listening(p.child.PID(), p.Port); ok || err != nil {
			return err
		}
		select {
		case <-p.child.Done():
			return fmt.Errorf("the process ended: %v", p.child.Err())
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

// Signal sends a signal to the process.
func (p *Proc) Signal(s syscall.Signal) { p.child.Signal(s) }

// Pid is the process id.
func (p *Proc) Pid() int { return p.child.PID() }

// Done is closed when the process has ended.
func (p *Proc) Done() <-chan struct{} { return p.child.Done() }

// Log is all that the process has printed so far.
func (p *Proc) Log() (string, error) {
	b, err := os.ReadFile(p.LogFile)
	return string(b), err
}

// finish ends the process and judges it.
func (p *Proc) finish(t TB) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	p.child.Signal(syscall.SIGTERM)
	if p.child.Wait(ctx) != nil {
		p.child.Signal(syscall.SIGQUIT) // the Go runtime prints all goroutines
		<-p.child.Done()
		t.Errorf("pgweir did not end within %v of SIGTERM", stopBound)
	} else if p.child.Err() != nil {
		t.Errorf("pgweir ended with %v", p.child.Err())
	}
	log, err := p.Log()
	if err != nil {
		t.Errorf("reading the log of pgweir: %v", err)
	}
	if bad := firstTrouble(log); bad != "" {
		t.Errorf("pgweir printed %q", bad)
	}
	if t.Failed() {
		t.Logf("end of the log of pgweir:\n%s", tail(p.LogFile, 200))
	}
}

// firstTrouble is the first sign of a crash or a data race in a log, empty if there is
// none.
func firstTrouble(log string) string {
	return regexp.MustCompile(`(?m)^(WARNING: DATA RACE|panic: .*|fatal error: .*|.*\bmsg="?panic.*|.*\bmsg="[^"]*" panic=.*)$`).FindString(log)
}
