package demo

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestLiveLines(t *testing.T) {
	for _, c := range []struct {
		name     string
		rewrites bool
		want     string
	}{
		{"terminal", true, "a\n" + rewrite + wrapOff + "l1" + wrapOn + rewrite + wrapOff + "l2" + wrapOn + rewrite + "end\n" +
			rewrite + wrapOff + "l3" + wrapOn + "\nb\n"},
		{"file", false, "a\nl1\nl2\nend\nl3\nb\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			s := &screen{out: &b, rewrites: c.rewrites}
			s.say("%s", "a")
			s.live("l1")
			s.live("l2")
			s.settle("end")
			s.live("l3")
			s.say("b")
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestProgressLineFits(t *testing.T) {
	slow := make(times, 1000)
	for i := range slow {
		slow[i] = 999 * time.Millisecond
	}
	w := window{served: slow[:999], refused: slow, from: 3 * time.Second, to: 4 * time.Second}
	line := w.line(12*time.Second, 5)
	if want := "  4/12 s  served 999/s (p50 999 ms, p99 999 ms)  refused 1000/s  servers 5/6"; line != want {
		t.Errorf("got  %q\nwant %q", line, want)
	}
	if len(line) > 79 {
		t.Errorf("%d columns", len(line))
	}
	if got := (window{to: 300 * time.Millisecond}).line(1333*time.Millisecond, 0); got != "  0.3/1.3 s  served   0/s  refused   0/s  servers 0/6" {
		t.Errorf("%q", got)
	}
}

// TestReport compares with testdata, or writes it: go test ./cmd/internal/demo -args update
func TestReport(t *testing.T) {
	constant := func(n int, d time.Duration) times {
		list := make(times, n)
		for i := range list {
			list[i] = d
		}
		return list
	}
	list := phases()
	good := func() []*result {
		return []*result{
			{
				phase: list[0], asked: 1200, served: constant(1200, 700*time.Microsecond), servers: 5, balanced: true,
				length: 4 * time.Second, elapsed: 4 * time.Second,
			},
			{
				phase: list[1], asked: 1600, served: constant(825, 250*time.Millisecond),
				refused: constant(775, 400*time.Microsecond), codes: map[string]int{"53300": 775},
				refusal: &pgconn.PgError{
					Severity: "ERROR", Code: "53300", Message: "pgweir: too many requests wait for a server connection",
					Detail: "reason=queue_full", Hint: "retry_after_ms=130 retry=yes",
				},
				servers: 5, balanced: true, length: 8 * time.Second, elapsed: 8250 * time.Millisecond,
			},
		}
	}
	bad := good()
	bad[0].refused, bad[0].asked = constant(3, time.Millisecond), 1203
	bad[1].servers, bad[1].lost, bad[1].failed, bad[1].notSent, bad[1].balanced = 7, 1, 2, 4, false
	bad[1].asked, bad[1].refused, bad[1].codes, bad[1].refusal = 827, nil, nil, nil
	bad[1].failure = &pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "cut"}
	for name, results := range map[string][]*result{"report.txt": good(), "report-broken.txt": bad} {
		var b strings.Builder
		s := &screen{out: &b}
		s.report(results)
		path := filepath.Join("testdata", name)
		if flag.Arg(0) == "update" {
			if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
