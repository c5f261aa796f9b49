package upstream

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func TestPasswordFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	for content, want := range map[string]string{
		"secret":              "secret",
		"secret\n":            "secret",
		"secret\r\nmore":      "secret",
		" se cret \n\n":       " se cret ",
		"":                    "!no password in the first line",
		"\nsecret":            "!no password in the first line",
		"sec\x00ret\n":        "!a zero byte in the password",
		longer(maxSecret):     longer(maxSecret),
		longer(maxSecret + 1): "!more than 65536 bytes",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := File(path).Password(t.Context())
		if bad, ok := strings.CutPrefix(want, "!"); ok {
			if got != "" || err == nil || err.Error() != path+": "+bad {
				t.Errorf("%.20q: %q, %v", content, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%.20q: %.20q, %v", content, got, err)
		}
	}
	for _, bad := range []string{path + "2", filepath.Dir(path), "/dev/zero"} {
		if _, err := File(bad).Password(t.Context()); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func longer(n int) string { return strings.Repeat("x", n) }

func TestFixedPassword(t *testing.T) {
	if got, err := Fixed("secret").Password(t.Context()); got != "secret" || err != nil {
		t.Error(got, err)
	}
	if got := fmt.Sprintf("%v %s %#v %+v", Fixed("secret"), Fixed("secret"), Fixed("secret"), Request{Passwords: Fixed("secret")}); strings.Contains(got, "secret") {
		t.Error(got)
	}
}

func TestPasswordCommand(t *testing.T) {
	for line, want := range map[string]string{
		"echo secret; echo more":                   "secret",
		"printf secret":                            "secret",
		"printf 'a\\r\\nb'":                        "a",
		"read x; echo \"got $x\"":                  "got ",
		"echo secret; (sleep 60 &)":                "secret", // it keeps the output open
		"echo noise >&2; echo secret":              "secret",
		"true":                                     "!password command: output: no password in the first line",
		"echo; echo late":                          "!password command: output: no password in the first line",
		"exit 3":                                   "!password command: exit status 3",
		"echo one >&2; echo two >&2; false":        "!password command: exit status 1: two",
		"echo secret; set -x; : secret; exit 1":    "!password command: exit status 1: + exit 1",
		"echo hush; echo my hush >&2; false":       "!password command: exit status 1: my ****",
		"printf 'a\\033[31m\\tb\\n\\n' >&2; false": "!password command: exit status 1: a [31m b",
		"kill -9 $$":                               "!password command: signal: killed",
		"head -c 65537 /dev/zero":                  "!password command: output: more than 65536 bytes",
		"yes":                                      "!password command: output: more than 65536 bytes",
	} {
		got, err := Command(line).Password(bounded(t))
		if bad, ok := strings.CutPrefix(want, "!"); ok {
			if got != "" || err == nil || err.Error() != bad {
				t.Errorf("%s: %q, %v", line, got, err)
			}
		} else if got != want || err != nil {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
	if _, err := Command("yes x | head -c 100000 | tr -d '\\n' >&2; false").Password(bounded(t)); err == nil || len(err.Error()) > 300 {
		t.Error(err)
	}
}

func TestPasswordCommandIsKilledWithItsChildren(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	line := "sleep 600 & echo $! > " + path + ".new; mv " + path + ".new " + path + "; echo waiting >&2; wait"
	ctx, cancel := context.WithCancel(bounded(t))
	child := 0
	ended := make(chan error, 1)
	go func() { _, err := Command(line).Password(ctx); ended <- err }()
	await(t, "the child runs", func() bool {
		b, err := os.ReadFile(path)
		if err == nil {
			child, err = strconv.Atoi(strings.TrimSpace(string(b)))
		}
		return err == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	await(t, "the child is gone", func() bool {
		// Nobody may reap an orphan in a container, so a zombie counts as gone.
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
		return syscall.Kill(child, 0) != nil || err != nil || strings.Contains(string(stat), ") Z ")
	})
}
