package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/pgweir/pgweir/cmd/internal/login"
)

// dial is one Dial. One goroutine owns it; each attempt is a goroutine that tells it
// events.
type dial struct {
	c      *Cluster
	o      *Options
	target login.Target

	queue   []*candidate // not begun, the best first
	later   []*candidate // excluded until their role is no longer believed
	running int          // attempts whose end has not been told
	front   *candidate   // the attempt that is waited for; nil: none, begin the next
	timer   *time.Timer
	events  chan event

	spare   *event          // of a session that will do if nothing better is found
	reasons map[Place]error // why a place did not serve
}

// candidate is an address that can be tried, or a name to be resolved.
type candidate struct {
	place Place // Address is empty for a name
	key   string
	rank  rank

	due        time.Time // excluded: until then
	began      time.Time
	deadline   time.Time // while in front
	given      bool      // it is no longer waited for, and that was noted as a failure
	probe      bool      // we are the one that tries it
	generation uint64    // of the cluster when it was begun
}

// event is what an attempt tells.
type event struct {
	k       *candidate
	stage   stage
	addrs   []Place
	session *Session
	known   bool // role is known
	role    role
	err     error
}

// stage of an attempt. All but connected are its end.
type stage uint8

const (
	connected stage = iota
	resolved
	served
	refused // by err
)

// plan makes the queue.
func (d *dial) plan(now time.Time) {
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	hosts := slices.Clone(d.o.Hosts)
	if i := slices.Index(hosts, d.c.current.Host); i > 0 {
		hosts = slices.Insert(slices.Delete(hosts, i, i+1), 0, d.c.current.Host)
	}
	for _, h := range hosts {
		address, name, _, err := h.address()
		switch {
		case err != nil:
			d.reasons[Place{Host: h}] = err
		case name != "":
			d.add(&candidate{place: Place{Host: h}, key: h.Address}, now)
		default:
			d.add(&candidate{place: Place{h, address}, key: address}, now)
		}
	}
	d.sort()
}

// add judges a candidate and puts it where it belongs. c.mu is held.
func (d *dial) add(k *candidate, now time.Time) {
	if h := d.c.known[k.key]; h != nil {
		k.rank = h.rank(d.o.Attrs, now)
		if k.rank == excluded {
			k.due = h.roleEnd
			d.reasons[k.place] = wrongRole{role{standby: h.standby}}
			d.later = append(d.later, k)
			return
		}
	}
	d.queue = append(d.queue, k)
}

// sort orders the queue by rank, else as it was.
func (d *dial) sort() {
	slices.SortStableFunc(d.queue, func(a, b *candidate) int { return int(a.rank) - int(b.rank) })
}

// run tries candidates until one serves or none is left.
func (d *dial) run(ctx context.Context) (s *Session, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer func() { stop(); d.settle(s) }()
	for {
		now := time.Now()
		d.askAgain(now)
		if d.impatient(ctx) && !now.Before(d.front.deadline) {
			d.giveUp(now)
		}
		if d.front == nil && len(d.queue) > 0 && ctx.Err() == nil && !d.content() {
			d.begin(ctx, now)
			continue
		}
		if d.spare != nil && !cancelled(ctx) && (d.content() || d.running == 0) {
			return d.win(*d.spare), nil
		}
		if d.running == 0 {
			return nil, d.failure(ctx)
		}
		d.timer.Reset(d.wait(ctx, now))
		select {
		case e := <-d.events:
			if s, err := d.take(ctx, e); s != nil || err != nil {
				return s, err
			}
		case <-d.timer.C:
		}
	}
}

// content reports whether there is a spare session and nothing better to hope for.
func (d *dial) content() bool {
	if d.spare == nil {
		return false
	}
	hope := func(k *candidate) bool { return k.rank == promising }
	return !(d.front != nil && hope(d.front)) && !slices.ContainsFunc(d.queue, hope)
}

// impatient reports whether there is something to do instead of waiting for the
// front.
func (d *dial) impatient(ctx context.Context) bool {
	return d.front != nil && ctx.Err() == nil && (len(d.queue) > 0 || d.spare != nil)
}

// cancelled reports whether the caller wants no more, as opposed to the end of
// ConnectTimeout.
func cancelled(ctx context.Context) bool {
	_, timeout := context.Cause(ctx).(timeoutError)
	return ctx.Err() != nil && !timeout
}

// wait is how long nothing is to be done but to listen.
func (d *dial) wait(ctx context.Context, now time.Time) time.Duration {
	wait := never
	if d.impatient(ctx) {
		wait = d.front.deadline.Sub(now)
	}
	for _, k := range d.later {
		wait = min(wait, k.due.Sub(now))
	}
	return max(wait, 0)
}

// askAgain queues those whose role is no longer believed.
func (d *dial) askAgain(now time.Time) {
	if !slices.ContainsFunc(d.later, func(k *candidate) bool { return !now.Before(k.due) }) {
		return
	}
	d.c.mu.Lock()
	defer d.c.mu.Unlock()
	later := d.later
	d.later = nil
	for _, k := range later {
		// Another Dial may have asked it: then k waits on.
		d.add(k, now)
	}
	d.sort()
}

// begin tries the first of the queue.
func (d *dial) begin(ctx context.Context, now time.Time) {
	k := d.queue[0]
	if !d.c.begin(k, k.rank == bad || len(d.queue) == 1) {
		k.rank = bad
		d.sort()
		return
	}
	d.queue = d.queue[1:]
	d.front = k
	k.began, k.deadline = now, now.Add(connectPatience)
	d.running++
	if k.place.Address == "" {
		go func() { d.events <- d.resolve(ctx, k) }()
	} else {
		go func() { d.events <- d.attempt(ctx, k) }()
	}
}

// giveUp stops waiting for the front.
func (d *dial) giveUp(now time.Time) {
	k := d.front
	d.front = nil
	k.given = true
	err := timeoutError{now.Sub(k.began).Round(time.Millisecond)}
	d.reasons[k.place] = err
	d.c.failed(d.o, k, err)
}

// connectedAt gives the front the time that a log-in may take.
func (d *dial) connectedAt(ctx context.Context, k *candidate, now time.Time) {
	patience := never
	if deadline, ok := ctx.Deadline(); ok {
		patience = deadline.Sub(now) / time.Duration(len(d.queue)+len(d.later)+1)
	}
	if d.o.Attrs != Any {
		patience = min(patience, loginPatience)
	}
	k.deadline = now.Add(max(patience, connectPatience))
}
