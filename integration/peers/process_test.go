package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestLaunchPinsTheChildAndNotUs(t *testing.T) {
	var ours unix.CPUSet
	if err := unix.SchedGetaffinity(0, &ours); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !ours.IsSet(cpu) {
		cpu++
	}
	cmd := exec.Command("grep", "Cpus_allowed_list", "/proc/self/status")
	var out strings.Builder
	cmd.Stdout = &out
	p, err := launch(cmd, surroundings{cpu: cpu})
	if err != nil {
		t.Fatal(err)
	}
	<-p.done
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu); p.err != nil || out.String() != want {
		t.Errorf("%v: %q, want %q", p.err, out.String(), want)
	}
	tasks, err := filepath.Glob("/proc/self/task/*")
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	var after unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &after); err != nil || after != ours {
		t.Errorf("our own cores changed from %v to %v: %v", ours, after, err)
	}
}

func TestStop(t *testing.T) {
	p, err := launch(exec.Command("sleep", "60"), surroundings{cpu: anyCPU})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.running(); err != nil {
		t.Error(err)
	}
	p.stop(syscall.SIGTERM)
	if err := p.running(); err == nil {
		t.Error("a stopped process is said to run")
	}
	p.stop(syscall.SIGTERM)
}

func TestLaunchTellsWhatIsMissing(t *testing.T) {
	if _, err := launch(exec.Command("/nonexistent/pooler"), surroundings{cpu: anyCPU}); err == nil {
		t.Error("no error")
	}
}

// The clock of another process goes on while it works, and its memory and wake-ups can be read.
func TestProcfs(t *testing.T) {
	p, err := launch(exec.Command("sh", "-c", "while :; do :; done"), surroundings{cpu: anyCPU})
	if err != nil {
		t.Fatal(err)
	}
	defer p.stop(syscall.SIGKILL)
	first, err := cpuTime(p.pid())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for now := first; now < first+5*time.Millisecond; {
		if err := pause(ctx, time.Millisecond); err != nil {
			t.Fatalf("the clock stands at %v: %v", now, err)
		}
		if now, err = cpuTime(p.pid()); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, err := rss(p.pid()); err != nil || bytes < 100_000 || bytes > 100_000_000 {
		t.Errorf("a shell of %d bytes, %v", bytes, err)
	}
	if n, err := wakeups(p.pid()); err != nil || n < 1 {
		t.Errorf("%d wake-ups, %v", n, err)
	}
	p.stop(syscall.SIGKILL)
	if _, err := cpuTime(p.pid()); err == nil {
		t.Error("CPU time of a process that has gone")
	}
	if _, err := rss(p.pid()); err == nil {
		t.Error("memory of a process that has gone")
	}
	if _, err := wakeups(p.pid()); err == nil {
		t.Error("wake-ups of a process that has gone")
	}
}

func TestParseBusy(t *testing.T) {
	got, err := parseBusy("cpu  100 20 3 99999 888 4 5 6 100 20", 10*time.Millisecond)
	if want := 1380 * time.Millisecond; err != nil || got != want {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for _, line := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu 1 2 x 4 5 6 7 8"} {
		if _, err := parseBusy(line, time.Millisecond); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
	if busy, err := machineBusy(); err != nil || busy <= 0 {
		t.Errorf("this machine: %v, %v", busy, err)
	}
}

// The generator's clients talk to its own fake PostgreSQL, with no pooler between.
func TestSatloadAgainstItself(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	g, err := startSatload(t.Context(), t.TempDir(), anyCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	self := &pooler{contender: contender{label: "self"}, Endpoint: g.Endpoint, proc: g.proc}
	for mode, perTx := range map[string]float64{"simple": 1, "extended": 5, "prepared": 4} {
		r, err := g.run(t.Context(), self, 3, mode, 100*time.Millisecond)
		if err != nil {
			t.Fatalf("%s: %v", mode, err)
		}
		// At either end of the measured time a transaction per client may be half in it.
		edge := 2 * 3 * perTx
		if off := float64(r.messages) - perTx*float64(r.transactions); off > edge || off < -edge {
			t.Errorf("%s: %d messages for %d transactions", mode, r.messages, r.transactions)
		}
		if r.cpu <= 0 || r.seconds < 0.1 || r.p99 < r.p50 {
			t.Errorf("%s: %+v", mode, r)
		}
	}
	// The fake is more than the one statement: what a pooler does to its servers works, too.
	c, err := dial(g.Addr(), nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	for _, sql := range []string{"BEGIN", "SELECT pg_catalog.set_config('a.b', 'c', false)", "COMMIT", "SET a.b = 1", "DISCARD ALL", "SHOW all"} {
		if err := c.query(sql); err != nil {
			t.Errorf("%s: %v", sql, err)
		}
	}
	if err := c.prepared("p", "SELECT 1"); err != nil {
		t.Error(err)
	}
	if err := c.prepared("p", "SELECT 2"); err == nil || !strings.HasPrefix(err.Error(), "42P05") {
		t.Errorf("a name parsed twice: %v", err)
	}
	if err := c.query("SELECT 1"); err != nil {
		t.Errorf("after an error: %v", err)
	}
}

func TestSatloadReportsATroubledPooler(t *testing.T) {
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	g, err := startSatload(t.Context(), t.TempDir(), anyCPU)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close()
	nobody := &pooler{Endpoint: g.Endpoint, proc: g.proc}
	nobody.Port = 1
	if _, err := g.run(t.Context(), nobody, 1, "simple", 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "connecting") {
		t.Errorf("no pooler there: %v", err)
	}
}

func TestWatchMemorySeesAPeak(t *testing.T) {
	base, err := rss(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	peak, stop := watchMemory(os.Getpid())
	b := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		b[i] = 1
	}
	deadline, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for peak.Load() < base+size/2 {
		if err := pause(deadline, time.Millisecond); err != nil {
			t.Errorf("peak %d after %d bytes more than %d", peak.Load(), size, base)
			break
		}
	}
	stop()
	if b[4096] != 1 {
		t.Error("the memory is needed until here")
	}
}
