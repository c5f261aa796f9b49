package demo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
)

func TestLiveLines(t *testing.T) {
	for _, c := range []struct {
		name     string
		rewrites bool
		want     string
	}{
		{"terminal", true, "a\n" + rewrite + wrapOff + "l1" + wrapOn + rewrite + wrapOff + "l2" + wrapOn + rewrite + "kept\n" +
			"kept too\n" + rewrite + wrapOff + "l3" + wrapOn + "\nb\n" + rewrite + wrapOff + "l4" + wrapOn + rewrite + "c\n"},
		{"file", false, "a\nkept\nkept too\nb\nc\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b strings.Builder
			s := &screen{out: &b, rewrites: c.rewrites}
			s.say("%s", "a")
			s.live("l1")
			s.live("l2")
			s.keep("kept")
			s.keep("kept too")
			s.live("l3")
			s.say("b")
			s.live("l4")
			s.erase()
			s.erase()
			s.say("c")
			if diff := cmp.Diff(c.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSecond(t *testing.T) {
	from := mark{at: 3 * time.Second, counts: counts{arrived: 100, by: [outcomes]int{50, 20, 20, 0}, executed: 70}}
	to := mark{at: 5 * time.Second, counts: counts{arrived: 499, by: [outcomes]int{250, 40, 118, 1}, executed: 270}}
	for _, c := range []struct {
		screen screen
		want   string
	}{
		{screen{}, "  overload      100       10       50       90        100  ##########.xxxxx"},
		{screen{unicode: true}, "  overload      100       10       50       90        100  ██████████·░░░░░"},
		{screen{colors: true}, "  overload      100       10       50       90        100  " +
			"\x1b[32m##########\x1b[0m\x1b[33m.\x1b[0m\x1b[31mxxxxx\x1b[0m"},
	} {
		if diff := cmp.Diff(c.want, c.screen.second("overload", from, to)); diff != "" {
			t.Error(diff)
		}
	}
	// Half a sign more or less, but never one too many in all.
	s := screen{}
	if got := s.bar([outcomes]int{5, 5, 5, 0}); got != "#x" {
		t.Errorf("15 answers are %q", got)
	}
	if got := s.bar([outcomes]int{}); got != "" {
		t.Errorf("nothing is %q", got)
	}
}

// columns are enough of any terminal.
const columns = 79

func TestLinesFit(t *testing.T) {
	s := screen{unicode: true}
	full := s.second("good day", mark{}, mark{at: time.Second, counts: counts{arrived: 9999, by: [outcomes]int{500, 500, 500, 0}, executed: 999}})
	for _, line := range []string{full, s.heading()} {
		if n := utf8.RuneCountInString(line); n > columns {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

// fixed are results with round numbers.
func fixed() []*result {
	constant := func(n int, d time.Duration) times {
		list := make(times, n)
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
		s := &screen{out: &b}
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
		s := &screen{out: &b, colors: colors}
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
	front := &pooler{configFile: "/d/pgweir.toml", log: &logbook{path: "/d/pgweir.log"}}
	front.Host, front.Port = "127.0.0.1", 6432
	st := &stage{front: front, cluster: fakeCluster()}
	for _, c := range []struct {
		http    string
		console bool
		load    float64
	}{{}, {http: "127.0.0.1:6433"}, {console: true}, {load: 2}} {
		var b strings.Builder
		front.http, front.console = c.http, c.console
		(&screen{out: &b}).serving(st, c.load)
		for text, want := range map[string]bool{
			"export DATABASE_URL='postgres://app:demo@127.0.0.1:6432/shop?sslmode=disable'\n": true,
			"  psql 'postgres://direct:demo@127.0.0.1:5432/shop?sslmode=disable'\n":           true,
			"http://127.0.0.1:6433/\n":                                 c.http != "",
			"psql 'postgres://app:demo@127.0.0.1:6432/pgweir?sslmode=": c.console,
			"200/s is kept up":                                         c.load > 0,
		} {
			if strings.Contains(b.String(), text) != want {
				t.Errorf("%+v: %q, want %v:\n%s", c, text, want, b.String())
			}
		}
	}
}

// Every second is shown for good, nothing behind the last phase, and where lines can be
// rewritten also what is passing.
func TestShow(t *testing.T) {
	for _, rewrites := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var b strings.Builder
			out := &screen{out: &b, rewrites: rewrites}
			ta, done := &tally{}, make(chan struct{})
			go func() {
				defer close(done)
				pause := 25 * time.Millisecond // never at the same instant as a look
				for range 160 {                // 20/s, of 6 s and of the wait for the last answers
					<-time.After(pause)
					pause = 50 * time.Millisecond
					ta.arrive()
					ta.add(arrival{}, 0, nil, true)
				}
			}()
			show(done, schedule(6*time.Second), begin(ta, &watch{}), out)
			text := b.String()
			if rewrites {
				// Three between two for good, and one whose middle is before the end.
				if n := strings.Count(text, wrapOff); n != 3*6+1 {
					t.Errorf("%d live lines", n)
				}
				text = regexp.MustCompile(regexp.QuoteMeta(rewrite)+`(.*`+regexp.QuoteMeta(wrapOn)+`)?`).ReplaceAllString(text, "")
			}
			var want strings.Builder
			want.WriteString(out.heading() + "\n")
			for _, name := range []string{"good day", "overload", "overload", "overload", "after", "after"} {
				fmt.Fprintf(&want, "  %-10s     20        0        0        0          0  ##\n", name)
			}
			if diff := cmp.Diff(want.String(), text); diff != "" {
				t.Error(diff)
			}
		})
	}
}
