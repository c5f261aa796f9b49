package schema

import (
	"log/slog"
	"strings"
	"testing"
)

func TestLogLevels(t *testing.T) {
	for level, want := range map[LogLevel]slog.Level{
		Debug: slog.LevelDebug, Info: slog.LevelInfo, Warn: slog.LevelWarn, Error: slog.LevelError,
	} {
		if got := level.Slog(); got != want {
			t.Errorf("%s is %v", level, got)
		}
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range Keys() {
		id := k.Table + " " + k.Name
		if seen[id] {
			t.Errorf("%s is there twice", id)
		}
		seen[id] = true
		if k.Doc == "" || k.Admits == "" || !strings.HasSuffix(k.Doc, ".") {
			t.Errorf("%s: doc %q, admits %q", id, k.Doc, k.Admits)
		}
		if (k.Default == "") == (k.Example == "") {
			t.Errorf("%s has default %q and example %q", id, k.Default, k.Example)
		}
		isNumber := strings.Contains(k.Admits, "a number from")
		if isNumber != (k.Unit != "") {
			t.Errorf("%s admits %s and has the unit %q", id, k.Admits, k.Unit)
		}
	}
}

func TestReferenceHasEveryKey(t *testing.T) {
	text := Reference()
	for _, k := range Keys() {
		if !strings.Contains(text, "| `"+k.Name+"`") {
			t.Errorf("%s is missing", k.Name)
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); strings.HasPrefix(line, "|") && n != 5 {
			t.Errorf("%d bars in %s", n, line)
		}
	}
}
