package demo

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/bench"
	"github.com/pgweir/pgweir/config"
)

func TestRunRefusesWrongTimes(t *testing.T) {
	for _, seconds := range []int{-1, 0, MinSeconds - 1, MaxSeconds + 1} {
		if err := Run(t.Context(), Options{Seconds: seconds, Out: io.Discard}); err == nil {
			t.Errorf("%d seconds", seconds)
		}
	}
}

func TestParseLoad(t *testing.T) {
	for text, want := range map[string]float64{"2x": 2, "0.6": 0.6, "1.5x": 1.5, "0.1": minLoad, "2.5x": maxLoad} {
		if got, err := ParseLoad(text); err != nil || got != want {
			t.Errorf("%q: %g, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "2xx", "0", "0.09x", "2.6x", "-1", "NaN", "Inf", "two"} {
		if got, err := ParseLoad(text); err == nil {
			t.Errorf("%q: %g", text, got)
		}
	}
}

func TestConfigurationsAreRight(t *testing.T) {
	for _, what := range policies() {
		t.Run(what.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "pgweir.toml")
			if err := os.WriteFile(path, []byte(what.plan().Text(what.target())), 0o600); err != nil {
				t.Fatal(err)
			}
			loaded, problems := config.LoadEnv(path, func(string) string { return "" })
			for _, one := range problems {
				t.Error(one)
			}
			if len(problems) == 0 {
				checkConfig(t, loaded, what)
			}
		})
	}
}

func checkConfig(t *testing.T, c *config.Config, what policy) {
	t.Helper()
	b := c.Budget(0, config.Facts{MaxConnections: 100, RoleLimit: -1})
	if b.Connections != budget || b.Slots != slots {
		t.Errorf("%d connections and %d slots, want %d and %d", b.Connections, b.Slots, budget, slots)
	}
	w := c.Workloads[len(c.Workloads)-1]
	if what.name == policies()[unbounded].name {
		if w.MaxWait.Std() < time.Hour || int(w.MaxWaiting) < 100*sessions || w.OnDisconnect != config.Finish {
			t.Errorf("there are bounds: %+v", w)
		}
		return
	}
	if w.MaxWait.Std() != maxWait || !w.MaxWaiting.IsAuto() || w.OnDisconnect != config.Cancel {
		t.Errorf("unguarded: %+v", w)
	}
	if len(c.Warnings()) > 0 {
		t.Error(c.Warnings())
	}
}

// The guard has to be able to keep what the demonstration says of it.
func TestGuardedAnswersWithinPatience(t *testing.T) {
	if maxWait+nap > patience/2 {
		t.Errorf("%v in the queue and %v at work are not well within %v", maxWait, nap, patience)
	}
	if most := rate(maxLoad) * patience.Seconds(); most*1.1 > sessions {
		t.Errorf("%d sessions are too few for %g clients that wait", sessions, most)
	}
}

func TestSchedule(t *testing.T) {
	list := schedule(30 * time.Second)
	var total time.Duration
	for _, s := range list {
		total += s.length
		if s.name == "" || s.load < minLoad || s.load > maxLoad {
			t.Errorf("%+v is not complete", s)
		}
	}
	if len(list) != after+1 || total != 30*time.Second {
		t.Errorf("%v in all: %+v", total, list)
	}
	if list[goodDay].load >= 1 || list[overload].load < 2 || list[after].load != list[goodDay].load {
		t.Errorf("the phases are not what the report takes them for: %+v", list)
	}
	for at, want := range map[time.Duration]string{
		0: "good day", 6*time.Second - 1: "good day", 6 * time.Second: "overload", 29 * time.Second: "after", 30 * time.Second: "",
	} {
		if got := nameAt(list, at); got != want {
			t.Errorf("%v is in %q, want %q", at, got, want)
		}
	}
}

// The requests of a run are those of its phases, and the same each time.
func TestLoad(t *testing.T) {
	list := schedule(60 * time.Second)
	l := load(list)
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	n := make([]int, len(list))
	for a := range l.Arrivals() {
		i := slices.IndexFunc(list, func(s stretch) bool { return s.name == nameAt(list, a.Due) })
		n[i]++
		if a.Work != nap {
			t.Fatalf("%v of work", a.Work)
		}
	}
	for i, s := range list {
		want := rate(s.load) * s.length.Seconds()
		if math.Abs(float64(n[i])-want) > 4*math.Sqrt(want) {
			t.Errorf("%s: %d arrivals, want about %g", s.name, n[i], want)
		}
	}
	again := load(list)
	if !slices.Equal(slices.Collect(l.Arrivals()), slices.Collect(again.Arrivals())) {
		t.Error("the second run has other arrivals")
	}
}

func TestPromises(t *testing.T) {
	good := func() *result { return &result{servers: budget, phases: make([]part, 3)} }
	if err := broken([]*result{good(), good()}); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*result){
		"budget":   func(r *result) { r.servers++ },
		"sessions": func(r *result) { r.lost = 1 },
		"errors":   func(r *result) { r.phases[1].failed = 2 },
	} {
		bad := good()
		spoil(bad)
		if err := broken([]*result{good(), bad}); !errors.Is(err, ErrBroken) {
			t.Errorf("%s: %v", name, err)
		}
		said := 0
		for _, p := range promises() {
			if !p.kept(bad) && p.broken(bad) != "" {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%s: %d sentences say so", name, said)
		}
	}
}

func TestLessonsOfAnything(t *testing.T) {
	blank := func() *result {
		r := &result{}
		for _, s := range schedule(15 * time.Second) {
			r.phases = append(r.phases, part{stretch: s})
		}
		return r
	}
	with := func(change func(*result)) *result {
		r := blank()
		change(r)
		return r
	}
	cases := map[string]struct {
		of   *result
		want string
	}{
		"nobody gave up": {blank(), "no overload"},
		"nobody refused": {blank(), "no overload"},
		"all refused":    {with(func(r *result) { r.phases[overload].refused = bench.Times{1} }), "no overload"},
		"some gave up":   {with(func(r *result) { r.phases[overload].gaveUp = 1 }), "100 % gave up"},
		"without waste":  {with(func(r *result) { r.phases[overload].gaveUp = 1 }), "!for nobody"},
		"with waste":     {with(func(r *result) { r.phases[overload].gaveUp = 1; r.executed = 7 }), "7 statements for nobody"},
		"guarded too busy": {with(func(r *result) {
			r.phases[overload] = part{r.phases[overload].stretch, bench.Times{1}, bench.Times{1}, 3, 0}
		}), "3 gave up, because this machine"},
		"never normal": {blank(), "not back to normal in 4 s"},
		"at once":      {with(func(r *result) { r.isNormal = true }), "back to normal at once"},
		"soon":         {with(func(r *result) { r.isNormal, r.normal = true, 2*judged }), "back to normal after 0.5 s"},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		c := cases[name]
		text := strings.ReplaceAll(fmt.Sprint(lessons(c.of, c.of)), "too short, or the machine too busy, for an overload", "no overload")
		want, none := strings.CutPrefix(c.want, "!")
		if strings.Contains(text, want) == none {
			t.Errorf("%s: %q in\n%s", name, c.want, text)
		}
	}
}
