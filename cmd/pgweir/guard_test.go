package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/pgweir/pgweir/config"
)

// Who sends SIGHUP has only the log to learn from.
func TestARefusedReloadIsLoggedWithItsRemedy(t *testing.T) {
	var text strings.Builder
	log := slog.New(slog.NewTextHandler(&text, nil))
	logProblem(log, "reload", config.Problem{File: "x.toml", Line: 3, Column: 1, Message: "is not a key", Fix: "Did you mean max_wait?"})
	logProblem(log, "SET", config.Problem{File: "x.toml", Message: "is wrong"})
	first, second, _ := strings.Cut(text.String(), "\n")
	const want = `level=ERROR msg="reload refused, nothing has changed" problem="x.toml:3:1: is not a key" what_to_do="Did you mean max_wait?"`
	if !strings.HasSuffix(first, want) {
		t.Error(first)
	}
	if !strings.Contains(second, `msg="SET refused, nothing has changed" problem="x.toml: is wrong"`) || strings.Contains(second, "what_to_do") {
		t.Error(second)
	}
}

// What a file is warned of is said at the start and at each reload; who types SET hears of
// what that has brought.
func TestSetLogsNewWarningsOnly(t *testing.T) {
	load := func(lines string) *config.Config {
		c, problems := config.Parse("x.toml", []byte(lines+"[upstream.main]\nurl = \"postgres://pgweir@localhost/postgres\"\n[database.\"*\"]\n"))
		if problems != nil {
			t.Fatal(problems)
		}
		return c
	}
	const trust = "listen = [\"0.0.0.0:6432\"]\nauth.auth_type = \"trust\"\n"
	before, after := load(trust), load("compat = \"pgbouncer\"\n"+trust)
	old, all := before.Warnings(), after.Warnings()
	if len(old) == 0 || len(all) != len(old)+1 {
		t.Fatalf("%q and %q", old, all)
	}
	for by, want := range map[string]int{"SET": 1, "reload": len(all)} {
		var text strings.Builder
		g := &guard{log: slog.New(slog.NewTextHandler(&text, nil)), config: before, odd: old}
		g.changes(after, by)
		if n := strings.Count(text.String(), "level=WARN"); n != want || !strings.Contains(text.String(), "each refusal of the queue ends a session") {
			t.Errorf("%s: %d warnings, want %d:\n%s", by, n, want, text.String())
		}
		if got := g.Warnings(); !slices.Equal(got, all) {
			t.Errorf("%s: who asks for warnings hears %q", by, got)
		}
		g.config = after
		text.Reset()
		g.changes(after, "SET")
		if strings.Contains(text.String(), "WARN") {
			t.Errorf("again:\n%s", text.String())
		}
	}
}
