package main

import (
	"flag"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// result is what a run of the program left.
type result struct {
	code           int
	stdout, stderr string
}

// pgweir runs the program with arguments and an environment.
func pgweir(t *testing.T, environment map[string]string, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	code := run(t.Context(), args, &stdout, &stderr, func(name string) string { return environment[name] })
	return result{code, stdout.String(), stderr.String()}
}

// golden compares with a file of testdata, or writes it: go test ./cmd/pgweir -args update
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if flag.Arg(0) == "update" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("not as in %s (-want +got):\n%s", path, diff)
	}
}

func TestWithoutArguments(t *testing.T) {
	r := pgweir(t, nil)
	if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, "usage: pgweir COMMAND") {
		t.Errorf("%+v", r)
	}
}

func TestUnknownCommand(t *testing.T) {
	r := pgweir(t, nil, "chekc", "x")
	if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, `"chekc" is not a command; did you mean "check"?`) {
		t.Errorf("%+v", r)
	}
	r = pgweir(t, nil, "help", "versoin")
	if r.code != exitUsage || !strings.Contains(r.stderr, `did you mean "version"?`) {
		t.Errorf("%+v", r)
	}
	r = pgweir(t, nil, "postgresql")
	if r.code != exitUsage || strings.Contains(r.stderr, "did you mean") || !strings.Contains(r.stderr, "check, ") {
		t.Errorf("%+v", r)
	}
}

func TestHelp(t *testing.T) {
	overview := pgweir(t, nil, "help")
	if overview.code != exitOK || overview.stderr != "" {
		t.Errorf("%+v", overview)
	}
	for _, c := range commands() {
		if !strings.Contains(overview.stdout, "\n  "+c.name+" ") || !strings.Contains(overview.stdout, c.summary) {
			t.Errorf("%s is not in the overview", c.name)
		}
		detail := pgweir(t, nil, "help", c.name)
		if detail.code != exitOK || detail.stderr != "" || !strings.HasPrefix(detail.stdout, "usage: pgweir "+c.name) {
			t.Errorf("help %s: %+v", c.name, detail)
		}
		for _, flag := range []string{"-h", "--help"} {
			if diff := cmp.Diff(detail, pgweir(t, nil, c.name, flag), cmp.AllowUnexported(result{})); diff != "" {
				t.Errorf("help %s and %s %s differ:\n%s", c.name, c.name, flag, diff)
			}
		}
	}
	for _, flag := range []string{"-h", "-help", "--help"} {
		if got := pgweir(t, nil, flag); got != overview {
			t.Errorf("%s: %+v", flag, got)
		}
	}
	golden(t, "help-check.txt", pgweir(t, nil, "help", "check").stdout)
}

func TestMisuse(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"version", "x"}, `pgweir version: unexpected argument "x"`},
		{[]string{"version", "--x"}, "not defined: -x"},
		{[]string{"help", "a", "b"}, `unexpected argument "b"`},
		{[]string{"check"}, "which file?"},
		{[]string{"check", "a", "b"}, `unexpected argument "b"`},
		{[]string{"check", "--others", "many", "a"}, `invalid value "many"`},
		{[]string{"check", "--defaults", "a"}, "--defaults needs no file"},
		{[]string{"check", "a", "--defaults"}, "--defaults needs no file"},
	} {
		r := pgweir(t, nil, c.args...)
		if r.code != exitUsage || r.stdout != "" || !strings.Contains(r.stderr, c.want) || !strings.Contains(r.stderr, "See pgweir help") {
			t.Errorf("%v: %+v, want %q", c.args, r, c.want)
		}
	}
}

func TestVersion(t *testing.T) {
	for _, name := range []string{"version", "-version", "--version"} {
		r := pgweir(t, nil, name)
		if r.code != exitOK || r.stderr != "" || !strings.HasPrefix(r.stdout, "pgweir ") || strings.Count(r.stdout, "\n") != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

func TestDescribe(t *testing.T) {
	build := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{GoVersion: "go1.26.0", Main: debug.Module{Version: version}, Settings: settings}
	}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{build(""), "pgweir development version go1.26.0"},
		{build("(devel)", debug.BuildSetting{Key: "GOOS", Value: "linux"}, debug.BuildSetting{Key: "GOARCH", Value: "arm64"}), "pgweir development version go1.26.0 linux/arm64"},
		{
			build("v1.2.3", debug.BuildSetting{Key: "vcs.revision", Value: "0123456789abcdef"},
				debug.BuildSetting{Key: "vcs.time", Value: "2026-11-30T12:00:00Z"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}),
			"pgweir v1.2.3 (0123456789ab, 2026-11-30T12:00:00Z, modified) go1.26.0",
		},
	} {
		if got := describe(c.info); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
