package sim

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime/debug"

	"github.com/pgweir/pgweir/admission"
	"github.com/pgweir/pgweir/cmd/internal/session"
	"github.com/pgweir/pgweir/pool"
	"github.com/pgweir/pgweir/wire"
	"github.com/pgweir/pgweir/wire/relay"
	"github.com/pgweir/pgweir/wire/wiretest"
)

// Options shape a simulated world. Times are in ns.
type Options struct {
	Clients      int
	Roles        int
	Budget       int
	Slots        int
	MaxWait      int64
	MaxWaiting   int
	MaxPrepared  int
	Busy         int64 // statements take up to this long
	Lifetime     int64
	DialFailures int // of 100 logins to a server
	Deaths       int // of 1000 servers die early
	Cancel       bool
	Deadline     int64 // of statements; 0 = none
	Memory       int   // bytes for statements
	TextLimit    int
	Standby      bool // servers refuse BEGIN READ WRITE
	Modes        bool // some clients are in session or statement mode
	Controls     int  // what an administrator does: PAUSE, RESUME, RECONNECT, KILL, reloads
	Shares       bool // workloads have random parts, and lend some of them
	Reserve      int  // places of the budget that only the last role may fill
	Minimum      int  // servers kept open for each role
	ByName       bool // clients that call themselves "two" have another mode
	Drains       bool // in the end pgweir drains
	Outstanding  int  // answers that a client may be owed
	MaxPinned    float64
}

// Result is what a run says of itself.
type Result struct {
	Seed         int64
	Transactions uint64
	Refused      uint64
	Cancels      uint64
	Abandoned    uint64
	Broken       uint64
	Bytes        int
	Events       uint64
	VirtualTime  int64
	Delayed      uint64 // refusals that were held back
	Stopped      [session.Timeouts]uint64
	Pins         uint64 // servers that were kept for what a session had left on them, or were about to be
	PinRefusals  uint64 // statements that would have pinned
}

// world is one simulation.
type world struct {
	clock
	o        Options
	rnd      *rand.Rand
	core     *session.Core
	outcomes *wiretest.Outcomes
	effects  *wiretest.Effects
	clients  []*client
	backends []*backend
	opened   int // server sockets, from the start of the dial to the end of the process
	pid      uint32
	loads    workloads
	rates    *session.Rates // nil = there are none
	rated    int            // what they limit
	dice     *rand.Rand     // for them
	capped   bool           // the roles have ceilings
	stopped  [session.Timeouts]uint64
	twist    func(b []byte) []byte // what becomes of what servers say; nil = nothing
	killing  bool                  // a cancel's fate was unknown, so a server was given up
	draining bool
	fault    error
	fireAt   int64
	turns    int
}

// RandomOptions draws a world from a seed.
func RandomOptions(rnd *rand.Rand) Options {
	o := Options{
		Clients: 1 + rnd.IntN(6), Roles: 1, Budget: 1 + rnd.IntN(3), MaxWait: 50_000_000,
		MaxPrepared: 1 + rnd.IntN(4), Busy: int64(rnd.IntN(3)) * 400_000, Cancel: rnd.IntN(2) == 0,
		Memory: 1 << 20, TextLimit: 1 << 20,
	}
	if rnd.IntN(3) == 0 {
		o.Roles = 2
	}
	o.Slots = max(1, o.Budget-rnd.IntN(2))
	switch rnd.IntN(4) {
	case 0:
		o.MaxWait = 2_000_000
	case 1:
		o.MaxWaiting = 1
	case 2:
		o.MaxWait = 5_000_000_000
	}
	if rnd.IntN(4) == 0 {
		o.DialFailures = 20
	}
	if rnd.IntN(4) == 0 {
		o.Deaths = 400
	}
	if rnd.IntN(3) == 0 {
		o.Lifetime = 30_000_000
	}
	o.Standby = rnd.IntN(3) == 0
	if rnd.IntN(8) == 0 {
		o.TextLimit = 32
	}
	if rnd.IntN(8) == 0 {
		o.Memory = 2000
	}
	o.Modes = rnd.IntN(3) == 0
	if rnd.IntN(3) == 0 {
		o.Controls = 1 + rnd.IntN(6)
	}
	o.Shares = rnd.IntN(2) == 0
	if o.Budget > 1 && rnd.IntN(4) == 0 {
		o.Reserve = 1
		o.Slots = min(o.Slots, o.Budget-o.Reserve)
	}
	if rnd.IntN(4) == 0 {
		o.Minimum = 1 + rnd.IntN(2)
	}
	o.ByName = o.Modes && rnd.IntN(2) == 0
	o.Drains = rnd.IntN(6) == 0
	if rnd.IntN(4) == 0 {
		o.Outstanding = 1 + rnd.IntN(6)
	}
	if rnd.IntN(3) == 0 {
		o.Deadline = 1 + int64(rnd.IntN(3_000_000))
	}
	if rnd.IntN(6) > 0 { // the last draw, so that older seeds keep their worlds
		o.MaxPinned = 0.1 + 0.9*float64(rnd.IntN(2))
	}
	return o
}

