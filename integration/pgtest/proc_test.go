package pgtest

import (
	"fmt"
	"strings"
	"testing"
)

func TestWithDefaultsFillsInWhatIsMissing(t *testing.T) {
	text, port, err := withDefaults("max_client_conn = 5\n[log]\nlevel = \"debug\"\n")
	if err != nil {
		t.Fatal(err)
	}
	if port < firstPort || port > lastPort {
		t.Errorf("port %d", port)
	}
	want := fmt.Sprintf("listen = [\"127.0.0.1:%d\"]\nhttp = \"none\"\ndrain_delay = \"0s\"\nmax_client_conn = 5\n[log]\n", port)
	if !strings.HasPrefix(text, want) {
		t.Errorf("got %s\nwant %s", text, want)
	}
}

func TestWithDefaultsKeepsWhatIsThere(t *testing.T) {
	config := "listen    = [\"127.0.0.1:21111\"]\nhttp=\"127.0.0.1:1\"\ndrain_delay = \"1s\"\n"
	text, port, err := withDefaults(config)
	if err != nil || port != 21111 || text != config {
		t.Errorf("port %d, %v, text %s", port, err, text)
	}
}

func TestFirstTrouble(t *testing.T) {
	for log, want := range map[string]string{
		"level=INFO msg=listening\nlevel=WARN msg=\"no panic here\"\n":         "",
		"x\nWARNING: DATA RACE\nRead at\n":                                     "WARNING: DATA RACE",
		"x\npanic: boom\n\ngoroutine 1":                                        "panic: boom",
		"fatal error: all goroutines are asleep\n":                             "fatal error: all goroutines are asleep",
		"time=1 level=ERROR msg=\"panic in session\" n=1\n":                    "time=1 level=ERROR msg=\"panic in session\" n=1",
		"level=ERROR msg=\"internal error\" panic=\"runtime error\" stack=x\n": "level=ERROR msg=\"internal error\" panic=\"runtime error\" stack=x",
	} {
		if got := firstTrouble(log); got != want {
			t.Errorf("firstTrouble(%q) = %q, want %q", log, got, want)
		}
	}
}

// record is a TB that remembers what it was told.
type record struct {
	TB
	errors []string
}

func (r *record) Errorf(format string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(format, args...))
}
func (r *record) Failed() bool        { return len(r.errors) > 0 }
func (r *record) Logf(string, ...any) {}
