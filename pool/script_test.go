package pool_test

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/pool"
)

// TestScripts runs gate and set together from text. The directive new makes
// them; run executes one command per line and prints what comes of each:
//
//	admit N KEY / probe N KEY   session N asks for a ticket for KEY
//	withdraw N, done N, broken N
//	ok S, fail S, refuse S      the dial of server S ends (refuse: permanently)
//	eof S, break S, hold S, unhold S
//	at MS                       time goes on to MS, whatever is due happens on the way
//	resize N, slots N, max-wait MS, close-all, drain
//	show                        both, in one line
//
// Servers are called s1, s2, ... in the order of their dials.
func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		var w *world
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "new":
				w = scriptWorld(t, d)
				return ""
			case "run":
				return w.script(t, d)
			}
			d.Fatalf(t, "no such directive: %s", d.Cmd)
			return ""
		})
	})
}

// scriptWorld makes a world without randomness from a directive's arguments.
func scriptWorld(t *testing.T, d *datadriven.TestData) *world {
	arg := func(name string) (n int64) {
		d.MaybeScanArgs(t, name, &n)
		return n
	}
	p := admission.Plan{
		Slots: int(arg("slots")), ProbeWaiting: int(arg("probe-waiting")),
		Workloads: []admission.Workload{{MaxWait: arg("max-wait") * ms, MaxWaiting: int(arg("max-waiting"))}},
	}
	o := pool.Options{
		Budget: int(arg("budget")), ConnectParallel: int(arg("parallel")), ConnectRate: float64(arg("rate")),
		Lifetime: arg("lifetime") * ms, IdleTimeout: arg("idle-timeout") * ms,
	}
	if !d.HasArg("rate") {
		o.ConnectRate = 100
	}
	if limit := int(arg("key-limit")); limit > 0 {
		o.KeyLimit = func(admission.Key) int { return limit }
	}
	w := newWorld(p, o, func() float64 { return 0.5 }, 32, 1)
	w.now = 0
	return w
}

// script executes the lines of one run directive.
func (w *world) script(t *testing.T, d *datadriven.TestData) string {
	var out strings.Builder
	w.log = func(format string, args ...any) {
		fmt.Fprintf(&out, "  %d: "+format+"\n", append([]any{w.now / ms}, args...)...)
	}
	for line := range strings.Lines(d.Input) {
		line = strings.TrimSpace(line)
		fmt.Fprintf(&out, "%s\n", line)
		f := strings.Fields(line)
		if !w.command(f[0], f[1:]) {
			d.Fatalf(t, "bad command: %s", line)
		}
		if err := w.check(); err != nil {
			d.Fatalf(t, "after %q: %v", line, err)
		}
	}
	return out.String()
}

func (w *world) command(name string, args []string) bool {
	n := make([]int, 2)
	for i, a := range args {
		n[i], _ = strconv.Atoi(a)
	}
	if len(args) > 0 && args[0][0] == 's' {
		sv := w.names[args[0]]
		return sv != nil && w.serverCommand(name, sv)
	}
	s := w.sessions[n[0]%len(w.sessions)]
	switch name {
	case "admit", "probe":
		s.w.Key = admission.Key(n[1])
		w.admit(s, name == "probe")
	case "withdraw":
		w.withdraw(s)
	case "done":
		w.finish(s, false)
	case "broken":
		w.finish(s, true)
	case "at":
		w.until(int64(n[0]) * ms)
	case "resize":
		w.setBudget(n[0])
	case "slots", "max-wait":
		p := w.plan
		if name == "slots" {
			p.Slots = n[0]
		} else {
			p.Workloads[0].MaxWait = int64(n[0]) * ms
		}
		w.reconfigure(p, w.opts)
	case "close-all":
		w.set.CloseAll(w.now)
		w.deliver()
	case "drain":
		w.pending = w.gate.Drain(w.now, w.pending)
		w.deliver()
	case "show":
		w.show()
	default:
		return false
	}
	return true
}

func (w *world) serverCommand(name string, sv *pool.Server) bool {
	at := func(list []*pool.Server) int {
		for i, x := range list {
			if x == sv {
				return i
			}
		}
		return -1
	}
	switch dial, cancel := at(w.dials), at(w.cancels); {
	case name == "ok" && dial >= 0, name == "fail" && dial >= 0, name == "refuse" && dial >= 0:
		w.dialled(dial, name == "ok", name == "refuse")
	case name == "doubt":
		w.doubt(sv)
	case name == "eof":
		w.eof(sv)
	case name == "break":
		w.set.Break(w.now, sv)
		w.deliver()
	case name == "hold":
		w.hold(sv)
	case name == "unhold" && cancel >= 0:
		w.unhold(cancel)
	default:
		return false
	}
	return true
}

// until lets time go on to at, stopping wherever gate or set want to act.
func (w *world) until(at int64) {
	for {
		next := w.fire()
		if w.problem != nil || next > at {
			break
		}
		w.advance(next)
	}
	w.advance(at)
	if next := w.fire(); next != math.MaxInt64 {
		w.print("next at %d", next/ms)
	}
}

func (w *world) show() {
	gs, ss := w.gate.Stats(), w.set.Stats()
	w.print("%d of %d run (%d lane), %d wait (%d probes); of %d: %d dialling, %d idle, %d busy (%d held), %d closing",
		gs.Running, gs.Slots, gs.Lane, gs.Waiting, gs.Probes,
		ss.Budget, ss.Dialling, ss.Idle, ss.Busy, ss.Held, ss.Closing)
}
