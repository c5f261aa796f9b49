package demo

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/cmd/internal/bench/stage"
	"github.com/pgweir/pgweir/integration/pgtest"
)

// mark is how a run stands.
func mark(at time.Duration, arrived, served, refused, left, failed int, executed int64) bench.Mark {
	m := bench.Mark{At: at}
	m.Arrived, m.Executed = arrived, executed
	m.By[bench.Served], m.By[bench.Refused], m.By[bench.GaveUp], m.By[bench.Failed] = served, refused, left, failed
	return m
}

// plain is a screen without anything.
func plain(out io.Writer) *screen { return newScreen(out, Options{}) }

func TestSecond(t *testing.T) {
	from := mark(3*time.Second, 100, 50, 20, 20, 0, 70)
	to := mark(5*time.Second, 499, 250, 40, 118, 1, 270)
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "  overload      100       10       50       90        100  ##########.xxxxx"},
		{Options{Unicode: true}, "  overload      100       10       50       90        100  ██████████·░░░░░"},
		{Options{Colors: true}, "  overload      100       10       50       90        100  " +
			"\x1b[32m##########\x1b[0m\x1b[33m.\x1b[0m\x1b[31mxxxxx\x1b[0m"},
	} {
		if diff := cmp.Diff(c.want, newScreen(io.Discard, c.o).second("overload", from, to)); diff != "" {
			t.Error(diff)
		}
	}
	// Half a sign more or less, but never one too many in all.
	s := plain(io.Discard)
	if got := s.bar(5, 5, 5); got != "#x" {
		t.Errorf("15 answers are %q", got)
	}
	if got := s.bar(0, 0, 0); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

// columns are enough of any terminal.
const columns = 79

func TestLinesFit(t *testing.T) {
	s := newScreen(io.Discard, Options{Unicode: true})
	full := s.second("good day", bench.Mark{}, mark(time.Second, 9999, 500, 500, 500, 0, 999))
	for _, line := range []string{full, s.heading()} {
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// fixed are results with round numbers.
func fixed() []*result {
	constant := func(n int, d time.Duration) bench.Times {
		list := make(bench.Times, n)
		for i := range list {
			list[i] = d
		}
		return list
	}
	list := schedule(15 * time.Second)
	return []*result{
		{
			policy: policies()[unbounded], servers: 5, executed: 1100, reopened: 1410, normal: 2500 * time.Millisecond, isNormal: true,
			phases: []part{
				{stretch: list[0], served: constant(180, 51*time.Millisecond)},
				{stretch: list[1], served: constant(190, 560*time.Millisecond), gaveUp: 1410},
				{stretch: list[2], served: constant(230, 310*time.Millisecond), gaveUp: 10},
			},
		},
		{
			policy: policies()[guarded], servers: 6, executed: 1230, normal: judged, isNormal: true,
			refusal: &pgconn.PgError{
				Severity: "ERROR", Code: "53300", Message: "pgweir: too many requests wait for a server connection",
				Detail: "reason=queue_full", Hint: "retry_after_ms=130 retry=yes",
			},
			phases: []part{
				{stretch: list[0], served: constant(180, 51*time.Millisecond)},
				{stretch: list[1], served: constant(810, 240*time.Millisecond), refused: constant(790, 300*time.Microsecond)},
				{stretch: list[2], served: constant(240, 52*time.Millisecond)},
			},
		},
	}
}

// TestReport compares with testdata, or writes it: go test ./cmd/internal/demo -args update
func TestReport(t *testing.T) {
	bad := fixed()
	bad[unbounded].isNormal = false
	bad[guarded].servers, bad[guarded].lost, bad[guarded].normal = 7, 1, 0
	bad[guarded].phases[after].failed = 2
	bad[guarded].failure = &pgconn.PgError{Severity: "FATAL", Code: "57P01", Message: "cut"}
	bad[guarded].refusal, bad[guarded].phases[overload].refused = nil, nil
	for name, results := range map[string][]*result{"report.txt": fixed(), "report-broken.txt": bad} {
		var b strings.Builder
		s := plain(&b)
		s.introduce(schedule(15 * time.Second))
		for i, p := range policies() {
			s.announce(i+1, p)
		}
		s.report(results)
		s.invite()
		for line := range strings.Lines(b.String()) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > columns && !strings.HasPrefix(line, "  ERROR:") {
				t.Errorf("%s: too long for a terminal: %s", name, line)
			}
		}
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

// Colors are the only difference that they make.
func TestColorsChangeNothingElse(t *testing.T) {
	text := func(colors bool) string {
		var b strings.Builder
		s := newScreen(&b, Options{Colors: colors})
		s.introduce(schedule(15 * time.Second))
		s.report(fixed())
		s.invite()
		return b.String()
	}
	plain, colored := text(false), text(true)
	if strings.Contains(plain, "\x1b") || !strings.Contains(colored, "\x1b[1m") {
		t.Error("colors are where they should not be, or not where they should")
	}
	if diff := cmp.Diff(plain, regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(colored, "")); diff != "" {
		t.Error(diff)
	}
}

func TestServingSaysWhatThereIs(t *testing.T) {
	cluster := &pgtest.Cluster{Endpoint: pgtest.Endpoint{Host: "127.0.0.1", Port: 5432}}
	for _, load := range []float64{0, 2} {
		var b strings.Builder
		th := &theatre{stage: &stage.Stage{Cluster: cluster}, front: &stage.Front{}}
		plain(&b).serving(th, load)
		for text, want := range map[string]bool{
			"export DATABASE_URL='postgres://app@":                             true,
			"  psql 'postgres://direct@127.0.0.1:5432/shop?sslmode=disable'\n": true,
			"its status page:\n":         true,
			"/pgweir?sslmode=disable'\n": true,
			"200/s is kept up":           load > 0,
		} {
			if strings.Contains(b.String(), text) != want {
				t.Errorf("load %g: %q, want %v:\n%s", load, text, want, b.String())
			}
		}
	}
}

// Every second is shown for good, nothing behind the last phase, and where lines can be
// rewritten also what is passing.
func TestTimeline(t *testing.T) {
	for _, rewrites := range []bool{false, true} {
		var b strings.Builder
		out := newScreen(&b, Options{Terminal: rewrites})
		line := newTimeline(schedule(6*time.Second), out)
		for quarter := 1; quarter <= 4*8; quarter++ { // 20/s, of 6 s and of the wait for the last answers
			line.look(mark(time.Duration(quarter)*time.Second/4, 5*quarter, 5*quarter, 0, 0, 0, 0))
		}
		line.end()
		text := b.String()
		const wrapOff, rewrite = "\x1b[?7l", "\r\x1b[K"
		if rewrites {
			// Three between two for good, and one whose middle is before the end.
			if n := strings.Count(text, wrapOff); n != 3*6+1 {
				t.Errorf("%d live lines", n)
			}
			text = regexp.MustCompile(regexp.QuoteMeta(rewrite)+`(.*`+regexp.QuoteMeta("\x1b[?7h")+`)?`).ReplaceAllString(text, "")
		}
		var want strings.Builder
		want.WriteString(out.heading() + "\n")
		for _, name := range []string{"good day", "overload", "overload", "overload", "after", "after"} {
			fmt.Fprintf(&want, "  %-10s     20        0        0        0          0  ##\n", name)
		}
		if diff := cmp.Diff(want.String(), text); diff != "" {
			t.Error(diff)
		}
	}
}