// Run plays the world of a seed to its end and checks everything.
func Run(seed int64) (r Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	rnd := rand.New(rand.NewPCG(uint64(seed), 0))
	w := newWorld(seed, rnd, RandomOptions(rnd))
	err = w.play()
	return w.result(seed), err
}

// newWorld is a world of clients who have not begun.
func newWorld(seed int64, rnd *rand.Rand, o Options) *world {
	w := &world{o: o, rnd: rnd, outcomes: wiretest.NewOutcomes(), effects: &wiretest.Effects{}, fireAt: math.MaxInt64}
	w.loads.w = w
	w.loads.draw(false)
	set := pool.New(w.poolOptions())
	gate := admission.New(w.plan(), set, rnd.Float64)
	shared := &relay.Shared{Statements: relay.NewStatements(o.Memory), MaxPrepared: o.MaxPrepared, TextLimit: o.TextLimit, MaxOutstanding: o.Outstanding}
	w.core = session.New(w, shared, gate, set)
	w.limit(seed)
	w.cap(seed)
	for i := range o.Clients {
		c := &client{w: w, id: i}
		script := wiretest.ScriptOptions{Client: fmt.Sprintf("c%d", i)}
		if rnd.IntN(2) == 0 {
			// RESET returns to the server's defaults, not to the start-up
			// packet's: a known difference (see the README).
			c.params = w.startup()
			script.Without = wiretest.Discards | wiretest.Reported | wiretest.Resets
		}
		if o.TextLimit < 100 {
			script.Without |= wiretest.Own | wiretest.Pinned | wiretest.Unreported // of a text that is too long only the beginning may be seen
		}
		if o.Modes {
			c.mode = relay.Mode(rnd.IntN(modes))
		}
		if c.single = c.mode == relay.Single; c.single {
			script.Without |= wiretest.Transactions // which are refused
		}
		c.player = wiretest.NewPlayer(wiretest.Script(rnd, script))
		w.clients = append(w.clients, c)
		w.after(w.delay(5_000_000), c.login)
	}
	for range o.Controls {
		w.after(w.delay(40_000_000), w.administer)
	}
	if o.Drains {
		w.after(w.delay(60_000_000), w.drain)
	}
	return w
}

// result is what became of it.
func (w *world) result(seed int64) Result {
	counts := w.core.Counts()
	r := Result{
		Seed: seed, Transactions: counts.Transactions, Refused: counts.Refused, Cancels: counts.Cancels,
		Stopped: w.stopped, Abandoned: counts.Abandoned, Broken: counts.Broken, Events: w.seq, VirtualTime: w.now,
	}
	for _, st := range w.core.Gate().Stats().Workloads {
		r.Pins += st.Pins
		r.PinRefusals += st.Refused[admission.Pins]
	}
	if w.rates != nil {
		r.Delayed = w.rates.Escalation(w.now).Delayed
	}
	for _, c := range w.clients {
		r.Bytes += len(c.got)
	}
	return r
}

// Refused implements session.Env.
func (w *world) Refused(*session.Client, admission.Verdict, *wire.Error, bool) {}

// startup draws the settings of a client's startup packet.
func (w *world) startup() (list []relay.Param) {
	add := func(name string, values ...string) {
		if w.rnd.IntN(4) == 0 {
			list = append(list, relay.Param{Name: name, Value: values[w.rnd.IntN(len(values))]})
		}
	}
	add("application_name", "web", "batch")
	add("DateStyle", "German", "ISO, DMY")
	add("TimeZone", "UTC", "Europe/Berlin")
	add("search_path", "a", "b, public")
	add("work_mem", "8MB")
	return list
}

