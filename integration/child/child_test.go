package child

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// bound is far more than any child here needs.
const bound = 20 * time.Second

func TestStartPinsTheChildAndNotUs(t *testing.T) {
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
	p, err := Start(cmd, Where{Cores: []int{cpu}})
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu); p.Err() != nil || out.String() != want {
		t.Errorf("%v: %q, want %q", p.Err(), out.String(), want)
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
	p, err := Start(exec.Command("sleep", "60"), Where{})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ended(); err != nil {
		t.Error(err)
	}
	p.Stop(syscall.SIGTERM, bound)
	if err := p.Ended(); err == nil {
		t.Error("a stopped process is said to run")
	}
	p.Stop(syscall.SIGTERM, bound)
}

func TestStartTellsWhatIsMissing(t *testing.T) {
	if _, err := Start(exec.Command("/nonexistent/pooler"), Where{}); err == nil {
		t.Error("no error")
	}
}

// The clock of another process goes on while it works, and its memory and wake-ups can be read.
func TestProcfs(t *testing.T) {
	p, err := Start(exec.Command("sh", "-c", "while :; do :; done"), Where{})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(syscall.SIGKILL, bound)
	first, err := CPUTime(p.PID())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for now := first; now < first+5*time.Millisecond; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the clock stands at %v", now)
		}
		if now, err = CPUTime(p.PID()); err != nil {
			t.Fatal(err)
		}
	}
	if bytes, err := RSS(p.PID()); err != nil || bytes < 100_000 || bytes > 100_000_000 {
		t.Errorf("a shell of %d bytes, %v", bytes, err)
	}
	if n, err := Wakeups(p.PID()); err != nil || n < 1 {
		t.Errorf("%d wake-ups, %v", n, err)
	}
	p.Stop(syscall.SIGKILL, bound)
	if _, err := CPUTime(p.PID()); err == nil {
		t.Error("CPU time of a process that has gone")
	}
	if _, err := RSS(p.PID()); err == nil {
		t.Error("memory of a process that has gone")
	}
	if _, err := Wakeups(p.PID()); err == nil {
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
	if busy, err := MachineBusy(); err != nil || busy <= 0 {
		t.Errorf("this machine: %v, %v", busy, err)
	}
}

// orphanEnv turns a run of TestNoChildOutlivesItsParent into the parent that is killed.
const orphanEnv = "PGWEIR_CHILD_ORPHAN"

// The pipe tells it all: it ends when nobody holds its other end any more, neither the
// killed parent nor the child that it left.
func TestNoChildOutlivesItsParent(t *testing.T) {
	if os.Getenv(orphanEnv) != "" {
		beTheParent(t)
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	parent.Env = append(os.Environ(), orphanEnv+"=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); err != nil || line != "child runs\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("%q, %v", rest, err)
	}
	if err := parent.Wait(); err == nil {
		t.Error("the parent was not killed")
	}
}

// beTheParent starts a child that runs until it is killed, and waits for it.
func beTheParent(t *testing.T) {
	cmd := exec.Command("sh", "-c", "echo child runs; exec sleep 600")
	cmd.Stdout = os.Stdout
	c, err := Start(cmd, Where{})
	if err != nil {
		t.Fatal(err)
	}
	<-c.Done()
}
