package main

import (
	"log/slog"
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
