package main

import (
	"strings"
	"testing"
)

// runCommand runs the program and returns what it printed.
func runCommand(t *testing.T, args ...string) (code int, out, messages string) {
	t.Helper()
	var o, m strings.Builder
	code = run(t.Context(), args, &o, &m, func(string) string { return "" })
	return code, o.String(), m.String()
}

func TestBenchList(t *testing.T) {
	code, out, messages := runCommand(t, "bench", "list")
	if code != exitOK || messages != "" {
		t.Fatal(code, messages)
	}
	for _, name := range []string{"E1 ", "E3ii", "E28-postgres", "tenfold"} {
		if !strings.Contains(out, "\n"+name) && !strings.HasPrefix(out, name) {
			t.Errorf("no %s in\n%s", name, out)
		}
	}
	_, long, _ := runCommand(t, "bench", "list", "--long")
	if !strings.Contains(long, "Targets of pgweir:guard: goodput >= 98/s in 10s-15s;") {
		t.Errorf("--long tells no targets:\n%s", long)
	}
}

func TestBenchRunTellsWhatIsWrong(t *testing.T) {
	for args, want := range map[string]string{
		"":                         "name a scenario",
		"E99":                      `no scenario "E99"`,
		"E1 --against pgweir:lilo": "no policy",
		"E1 --scale 0":             "--scale must be",
		"E1 --what":                "what",
	} {
		code, out, messages := runCommand(t, append([]string{"bench", "run"}, strings.Fields(args)...)...)
		if code != exitUsage || out != "" || !strings.Contains(messages, want) || !strings.Contains(messages, "pgweir bench run:") {
			t.Errorf("%q: code %d, %q, %q", args, code, out, messages)
		}
	}
	if code, out, _ := runCommand(t, "bench", "run", "-h"); code != exitOK || !strings.Contains(out, "usage: pgweir bench run [FLAGS] NAME...") {
		t.Errorf("help: %d\n%s", code, out)
	}
}
