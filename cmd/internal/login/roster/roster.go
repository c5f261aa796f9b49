package roster

import (
	"container/list"
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// maxRoles is how many answers are kept: those about roles that have a secret or exist
	// stay longest.
	maxRoles = 10_000
	// Fresh is for how long an answer counts without asking again.
	Fresh = 5 * time.Second
	// askTime bounds a question. Then an older answer has to do.
	askTime = 3 * time.Second
	// downTime is for how long nothing is asked after Postgres could not be.
	downTime = time.Second
	// doubtTime is the age of an answer that a failed login throws away: the password may
	// have been changed since.
	doubtTime = time.Second
)

// Options say how a Roster asks, and for how long it may believe.
type Options struct {
	// Ask asks Postgres. It is called from any goroutine.
	Ask func(ctx context.Context, role string) (Role, error)
	// Age is how old an answer may get while Postgres cannot be asked. Below Fresh it
	// takes its place.
	Age time.Duration
	Now func() time.Time // nil: time.Now
}

// QueryError is an error of the question about one role: others may have an answer.
type QueryError struct{ Err error }

// Error returns the text for logs.
func (e *QueryError) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e *QueryError) Unwrap() error { return e.Err }

// Stats are counters of a Roster.
type Stats struct {
	Asked     uint64 // questions to Postgres
	Failed    uint64 // of these without an answer
	Cached    uint64 // answers from before that were still fresh
	Stale     uint64 // older ones that were taken because Postgres could not be asked
	Kept      int    // answers that are kept
	Strangers int    // of these about roles that there are not
}

// Roster keeps answers. Its methods may be called from any goroutine.
type Roster struct {
	o Options

	mu        sync.Mutex
	entries   map[string]*list.Element // of *entry
	known     list.List                // about roles that there are, the one used last first
	strangers list.List                // about others
	calls     map[string]*call
	downUntil time.Time
	down      error
	stats     Stats
}

type entry struct {
	name string
	role Role
	in   *list.List
}

// call is a question under way.
type call struct {
	done chan struct{}
	role Role
	err  error
}

// New makes a Roster that knows nothing.
func New(o Options) *Roster {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Roster{o: o, entries: make(map[string]*list.Element), calls: make(map[string]*call)}
}

// Role returns what is known of a role, or asks. ctx bounds the wait of the caller, not the
// question, which serves others, too. The error says why nobody knows.
func (r *Roster) Role(ctx context.Context, name string) (Role, error) {
	r.mu.Lock()
	now := r.o.Now()
	old, have := r.lookupLocked(name)
	age := now.Sub(old.Received)
	if have && age < min(Fresh, r.o.Age) {
		r.stats.Cached++
		r.mu.Unlock()
		return old, nil
	}
	have = have && age < r.o.Age
	if r.down != nil && now.Before(r.downUntil) {
		defer r.mu.Unlock()
		return r.settleLocked(old, have, r.down)
	}
	c := r.calls[name]
	if c == nil {
		c = &call{done: make(chan struct{})}
		r.calls[name] = c
		go r.ask(name, c)
	}
	r.mu.Unlock()
	err := error(nil)
	select {
	case <-c.done:
		if err = c.err; err == nil {
			return c.role, nil
		}
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settleLocked(old, have, err)
}

// settleLocked takes the answer from before, if there is one that counts.
func (r *Roster) settleLocked(old Role, have bool, err error) (Role, error) {
	if !have {
		return Role{}, err
	}
	r.stats.Stale++
	return old, nil
}

// ask asks Postgres for all who wait.
func (r *Roster) ask(name string, c *call) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	c.role, c.err = r.o.Ask(ctx, name)
	now := r.o.Now()
	c.role.Received = now
	r.mu.Lock()
	defer r.mu.Unlock()
	defer close(c.done)
	delete(r.calls, name)
	r.stats.Asked++
	if c.err != nil {
		r.stats.Failed++
		if _, alone := errors.AsType[*QueryError](c.err); !alone {
			r.down, r.downUntil = c.err, now.Add(downTime)
		}
		return
	}
	r.down = nil
	r.keepLocked(name, c.role)
}

func (r *Roster) lookupLocked(name string) (Role, bool) {
	e := r.entries[name]
	if e == nil {
		return Role{}, false
	}
	it := e.Value.(*entry)
	it.in.MoveToFront(e)
	return it.role, true
}

// keepLocked remembers an answer, and forgets another if there are too many: first of those
// about strangers, whose names anybody can think of.
func (r *Roster) keepLocked(name string, role Role) {
	r.forgetLocked(name)
	it := &entry{name, role, &r.known}
	if !role.Exists && role.Secret.IsZero() {
		it.in = &r.strangers
	}
	for len(r.entries) >= maxRoles {
		oldest := r.strangers.Back()
		if oldest == nil {
			oldest = r.known.Back()
		}
		r.forgetLocked(oldest.Value.(*entry).name)
	}
	r.entries[name] = it.in.PushFront(it)
}

func (r *Roster) forgetLocked(name string) {
	if e := r.entries[name]; e != nil {
		e.Value.(*entry).in.Remove(e)
		delete(r.entries, name)
	}
}

// Doubt says that a login by an answer has failed: unless it is quite new it will not be
// used again. An answer must still be there when Postgres is not, so it is only made to be
// asked for again.
func (r *Roster) Doubt(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	role, have := r.lookupLocked(name)
	if !have || r.o.Now().Sub(role.Received) < doubtTime {
		return
	}
	if fresh := min(Fresh, r.o.Age); r.o.Now().Sub(role.Received) < fresh {
		role.Received = r.o.Now().Add(-fresh)
		r.entries[name].Value.(*entry).role = role
	}
}

// Forget makes it know nothing.
func (r *Roster) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.entries)
	r.known.Init()
	r.strangers.Init()
	r.down = nil
}

// Stats returns the counters.
func (r *Roster) Stats() Stats {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.stats
	s.Kept, s.Strangers = len(r.entries), r.strangers.Len()
	return s
}
