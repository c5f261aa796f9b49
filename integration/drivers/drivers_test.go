package drivers

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/integration/pgtest"
)

const (
	// requireEnv makes a driver that is not installed a failure.
	requireEnv = "PGWEIR_REQUIRE_DRIVERS"
	// longEnv, such as 30s, is how long the overload lasts.
	longEnv = "PGWEIR_LONG"
)

// scene is one way to be refused.
type scene struct {
	name   string
	more   string   // configuration
	want   []string // reasons that must be seen, as "SQLSTATE reason retry"
	may    []string // others that may be
	tag    string
	sql    string
	time   time.Duration
	ping   bool // pools ask with SELECT 1 first; where that would be refused it is all that they would do
	common bool // all workers do it to each other: nothing is held
	away   bool // PostgreSQL cannot be reached
}

func scenes(t *testing.T) []scene {
	t.Helper()
	long := 3 * time.Second
	if text := os.Getenv(longEnv); text != "" {
		var err error
		if long, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	workload := func(keys string) string { return "[[workload]]\nname = \"default\"\n" + keys }
	const short = 400 * time.Millisecond
	return []scene{
		{
			name: "held", time: short, sql: "select pg_sleep(0.005)", // no guard: on a slow machine it would foresee the wait
			more: workload("max_wait = \"100ms\"\nmax_waiting = 2\nmode = \"off\"\n"),
			want: []string{"53300 queue_age yes", "53300 queue_full yes"},
		},
		{
			name: "rate", time: short, sql: "select pg_sleep(0.005)", common: true, ping: true,
			more: workload("max_wait = \"10s\"\n") + "[[rate]]\nper = \"role\"\nrate = \"40/s\"\nburst = 1\n",
			want: []string{"53400 rate yes"},
		},
		{
			name: "deadline", time: short, sql: "select pg_sleep(0.005)", tag: "/*pgweir.deadline_ms='30'*/",
			more: workload("max_wait = \"10s\"\n"),
			want: []string{"57014 deadline no"},
		},
		{
			name: "attempts", time: short, sql: "select pg_sleep(0.005)", tag: "/*pgweir.attempt='4'*/", common: true, ping: true,
			more: workload("max_wait = \"10s\"\n"),
			want: []string{"53400 attempts no"},
		},
		{
			name: "no server", time: short, sql: "select pg_sleep(0.005)", away: true,
			more: workload("no_server_wait = \"50ms\"\n"),
			want: []string{"53300 no_server yes"},
		},
		{
			name: "patience", time: time.Second, sql: "select pg_sleep(0.05)", common: true,
			more: workload("max_wait = \"30ms\"\n"),
			want: []string{"53300 queue_wait yes"},
			may:  []string{"53300 queue_age yes", "53300 displaced yes"},
		},
		{
			name: "overload", time: long, sql: "select pg_sleep(0.03)", common: true, ping: true,
			more: workload("max_wait = \"300ms\"\n"),
			may:  []string{"53300 displaced yes", "53300 queue_age yes", "53300 queue_wait yes", "53300 queue_full yes"},
		},
	}
}

// places is how many connections each pool has: 24 on two slots.
const places = 24

// What a refusal is to each driver: an error with code, DETAIL and HINT, on a connection that
// it and its pool keep.
func TestDrivers(t *testing.T) {
	c := behind(t)
	list := scenes(t)
	fronts := make(map[string]*front)
	for _, s := range list {
		fronts[s.name] = before(t, c, s.more)
	}
	for _, name := range Names() {
		t.Run(name, func(t *testing.T) {
			driver := start(t, name)
			for _, s := range list {
				t.Run(strings.ReplaceAll(s.name, " ", "_"), func(t *testing.T) { s.play(t, name, driver, fronts[s.name]) })
			}
		})
	}
}

// start starts a driver for the test.
func start(t *testing.T, name string) Driver {
	t.Helper()
	driver, err := Start(name)
	if errors.Is(err, ErrMissing) && os.Getenv(requireEnv) == "" {
		t.Skipf("%v (.ci/setup drivers installs it)", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := driver.Close(); err != nil {
			t.Error(err)
		}
	})
	return driver
}

// job is what a driver does in a scene.
func (s scene) job(to pgtest.Endpoint, name string) Job {
	return Job{
		To: to, User: "app", Application: name, Database: "app", Mode: Mixed, Workers: places, Time: s.time,
		SQL: s.sql, Tag: s.tag, After: "select 2 as after", Ping: s.ping,
	}
}

// play plays a scene with a driver and judges what it has seen.
func (s scene) play(t *testing.T, name string, driver Driver, f *front) {
	ready, calm := func() {}, func() {}
	switch {
	case s.away:
		ready, calm = f.door.shut, f.door.open
	case !s.common:
		ready = func() { calm = f.hold(t) }
	}
	before := 0
	seen := make(map[string]int)
	var done Event
	err := driver.Do(t.Context(), s.job(f.Endpoint, name), func(e Event) {
		switch e.Kind {
		case Ready:
			ready()
			before = f.logins(t)
		case Calm:
			calm()
		case Done:
			done = e
		case Refused:
			seen[s.refused(t, e)]++
		default:
			t.Errorf("%+v", e)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	reconnects := f.logins(t) - before
	t.Logf("%d served, %d connections, %d reconnects, refusals: %v", done.Served, len(done.PIDs), reconnects, seen)
	if reconnects > 0 || len(done.PIDs) > places {
		t.Errorf("%d reconnects, %d connections", reconnects, len(done.PIDs))
	}
	if done.Served < places {
		t.Errorf("%d were served when it was calm again", done.Served)
	}
	s.judge(t, seen)
}

// judge compares what was seen with what was to be: each of the reasons wanted, no other
// than those allowed, and a refusal in each mode.
func (s scene) judge(t *testing.T, seen map[string]int) {
	t.Helper()
	modes, reasons := make(map[string]bool), make(map[string]bool)
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		mode, reason, _ := strings.Cut(what, " ")
		if mode != Ping {
			modes[mode] = true
		}
		reasons[reason] = true
		if !slices.Contains(s.want, reason) && !slices.Contains(s.may, reason) {
			t.Errorf("refused with %q", what)
		}
	}
	for _, reason := range s.want {
		if !reasons[reason] {
			t.Errorf("never refused with %q", reason)
		}
	}
	if len(s.want) > 0 && len(modes) != 3 || len(seen) == 0 {
		t.Errorf("refused only in these modes: %v", modes)
	}
}

// refused judges how a refusal has arrived, and returns what it was.
func (s scene) refused(t *testing.T, e Event) string {
	detail := fields(e.Detail)
	for _, name := range []string{"reason", "pool", "class", "wait_ms", "slots", "queued"} {
		if detail[name] == "" {
			t.Errorf("DETAIL %q has no %s=", e.Detail, name)
		}
	}
	hint := fields(e.Hint)
	if wait, retry := hint["retry_after_ms"], hint["retry"]; retry == "" || retry != e.Retry || wait != "" && wait != strconv.Itoa(e.Wait) {
		t.Errorf("HINT %q was read as %d ms, retry %q", e.Hint, e.Wait, e.Retry)
	}
	if want := map[string]string{Tx: "25P02"}[e.Mode]; e.After != want {
		t.Errorf("the next statement of the transaction: %q, %+v", e.After, e)
	}
	return fmt.Sprintf("%s %s %s %s", e.Mode, e.Code, detail["reason"], hint["retry"])
}

// fields takes "name=value name=value" apart.
func fields(text string) map[string]string {
	list := make(map[string]string)
	for _, m := range regexp.MustCompile(`(\w+)=("[^"]*"|\S+)`).FindAllStringSubmatch(text, -1) {
		list[m[1]] = m[2]
	}
	return list
}