func (w *world) role(client int) string { return fmt.Sprintf("role%d", client%w.o.Roles) }

// delay draws a time of up to about d ns, mostly short.
func (w *world) delay(d int64) int64 {
	if d <= 0 || w.rnd.IntN(3) == 0 {
		return 1
	}
	return 1 + w.rnd.Int64N(d)
}

// open counts a server socket that opens or has ended, and checks the budget: after it
// shrank nothing is opened until enough has ended.
func (w *world) open(n int) {
	w.opened += n
	if n > 0 && w.opened > w.o.Budget {
		w.fail(fmt.Errorf("budget exceeded: %d server connections of %d", w.opened, w.o.Budget))
	}
}

func (w *world) fail(err error) {
	if w.fault == nil {
		w.fault = err
	}
}

// afterHandler does what the event loop does at the end of a turn.
func (w *world) afterHandler() bool {
	w.inspect()
	if w.core.TimerChanged() {
		w.fire()
	}
	if w.core.TimerLazy() {
		w.fireBy(w.now + session.Lazy)
	}
	return true
}

// fire runs what is due and plans the next time.
func (w *world) fire() {
	next := w.core.Fire(w.now)
	w.core.TimerChanged()
	w.fireBy(next)
}

// fireBy plans the next fire for no later than next.
func (w *world) fireBy(next int64) {
	if next == math.MaxInt64 || next >= w.fireAt && w.fireAt > w.now {
		return
	}
	w.fireAt = max(next, w.now+1)
	w.after(w.fireAt-w.now, func() {
		w.fireAt = math.MaxInt64
		w.fire()
	})
}

// Ended implements session.Env.
func (w *world) Ended(cl *session.Client, reason session.Reason) {
	c := cl.Tag.(*client)
	if c.ended {
		w.fail(fmt.Errorf("client %d ended twice", c.id))
	}
	c.ended, c.reason = true, reason
}

// maxEvents bounds a run; more means that something goes round in circles.
const maxEvents = 2_000_000

// horizon is the virtual time by which everything must have come to rest.
const horizon = 600_000_000_000

// play runs events until every client is done, then lets idle servers go and
// checks what is left.
func (w *world) play() error {
	for !w.done() {
		if !w.step(horizon) {
			return errors.Join(w.fault, w.stuck())
		}
		if w.seq > maxEvents {
			return errors.New("too many events")
		}
		if w.fault != nil {
			return w.fault
		}
	}
	w.o.Minimum = 0
	w.reload(false)
	settle := w.now + 20_000_000_000
	for w.step(settle) {
		if w.fault != nil {
			return w.fault
		}
	}
	return w.check()
}

// done reports whether every client has played its script and every session is
// over.
func (w *world) done() bool {
	for _, c := range w.clients {
		if !c.ended || c.welcome && !c.player.Done() {
			return false
		}
	}
	return true
}

// stuck says who waits for what when nothing happens any more.
func (w *world) stuck() error {
	for _, c := range w.clients {
		if !c.ended || !c.player.Done() {
			return fmt.Errorf("client %d is stuck: %s\nconn %+v\n%s(welcome %v, waits for op %d, session ended %v)\nsent\n%s\ngot\n%s",
				c.id, c.cl, c.conn.String(), w.servers(), c.welcome, c.player.Waiting(), c.ended, wiretest.DumpFrontend(c.sent), wiretest.DumpBackend(c.got))
		}
	}
	return errors.New("stuck")
}

// add sums up results.
func (r *Result) add(o Result) {
	r.Seed = o.Seed
	r.Transactions += o.Transactions
	r.Refused += o.Refused
	r.Cancels += o.Cancels
	r.Abandoned += o.Abandoned
	r.Broken += o.Broken
	r.Bytes += o.Bytes
	r.Events += o.Events
	r.VirtualTime += o.VirtualTime
	r.Delayed += o.Delayed
	for t, n := range o.Stopped {
		r.Stopped[t] += n
	}
	r.Pins += o.Pins
	r.PinRefusals += o.PinRefusals
}
