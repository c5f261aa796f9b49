package pgtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/integration/child"
)

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
	if p.child, err = child.Start(cmd, child.Where{}); err != nil {
		t.Fatal(err)
	}
	<-p.child.Done()
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
