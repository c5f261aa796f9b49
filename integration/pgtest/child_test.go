package pgtest

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// orphanEnv turns a run of TestNoChildOutlivesItsParent into the parent that is killed.
const orphanEnv = "PGWEIR_PGTEST_ORPHAN"

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
	c, err := startChild(cmd, syscall.SIGKILL, account{})
	if err != nil {
		t.Fatal(err)
	}
	<-c.done
}

// finished is a Proc whose process was a shell command that has ended.
func finished(t *testing.T, command string) *Proc {
	t.Helper()
	p := &Proc{LogFile: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(p.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command("sh", "-c", command)
	cmd.Stdout, cmd.Stderr = log, log
	if p.child, err = startChild(cmd, syscall.SIGKILL, account{}); err != nil {
		t.Fatal(err)
	}
	<-p.child.done
	return p
}

func TestFinishJudgesCodeAndOutput(t *testing.T) {
	for command, want := range map[string]string{
		"echo all is well":                      "",
		"exit 3":                                "exit status 3",
		"echo 'WARNING: DATA RACE'; exit 66":    "DATA RACE",
		"echo 'panic: boom' >&2":                "panic: boom",
		"kill -9 $$":                            "killed",
		"echo 'level=ERROR msg=\"panic in x\"'": "panic in x",
	} {
		verdict := &record{TB: t}
		finished(t, command).finish(verdict)
		got := strings.Join(verdict.errors, "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestStartChildTellsWhatCannotBeRun(t *testing.T) {
	if _, err := startChild(exec.Command("/no/such/program"), syscall.SIGKILL, account{}); err == nil {
		t.Error("started")
	}
}
